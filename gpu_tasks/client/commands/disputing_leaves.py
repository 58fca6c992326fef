"""`dispute` about a unit: a customer computes requests of its batch again, and calls the first wrong answer so."""

from __future__ import annotations

from typing import Any

from gpu_tasks.client.batches.leaf_looks import WrongLeaf, first_wrong, is_early, require_disputable, why_checked
from gpu_tasks.client.commands.sending import planned
from gpu_tasks.client.results import PaidOutput, ResultError, paid_output, progress
from gpu_tasks.client.watching import moments
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.market.leaf_checks.checks import LeafCheck
from gpu_tasks.market.leaf_checks.fees import dispute_bond
from wallet.client import ChainClient
from wallet.commands.making import PlannedCall
from wallet.keypair import Keypair
from wallet.output import Grains
from wallet.session import WalletSession, note


async def leaf_dispute(
    session: WalletSession,
    client: ChainClient,
    key: Keypair,
    unit_id: bytes,
    unit: Unit,
    leaf: int | None,
    backend: str,
) -> PlannedCall:
    """The call that disputes a leaf, or the first wrong one of all; ResultError where none can be, or all are right."""
    final = await client.finalized()
    check = await market_reads.check(client, unit_id, final)
    if not is_early(check):
        require_disputable(unit, check, await client.height(final))
    async with BlobClient(private=market_reads.is_development(client)) as blobs:
        paid = await paid_output(client, blobs, key, unit_id, unit, final)
    wrong = _looked_at(client.genesis_hash, unit_id, paid, leaf, backend)
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


def _looked_at(genesis: bytes, unit_id: bytes, paid: PaidOutput, leaf: int | None, backend: str) -> WrongLeaf:
    indices = range(len(paid.requests)) if leaf is None else (leaf,)
    wrong = first_wrong(genesis, unit_id, paid, indices, backend, _Tenths(len(indices)))
    if wrong is None:
        what = f"leaf {leaf} is" if leaf is not None else f"all {len(paid.requests)} answers are"
        raise ResultError(f"{what} right, as this machine computes it: a dispute would be lost")
    return wrong


class _Tenths:
    """Says on the screen how many requests are computed, by the tenth."""

    def __init__(self, count: int) -> None:
        self._count, self._said = count, -1

    def __call__(self, done: int) -> None:
        tenths = 10 * done // self._count
        if tenths != self._said:
            self._said = tenths
            note(f"computing: {10 * tenths} % of {self._count} requests")
