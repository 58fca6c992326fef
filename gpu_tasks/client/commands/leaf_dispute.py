"""`dispute` about a unit: a customer computes requests of its batch again, and calls the first wrong answer so."""

from __future__ import annotations

import asyncio
from typing import Any

from cli.calls import NothingToSend, PlannedCall
from cli.session import WalletSession, note
from gpu_tasks.client.batches.leaf_looks import WrongLeaf, first_wrong, is_early, require_disputable, why_checked
from gpu_tasks.client.commands.calls import planned
from gpu_tasks.client.results import PaidOutput, ResultError, paid_output, progress
from gpu_tasks.client.watch import moments
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.market.leaf_checks.checks import LeafCheck
from gpu_tasks.market.leaf_checks.fees import dispute_bond
from wallet.amounts import Grains
from wallet.client import ChainClient
from wallet.keypair import Keypair


async def leaf_dispute(
    session: WalletSession,
    client: ChainClient,
    key: Keypair,
    unit_id: bytes,
    unit: Unit,
    leaf: int | None,
    backend: str,
) -> PlannedCall | NothingToSend:
    """The call that disputes a leaf, or the first wrong one of all, if there is one. Ask `require_not_late` first.

    ResultError for a leaf that was named and is right: whoever names one calls it wrong.
    """
    final = await client.finalized()
    with session.doing("what was asked and answered is fetched from the stores"):
        async with BlobClient(private=market_reads.is_development(client)) as blobs:
            paid = await paid_output(client, blobs, key, unit_id, unit, final)
    wrong = await _looked_at(session, client.genesis_hash, unit_id, paid, leaf, backend)
    if wrong is None:
        return all_right({"unit": unit_id, "state": progress(unit)}, len(paid.requests), "answer")
    with session.doing("a wrong answer is found; its check has to be through before it can be disputed"):
        check = await _opened(client, unit_id, unit)
    bond = dispute_bond(check.terms.judge_fee)
    facts: dict[str, Any] = {
        "unit": unit_id,
        "state": progress(unit),
        "leaf": wrong.index,
        "disputable_up_to_block": check.deadline,
        "bond": Grains(bond),
        "gone_if_lost": Grains(bond),
        "brings_if_won": Grains(check.terms.price),
        "then": f"judges compute it: ogpu watch 0x{unit_id.hex()}",
    }
    return planned(session.output, wrong.dispute(unit_id), facts, locks=bond)


async def require_not_late(client: ChainClient, unit_id: bytes, unit: Unit, final: bytes) -> None:
    """ResultError for a unit whose leaves can no longer be disputed."""
    check = await market_reads.check(client, unit_id, final)
    if not is_early(check):
        require_disputable(unit, check, await client.height(final))


async def _opened(client: ChainClient, unit_id: bytes, unit: Unit) -> LeafCheck:
    """The check as soon as leaves can be disputed: that time is short, so who computes begins before. ResultError."""
    told, ticks = None, moments(client)
    while True:
        final = await client.finalized()
        check = await market_reads.check(client, unit_id, final)
        if check is None or not is_early(check):
            return require_disputable(unit, check, await client.height(final))
        if check.stage is not told:
            told = check.stage
            note(f"a wrong answer is found, and can be disputed once its check is through: {why_checked(check)}")
        await anext(ticks)


async def _looked_at(
    session: WalletSession, genesis: bytes, unit_id: bytes, paid: PaidOutput, leaf: int | None, backend: str
) -> WrongLeaf | None:
    """What is wrong of all, or of the one leaf that is named; ResultError if that one is right.

    It is computed beside the loop that talks to the node: a connection that is silent for long is closed.
    """
    indices = range(len(paid.requests)) if leaf is None else (leaf,)
    tenths, counted = Tenths(len(indices), "requests"), f"{len(indices):,} request{'' if len(indices) == 1 else 's'}"
    with session.doing(f"this machine computes {counted} again, on {backend}; ending this loses what it computed"):
        try:
            wrong = await asyncio.to_thread(first_wrong, genesis, unit_id, paid, indices, backend, tenths)
        finally:
            tenths.is_over = True
    if wrong is None and leaf is not None:
        raise ResultError(f"leaf {leaf} is right, as this machine computes it: a dispute would be lost")
    return wrong


def all_right(facts: dict[str, Any], count: int, noun: str) -> NothingToSend:
    """Say that everything was computed here, and nothing is wrong."""
    result = f"every {noun} is the one that this machine computes: there is nothing to dispute"
    return NothingToSend({**facts, "computed": count, "agree": count, "result": result})


class Tenths:
    """Say on the screen how much is computed, by the tenth."""

    def __init__(self, count: int, noun: str) -> None:
        """`noun` in the plural."""
        self._count, self._noun, self._said = count, noun, -1
        self.is_over = False
        """Whether nobody waits for it any more: then computing ends with the next request."""

    def __call__(self, done: int) -> None:
        """Hear that so many are computed; ResultError once nobody waits."""
        if self.is_over:
            raise ResultError("it was interrupted")
        tenths = 10 * done // self._count
        if tenths != self._said:
            self._said = tenths
            note(f"computing: {10 * tenths} % of {self._count} {self._noun}")
