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


def prove(provider_options: ProviderOptions, task: str, backend: str | None, dry_run: bool, yes: bool) -> None:
    """Recompute a task, and prove fraud if its result is wrong."""
    task_id = hash_typed(task)
    found_fraud: list[tuple[Identity, Fraud | None]] = []

    async def look() -> None:
        if task_id is None:
            raise ProviderError(f"{task!r} is not a task. Write 0x and 64 hex digits", code="not_a_task")
        calls.require_somebody_to_ask(is_asked=not (dry_run or yes))  # now, and not after hours of computing
        found_fraud.append(await _looked_at(provider_options, task_id, backend))

    asyncio.run(told(look))
    assert task_id is not None, "what is no task was refused"
    identity, proven_fraud = found_fraud[0]
    if proven_fraud is None:
        provider_options.output.facts({"task": f"0x{task_id.hex()}", "result": "right", "sent": False})
        return
    commitment = proven_fraud.commitment(identity, task_id)

    async def claim(chain_client: ChainClient, _: Keypair) -> list[Planned]:
        earlier_claim = await chain_client.read(TrainingMarket.claims, task_id, identity.stash)
        if earlier_claim is not None and earlier_claim.commitment == commitment:
            note("the claim is on the chain. Only the proof is missing")
            return []
        if earlier_claim is not None:
            raise ProviderError(OTHER_CLAIM.format(block=earlier_claim.made_at), code="other_claim")
        chain_call = TrainingMarket.claim_fraud(task=task_id, commitment=commitment)
        return [Planned(chain_call, proven_fraud.bond, "bond", identity.stash, _fraud_facts(proven_fraud))]

    async def proof(chain_client: ChainClient, _: Keypair) -> list[Planned]:
        await _until_it_may_be_opened(chain_client, task_id, identity.stash)
        fraud_salt = proven_fraud.salt(identity, task_id)
        return [
            Planned(
                TrainingMarket.show_fraud(
                    task=task_id, place=proven_fraud.place, proof=proven_fraud.proof, salt=fraud_salt
                )
            )
        ]

    make(provider_options.session, lambda: provider_options.key, claim, dry_run=dry_run, is_agreed=yes)
    # The stored proof goes only after it is sent: a claim without its proof loses the bond.
    if not dry_run:
        make(provider_options.session, lambda: provider_options.key, proof, dry_run=False, is_agreed=True)
        forget(provider_options.base_path, task_id)


async def _until_it_may_be_opened(chain_client: ChainClient, task_id: bytes, provider_stash: bytes) -> None:
    """Wait for a final block after the claim's. No proof can follow in the claim's own block, not even on trial."""
    earlier_claim = await chain_client.read(TrainingMarket.claims, task_id, provider_stash)
    async for _ in in_time(await chain_client.finalized_heads()):
        if earlier_claim is None or await chain_client.height(await chain_client.finalized()) > earlier_claim.made_at:
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
    provider_options: ProviderOptions, task_id: bytes, backend_name: str | None
) -> tuple[Identity, Fraud | None]:
    """Return the prover, and the fraud in a task. Raise CodedError if the task cannot be checked."""
    live_chain, identity = await connect(provider_options, tell=note)
    try:
        async with _own_parts(provider_options, live_chain, identity, backend_name) as (daemon_parts, base):
            kept_in = made_base_path(provider_options.base_path)
            return identity, await found_or_searched(
                daemon_parts, kept_in, base, task_id, _SearchProgress(), in_time(live_chain.views())
            )
    finally:
        await live_chain.close()


@contextlib.asynccontextmanager
async def _own_parts(
    provider_options: ProviderOptions, live_chain: LiveChain, identity: Identity, backend_name: str | None
) -> AsyncIterator[tuple[Parts[ChainPort], Path]]:
    """Yield the parts for computing in a temporary folder, because the daemon of this base path may run."""
    offered_hardware = hardware_for(provider_options)
    worker_pool = workshop_of(
        provider_options,
        chosen_backend(backend_name, offered_hardware),
        walls_for(WHERE_POSSIBLE).sandbox,
        offered_hardware,
    )
    with TemporaryDirectory(prefix="prove-", dir=made_base_path(provider_options.base_path)) as temporary_folder:
        base = Path(temporary_folder)
        blob_store = BlobStore(base / "blobs")
        async with contextlib.AsyncExitStack() as exit_stack:
            blob_client = await exit_stack.enter_async_context(BlobClient(private=live_chain.is_development))
            exit_stack.push_async_callback(worker_pool.close)
            worker_pool.serve({})
            provider_journal = Journal(base / "journal")
            exit_stack.callback(provider_journal.close)
            daemon_parts = Parts(
                identity=identity,
                chain=live_chain,
                journal=provider_journal,
                workers=worker_pool,
                inputs=Inputs(identity, live_chain, blob_client, blob_store, LogTelemetry()),
                store=blob_store,
                blobs=blob_client,
                telemetry=LogTelemetry(),
                earnings=EarningsBook(base / EARNINGS_FILE),
                losses=LossBook(base / LOSSES_FILE),
                pauses=PauseBook(base),
            )
            yield daemon_parts, base


class _SearchProgress:
    """Prints the progress of a search: each wait once, computing by the tenth."""

    def __init__(self) -> None:
        self._said = ""

    def __call__(self, search_step: Step) -> None:
        """A step begins."""
        progress_text = f"waiting for {search_step.waits_for}"
        if not search_step.waits_for:
            percent = 100 * search_step.done // search_step.segments // 10 * 10
            progress_text = f"computing: {percent} % of {search_step.segments} segments"
        if progress_text != self._said:
            note(progress_text)
        self._said = progress_text


def _fraud_facts(proven_fraud: Fraud) -> dict[str, Any]:
    return {
        "slot": proven_fraud.place,
        "wrong_segment": proven_fraud.proof.index,
        "stated": f"0x{proven_fraud.proof.after.digest.hex()}",
        "right": f"0x{proven_fraud.proof.right.hex()}",
        "reward": Grains(proven_fraud.reward),
    }
