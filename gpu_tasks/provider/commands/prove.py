"""`prove`: recompute a task, and prove fraud if its result is wrong."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from cli import calls
from cli.session import note
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.blobs.inputs import Inputs
from gpu_tasks.provider.blobs.store import BlobStore
from gpu_tasks.provider.chain.live import LiveChain
from gpu_tasks.provider.chain.port import ChainPort, Identity
from gpu_tasks.provider.commands.calls import make
from gpu_tasks.provider.commands.options import ProviderError, ProviderOptions, made_base_path, told
from gpu_tasks.provider.commands.run import connect, hardware_for, workshop_of
from gpu_tasks.provider.commands.walls import WHERE_POSSIBLE, walls_for
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.earnings import EARNINGS_FILE, LOSSES_FILE, EarningsBook, LossBook
from gpu_tasks.provider.execution.worker_start import chosen_backend
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.pause_book import PauseBook
from gpu_tasks.provider.registration import Planned
from gpu_tasks.provider.tasks.fraud_search import Fraud, Step, forget, found_or_searched
from gpu_tasks.provider.telemetry import LogTelemetry
from wallet.amounts import Grains
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet.trust import hash_typed

SECONDS_WITHOUT_FINAL = 180.0
"""A running chain has a final block every few seconds, so a longer wait is useless."""
OTHER_CLAIM = (
    "the stash made another claim in block {block}, and the chain takes one at a time. Repeat the command with that "
    "claim's --base-path and key to show its proof, or wait until another claim replaces it and its bond is lost"
)
FinalThing = TypeVar("FinalThing")


def prove(options: ProviderOptions, task: str, backend: str | None, dry_run: bool, yes: bool) -> None:
    """Recompute a task, and prove fraud if its result is wrong."""
    task_id = hash_typed(task)
    found: list[tuple[Identity, Fraud | None]] = []

    async def look() -> None:
        if task_id is None:
            raise ProviderError(f"{task!r} is not a task. Write 0x and 64 hex digits", code="not_a_task")
        calls.require_somebody_to_ask(is_asked=not (dry_run or yes))  # now, and not after hours of computing
        found.append(await _looked_at(options, task_id, backend))

    asyncio.run(told(look))
    assert task_id is not None, "what is no task was refused"
    identity, fraud = found[0]
    if fraud is None:
        options.output.facts({"task": f"0x{task_id.hex()}", "result": "right", "sent": False})
        return
    commitment = fraud.commitment(identity, task_id)

    async def claim(client: ChainClient, _: Keypair) -> list[Planned]:
        earlier_claim = await client.read(TrainingMarket.claims, task_id, identity.stash)
        if earlier_claim is not None and earlier_claim.commitment == commitment:
            note("the claim is on the chain. Only the proof is missing")
            return []
        if earlier_claim is not None:
            raise ProviderError(OTHER_CLAIM.format(block=earlier_claim.made_at), code="other_claim")
        call = TrainingMarket.claim_fraud(task=task_id, commitment=commitment)
        return [Planned(call, fraud.bond, "bond", identity.stash, _fraud_facts(fraud))]

    async def proof(client: ChainClient, _: Keypair) -> list[Planned]:
        await _until_it_may_be_opened(client, task_id, identity.stash)
        fraud_salt = fraud.salt(identity, task_id)
        return [Planned(TrainingMarket.show_fraud(task=task_id, place=fraud.place, proof=fraud.proof, salt=fraud_salt))]

    make(options.session, lambda: options.key, claim, dry_run=dry_run, is_agreed=yes)
    # The stored proof goes only after it is sent: a claim without its proof loses the bond.
    if not dry_run:
        # The claim was confirmed, and its bond burns without the proof, so nothing is asked again.
        make(options.session, lambda: options.key, proof, dry_run=False, is_agreed=True)
        forget(options.base_path, task_id)


async def _until_it_may_be_opened(client: ChainClient, task_id: bytes, stash: bytes) -> None:
    """Wait for a final block after the claim's. No proof can follow in the claim's own block, not even on trial."""
    earlier_claim = await client.read(TrainingMarket.claims, task_id, stash)
    async for _ in in_time(await client.finalized_heads()):
        if earlier_claim is None or await client.height(await client.finalized()) > earlier_claim.made_at:
            return


async def in_time(
    final_blocks: AsyncIterator[FinalThing], waiting_seconds: float = SECONDS_WITHOUT_FINAL
) -> AsyncIterator[FinalThing]:
    """Yield the items of final blocks. Raise ProviderError if none comes for `waiting_seconds`."""
    while True:
        try:
            async with asyncio.timeout(waiting_seconds):
                final_block = await anext(final_blocks)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise ProviderError(
                f"no block has become final for {waiting_seconds:.0f} s. Name another node with --url, or repeat the "
                "command when blocks become final again",
                code="no_finality",
            ) from None
        yield final_block


async def _looked_at(
    options: ProviderOptions, task_id: bytes, backend_name: str | None
) -> tuple[Identity, Fraud | None]:
    """Return the prover, and the fraud in a task. Raise CodedError if the task cannot be checked."""
    chain, identity = await connect(options, tell=note)
    try:
        async with _own_parts(options, chain, identity, backend_name) as (parts, base):
            kept_in = made_base_path(options.base_path)
            return identity, await found_or_searched(
                parts, kept_in, base, task_id, _SearchProgress(), in_time(chain.views())
            )
    finally:
        await chain.close()


@contextlib.asynccontextmanager
async def _own_parts(
    options: ProviderOptions, chain: LiveChain, identity: Identity, backend_name: str | None
) -> AsyncIterator[tuple[Parts[ChainPort], Path]]:
    """Yield the parts for computing in a temporary folder, because the daemon of this base path may run."""
    offered_hardware = hardware_for(options)
    workers = workshop_of(
        options, chosen_backend(backend_name, offered_hardware), walls_for(WHERE_POSSIBLE).sandbox, offered_hardware
    )
    with TemporaryDirectory(prefix="prove-", dir=made_base_path(options.base_path)) as folder:
        base = Path(folder)
        blob_store = BlobStore(base / "blobs")
        async with contextlib.AsyncExitStack() as stack:
            blob_client = await stack.enter_async_context(BlobClient(private=chain.is_development))
            stack.push_async_callback(workers.close)
            workers.serve({})
            journal = Journal(base / "journal")
            stack.callback(journal.close)
            parts = Parts(
                identity=identity,
                chain=chain,
                journal=journal,
                workers=workers,
                inputs=Inputs(identity, chain, blob_client, blob_store, LogTelemetry()),
                store=blob_store,
                blobs=blob_client,
                telemetry=LogTelemetry(),
                earnings=EarningsBook(base / EARNINGS_FILE),
                losses=LossBook(base / LOSSES_FILE),
                pauses=PauseBook(base),
            )
            yield parts, base


class _SearchProgress:
    """Prints the progress of a search: each wait once, computing by the tenth."""

    def __init__(self) -> None:
        self._said = ""

    def __call__(self, step: Step) -> None:
        """A step begins."""
        text = f"waiting for {step.waits_for}"
        if not step.waits_for:
            percent = 100 * step.done // step.segments // 10 * 10
            text = f"computing: {percent} % of {step.segments} segments"
        if text != self._said:
            note(text)
        self._said = text


def _fraud_facts(fraud: Fraud) -> dict[str, Any]:
    return {
        "slot": fraud.place,
        "wrong_segment": fraud.proof.index,
        "stated": f"0x{fraud.proof.after.digest.hex()}",
        "right": f"0x{fraud.proof.right.hex()}",
        "reward": Grains(fraud.reward),
    }
