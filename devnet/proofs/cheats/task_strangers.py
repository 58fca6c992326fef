"""Attacks by transactions alone: a copied bid, and a bid that is never revealed.

Each is recorded as an attempt: the call, and the chain's answer. Invariant: the attacks copy only public data, from
blocks and from a node's pool. Cheats pay for their transactions as all accounts do.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from devnet.launcher.folder import DevnetError
from devnet.stage.cheating.races import ACCEPTED_ANSWER
from devnet.stage.network import CHEAT
from genesis import dev_accounts
from gpu_tasks.data import market_reads
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.blocks.extrinsic import decode_extrinsic
from runtime.frame.call import Call
from wallet.client import ChainClient, NotIncludedError
from wallet.rpc import RpcError
from wallet.suri import keypair_from_suri

PATIENCE_SECONDS = 120.0
# Seconds between looks at the pool, which the next block empties.
POOL_SECONDS = 0.05
TRIES_MAX = 3

Attempt = dict[str, Any]
FoundT = TypeVar("FoundT")


@dataclass(slots=True)
class AttackTries:
    """One task, one node, and the attempts."""

    chain: ChainClient
    task: bytes
    attempts: list[Attempt] = field(default_factory=list)

    async def try_call(self, name: str, call: Call) -> None:
        """Make an attempt: sign with a stash, send, wait for the block, and record the chain's answer."""
        answer = await self._submit_call(name, call, "inBlock")
        self.attempts.append({"unit": "0x" + self.task.hex(), "what": call.name, "answer": answer, "who": name})

    async def ensure_call(self, name: str, call: Call) -> None:
        """Send a call that must reach the final chain, and repeat it, because a block may be reverted."""
        chain_answers = []
        for _ in range(TRIES_MAX):
            chain_answers.append(await self._submit_call(name, call, "finalized"))
            if chain_answers[-1] == ACCEPTED_ANSWER:
                return
        raise DevnetError(f"{call.name} of {name}: {'; '.join(chain_answers)}")

    async def _submit_call(self, name: str, call: Call, inclusion: str) -> str:
        try:
            outcome = await self.chain.submit(call, keypair_from_suri(f"//{name}"), until=inclusion)
        except (NotIncludedError, RpcError) as error:
            return str(error)
        return outcome.error or ACCEPTED_ANSWER

    async def wait_for_call(self, call: str) -> dict[str, Any]:
        """Return the arguments of the first call of this name about the task, from the pool or the newest block."""
        return await wait_for(lambda: self._seen_call(call))

    async def _seen_call(self, call_name: str) -> dict[str, Any] | None:
        pending_texts = await self.chain.rpc.call("author_pendingExtrinsics")
        extrinsics = [bytes.fromhex(extrinsic_text[2:]) for extrinsic_text in pending_texts]
        # The next block can take a call from the pool between two looks.
        extrinsics += (await self.chain.block(await self.chain.block_id())).extrinsics
        for call in (decode_extrinsic(self.chain.runtime, extrinsic).call for extrinsic in extrinsics):
            if call.name == call_name and call.named_arguments["task"] == self.task:
                return call.named_arguments
        return None


async def wait_for(look_up: Callable[[], Awaitable[FoundT | None]]) -> FoundT:
    """Return the first result of `look_up` that is not None. Raise TimeoutError after PATIENCE_SECONDS."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        result = await look_up()
        if result is not None:
            return result
        await asyncio.sleep(POOL_SECONDS)
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


async def own_device(chain: ChainClient, name: str) -> bytes:
    """Return the first device of a provider."""
    stash, final_block = dev_accounts.stash(name), await chain.finalized()
    device_entries = await market_reads.entries(chain, Devices.devices, at=final_block)
    own_devices: list[bytes] = [device_id for (device_id,), record in device_entries if record.owner == stash]
    return own_devices[0]
