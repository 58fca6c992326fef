"""Attacks by transactions alone: a copied bid, a bid that is never revealed, a stolen fraud proof.

Each is recorded as an attempt: the call, and the chain's answer. Invariant: the attacks copy only public data, from
blocks and from a node's pool. Cheats pay for their transactions as all accounts do.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from devnet.launcher.folder import DevnetError
from devnet.stage.actors.task_sale import right_states
from devnet.stage.cheating.races import ACCEPTED_ANSWER
from devnet.stage.network import CHEAT
from genesis import dev_accounts
from gpu_tasks.client.tasks.results import fetch_result
from gpu_tasks.data import market_reads, training_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.training.fraud_claims import claim_commitment
from gpu_tasks.market.training.tasks import Task, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.traces.trace import TraceFraudProof, proof_of_fraud, state_hash
from runtime.blocks.extrinsic import decode_extrinsic
from runtime.cryptography.signatures import Scheme
from runtime.frame.call import Call
from wallet.client import ChainClient, NotIncludedError
from wallet.keypair import Keypair
from wallet.rpc import RpcError
from wallet.suri import keypair_from_suri

PROVER, COPIER, RACER = "Bob", "Charlie", "Dave"
"""The account that shows the proof, one that copies its commitment, and one that claims the proof from the pool."""
PATIENCE_SECONDS = 120.0
POLL_SECONDS = 0.5
# Seconds between looks at the pool, which the next block empties.
POOL_SECONDS = 0.05
TRIES_MAX = 3
# A stolen transaction must be the first of its block.
TIP_GRAINS = 100_000_000

Attempt = dict[str, Any]
FoundT = TypeVar("FoundT")


@dataclass(slots=True)
class AttackTries:
    """One task, one node, and the attempts."""

    chain: ChainClient
    task: bytes
    file: Path
    attempts: list[Attempt] = field(default_factory=list)

    async def try_call(self, name: str, call: Call, *, tip_grains: int = 0) -> None:
        """Make an attempt: sign with a stash, send, wait for the block, and record the chain's answer."""
        answer = await self._submit_call(name, call, "inBlock", tip_grains)
        self.attempts.append({"unit": "0x" + self.task.hex(), "what": call.name, "answer": answer, "who": name})

    async def ensure_call(self, name: str, call: Call) -> None:
        """Send a call that must reach the final chain, and repeat it, because a block may be reverted."""
        chain_answers = []
        for _ in range(TRIES_MAX):
            chain_answers.append(await self._submit_call(name, call, "finalized", 0))
            if chain_answers[-1] == ACCEPTED_ANSWER:
                return
        raise DevnetError(f"{call.name} of {name}: {'; '.join(chain_answers)}")

    async def _submit_call(self, name: str, call: Call, inclusion: str, tip_grains: int) -> str:
        try:
            outcome = await self.chain.submit(call, keypair_from_suri(f"//{name}"), until=inclusion, tip=tip_grains)
        except (NotIncludedError, RpcError) as error:
            return str(error)
        return outcome.error or ACCEPTED_ANSWER

    async def newest_task(self) -> Task:
        """Return the task in the newest block."""
        record = await training_reads.task(self.chain, self.task, await self.chain.block_id())
        assert record is not None, "it was submitted"
        return record

    async def wait_until(self, *states: TaskState) -> Task:
        """Return the task once it is in one of these states."""
        return await wait_for(lambda: self._task_in(states))

    async def _task_in(self, wanted_states: tuple[TaskState, ...]) -> Task | None:
        record = await self.newest_task()
        return record if record.state in wanted_states else None

    async def wait_for_call(self, call: str) -> dict[str, Any]:
        """Return the arguments of the first call of this name about the task, from the pool or the newest block."""
        return await wait_for(lambda: self._seen_call(call), POOL_SECONDS)

    async def _seen_call(self, call_name: str) -> dict[str, Any] | None:
        pending_texts = await self.chain.rpc.call("author_pendingExtrinsics")
        extrinsics = [bytes.fromhex(extrinsic_text[2:]) for extrinsic_text in pending_texts]
        # The next block can take a call from the pool between two looks.
        extrinsics += (await self.chain.block(await self.chain.block_id())).extrinsics
        for call in (decode_extrinsic(self.chain.runtime, extrinsic).call for extrinsic in extrinsics):
            if call.name == call_name and call.named_arguments["task"] == self.task:
                return call.named_arguments
        return None


async def wait_for(look_up: Callable[[], Awaitable[FoundT | None]], pause_seconds: float = POLL_SECONDS) -> FoundT:
    """Return the first result of `look_up` that is not None. Raise TimeoutError after PATIENCE_SECONDS."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        result = await look_up()
        if result is not None:
            return result
        await asyncio.sleep(pause_seconds)
    raise TimeoutError(f"nothing came of {look_up} in {PATIENCE_SECONDS:.0f} s")


async def copy_rival_bid(tries: AttackTries) -> None:
    """Commit to a rival's commitment, and reveal it with the rival's revealed values."""
    device_id = await own_device(tries.chain, CHEAT)
    rival_arguments = await tries.wait_for_call("TrainingMarket.commit_bid")
    copied_commit = TrainingMarket.commit_bid(
        task=tries.task, device=device_id, commitment=rival_arguments["commitment"]
    )
    await tries.ensure_call(CHEAT, copied_commit)  # a copied commitment is opaque, so the chain accepts it
    revealed_arguments = await tries.wait_for_call("TrainingMarket.reveal_bid")
    rival_offer, rival_salt = revealed_arguments["offer"], revealed_arguments["salt"]
    await tries.try_call(
        CHEAT, TrainingMarket.reveal_bid(task=tries.task, device=device_id, offer=rival_offer, salt=rival_salt)
    )


async def never_reveal_bid(tries: AttackTries) -> None:
    """Commit to a bid, and never reveal it."""
    device_id = await own_device(tries.chain, CHEAT)
    call = TrainingMarket.commit_bid(task=tries.task, device=device_id, commitment=os.urandom(32))
    await tries.ensure_call(CHEAT, call)


async def steal_fraud_proof(tries: AttackTries) -> None:
    """Let an honest observer prove a lie, one thief copy its commitment, and another copy the shown proof."""
    fraud_proof, claim_salt, commitment = await _sealed_proof(tries)
    claim_call = TrainingMarket.claim_fraud(task=tries.task, commitment=commitment)
    # A claim binds its sender by the commitment, so a copied claim must not open with the same proof.
    await asyncio.gather(tries.ensure_call(PROVER, claim_call), tries.ensure_call(COPIER, claim_call))
    # Both thieves watch the pool, because the proof is public there before it is in a block.
    theft_tasks = [asyncio.create_task(_open_copied(tries)), asyncio.create_task(_claim_seen(tries))]
    show_call = TrainingMarket.show_fraud(task=tries.task, place=0, proof=fraud_proof, salt=claim_salt)
    await tries.ensure_call(PROVER, show_call)
    await asyncio.gather(*theft_tasks)


async def _sealed_proof(tries: AttackTries) -> tuple[TraceFraudProof, bytes, bytes]:
    """Return the proof, its salt, and its commitment."""
    fraud_proof, claim_salt = await proof_of_first_lie(tries), os.urandom(32)
    commitment = claim_commitment(
        tries.chain.genesis_hash, tries.task, dev_accounts.stash(PROVER), 0, fraud_proof, claim_salt
    )
    return fraud_proof, claim_salt, commitment


async def _open_copied(tries: AttackTries) -> None:
    """Open a copied commitment with a copied proof."""
    seen_arguments = await tries.wait_for_call("TrainingMarket.show_fraud")
    await tries.try_call(COPIER, TrainingMarket.show_fraud(**seen_arguments), tip_grains=TIP_GRAINS)


async def _claim_seen(tries: AttackTries) -> None:
    """Commit to a proof that was seen in the pool, and open it in the next block."""
    seen_arguments = await tries.wait_for_call("TrainingMarket.show_fraud")
    claim_salt, stash = os.urandom(32), dev_accounts.stash(RACER)
    commitment = claim_commitment(
        tries.chain.genesis_hash, tries.task, stash, seen_arguments["place"], seen_arguments["proof"], claim_salt
    )
    await tries.try_call(RACER, TrainingMarket.show_fraud(**seen_arguments), tip_grains=TIP_GRAINS)
    await tries.try_call(
        RACER, TrainingMarket.claim_fraud(task=tries.task, commitment=commitment), tip_grains=TIP_GRAINS
    )
    await tries.try_call(
        RACER, TrainingMarket.show_fraud(**{**seen_arguments, "salt": claim_salt}), tip_grains=TIP_GRAINS
    )


async def proof_of_first_lie(tries: AttackTries) -> TraceFraudProof:
    """Return a proof of the first wrong step of the stated trace, by computing the run meanwhile."""
    # The chain takes claims only for `accept_blocks` after the result, so the prover computes meanwhile.
    computation = asyncio.create_task(asyncio.to_thread(_right_digests, tries.file))
    record, chain = await tries.wait_until(TaskState.SUBMITTED), tries.chain
    provider_keypair = Keypair.from_seed(Scheme.ED25519, dev_accounts.key_seed(PROVER, dev_accounts.PROVIDER))
    async with BlobClient(private=True) as blobs:
        fetched_result = await fetch_result(
            blobs, provider_keypair, record, await market_reads.providers(chain, await chain.finalized())
        )
    right_digests, stated_digests = await computation, fetched_result.run.digests
    last_right_index = next(
        digest_index
        for digest_index in range(len(right_digests) - 1)
        if stated_digests[digest_index + 1] != right_digests[digest_index + 1]
    )
    return proof_of_fraud(stated_digests, last_right_index, right_digests[last_right_index + 1])


def _right_digests(file: Path) -> list[bytes]:
    return [state_hash(run_state) for run_state in right_states(file, "numpy")]


async def own_device(chain: ChainClient, name: str) -> bytes:
    """Return the first device of a provider."""
    stash, final_block = dev_accounts.stash(name), await chain.finalized()
    device_entries = await market_reads.entries(chain, Devices.devices, at=final_block)
    own_devices: list[bytes] = [device_id for (device_id,), record in device_entries if record.owner == stash]
    return own_devices[0]
