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
from devnet.stage.cheating.races import ACCEPTED
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
LOOK_SECONDS = 0.5
POOL_SECONDS = 0.05
"""Seconds between looks at the pool, which the next block empties."""
TRIES = 3
TIP = 100_000_000
"""A stolen transaction must be the first of its block."""

Attempt = dict[str, Any]
T = TypeVar("T")


@dataclass(slots=True)
class Tries:
    """One task, one node, and the attempts."""

    chain: ChainClient
    task: bytes
    file: Path
    made: list[Attempt] = field(default_factory=list)

    async def send(self, name: str, call: Call, *, tip: int = 0) -> None:
        """Make an attempt: sign with a stash, send, wait for the block, and record the chain's answer."""
        answer = await self._answer(name, call, "inBlock", tip)
        self.made.append({"unit": "0x" + self.task.hex(), "what": call.name, "answer": answer, "who": name})

    async def have(self, name: str, call: Call) -> None:
        """Send a call that must reach the final chain, and repeat it, because a block may be reverted."""
        answers = []
        for _ in range(TRIES):
            answers.append(await self._answer(name, call, "finalized", 0))
            if answers[-1] == ACCEPTED:
                return
        raise DevnetError(f"{call.name} of {name}: {'; '.join(answers)}")

    async def _answer(self, name: str, call: Call, until: str, tip: int) -> str:
        try:
            outcome = await self.chain.submit(call, keypair_from_suri(f"//{name}"), until=until, tip=tip)
        except (NotIncludedError, RpcError) as error:
            return str(error)
        return outcome.error or ACCEPTED

    async def now(self) -> Task:
        """Return the task in the newest block."""
        found = await training_reads.task(self.chain, self.task, await self.chain.block_id())
        assert found is not None, "it was submitted"
        return found

    async def until(self, *states: TaskState) -> Task:
        """Return the task once it is in one of these states."""
        return await awaited(lambda: self._in(states))

    async def _in(self, states: tuple[TaskState, ...]) -> Task | None:
        task = await self.now()
        return task if task.state in states else None

    async def seen(self, name: str) -> dict[str, Any]:
        """Return the arguments of the first call of this name about the task, from the pool or the newest block."""
        return await awaited(lambda: self._seen(name), POOL_SECONDS)

    async def _seen(self, name: str) -> dict[str, Any] | None:
        pending = await self.chain.rpc.call("author_pendingExtrinsics")
        raw = [bytes.fromhex(text[2:]) for text in pending]
        raw += (await self.chain.block(await self.chain.block_id())).extrinsics
        for call in (decode_extrinsic(self.chain.runtime, each).call for each in raw):
            if call.name == name and call.named_arguments["task"] == self.task:
                return call.named_arguments
        return None


async def awaited(look: Callable[[], Awaitable[T | None]], seconds: float = LOOK_SECONDS) -> T:
    """Return the first result of `look` that is not None. Raise TimeoutError after PATIENCE_SECONDS."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        found = await look()
        if found is not None:
            return found
        await asyncio.sleep(seconds)
    raise TimeoutError(f"nothing came of {look} in {PATIENCE_SECONDS:.0f} s")


async def copy_bid(tries: Tries) -> None:
    """Commit to a rival's commitment, and reveal it with the rival's revealed values."""
    device = await own_device(tries.chain, CHEAT)
    rival = await tries.seen("TrainingMarket.commit_bid")
    copied = TrainingMarket.commit_bid(task=tries.task, device=device, commitment=rival["commitment"])
    await tries.have(CHEAT, copied)  # a copied commitment is opaque, so the chain accepts it
    opened = await tries.seen("TrainingMarket.reveal_bid")
    offer, salt = opened["offer"], opened["salt"]
    await tries.send(CHEAT, TrainingMarket.reveal_bid(task=tries.task, device=device, offer=offer, salt=salt))


async def never_open(tries: Tries) -> None:
    """Commit to a bid, and never reveal it."""
    device = await own_device(tries.chain, CHEAT)
    call = TrainingMarket.commit_bid(task=tries.task, device=device, commitment=os.urandom(32))
    await tries.have(CHEAT, call)


async def steal_proof(tries: Tries) -> None:
    """Let an honest observer prove a lie, one thief copy its commitment, and another copy the shown proof."""
    proof, salt, sealed = await _sealed_proof(tries)
    claim = TrainingMarket.claim_fraud(task=tries.task, commitment=sealed)
    await asyncio.gather(tries.have(PROVER, claim), tries.have(COPIER, claim))
    stealing = [asyncio.create_task(_open_copied(tries)), asyncio.create_task(_claim_seen(tries))]
    shown = TrainingMarket.show_fraud(task=tries.task, place=0, proof=proof, salt=salt)
    await tries.have(PROVER, shown)
    await asyncio.gather(*stealing)


async def _sealed_proof(tries: Tries) -> tuple[TraceFraudProof, bytes, bytes]:
    """Return the proof, its salt, and its commitment."""
    proof, salt = await proof_of(tries), os.urandom(32)
    sealed = claim_commitment(tries.chain.genesis_hash, tries.task, dev_accounts.stash(PROVER), 0, proof, salt)
    return proof, salt, sealed


async def _open_copied(tries: Tries) -> None:
    """Open a copied commitment with a copied proof."""
    seen = await tries.seen("TrainingMarket.show_fraud")
    await tries.send(COPIER, TrainingMarket.show_fraud(**seen), tip=TIP)


async def _claim_seen(tries: Tries) -> None:
    """Commit to a proof that was seen in the pool, and open it in the next block."""
    seen = await tries.seen("TrainingMarket.show_fraud")
    salt, stash = os.urandom(32), dev_accounts.stash(RACER)
    sealed = claim_commitment(tries.chain.genesis_hash, tries.task, stash, seen["place"], seen["proof"], salt)
    await tries.send(RACER, TrainingMarket.show_fraud(**seen), tip=TIP)
    await tries.send(RACER, TrainingMarket.claim_fraud(task=tries.task, commitment=sealed), tip=TIP)
    await tries.send(RACER, TrainingMarket.show_fraud(**{**seen, "salt": salt}), tip=TIP)


async def proof_of(tries: Tries) -> TraceFraudProof:
    """Return a proof of the first wrong step of the stated trace, by computing the run meanwhile."""
    computing = asyncio.create_task(asyncio.to_thread(_right_digests, tries.file))
    task, chain = await tries.until(TaskState.SUBMITTED), tries.chain
    key = Keypair.from_seed(Scheme.ED25519, dev_accounts.key_seed(PROVER, dev_accounts.PROVIDER))
    async with BlobClient(private=True) as blobs:
        found = await fetch_result(blobs, key, task, await market_reads.providers(chain, await chain.finalized()))
    right, stated = await computing, found.run.digests
    index = next(place for place in range(len(right) - 1) if stated[place + 1] != right[place + 1])
    return proof_of_fraud(stated, index, right[index + 1])


def _right_digests(path: Path) -> list[bytes]:
    return [state_hash(state) for state in right_states(path, "numpy")]


async def own_device(chain: ChainClient, name: str) -> bytes:
    """Return the first device of a provider."""
    stash, final = dev_accounts.stash(name), await chain.finalized()
    found = await market_reads.entries(chain, Devices.devices, at=final)
    devices: list[bytes] = [device_id for (device_id,), device in found if device.owner == stash]
    return devices[0]
