"""What is done to the network while it elects: stake that moves by wallet calls, nodes killed, jail, an offence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from devnet.launcher import processes, programs
from devnet.launcher.layout import Devnet, NodeLayout
from devnet.launcher.lifecycle import node_process
from devnet.proofs.elections.watching import Watched
from genesis import dev_accounts
from runtime.cryptography.ss58 import encode as ss58
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient

SAVER = "Alice"
"""Whose money moves: it has a million, and may put it behind itself too."""
STEP = 100 * GRAINS_PER_OGPU
"""How much more than anybody else the one has whom an election is to seat."""
KILLED_SECONDS = 5.0
EQUIVOCATING = "devnet.proofs.cheating.equivocating_node"


@dataclass(slots=True)
class Director:
    """Who does what when; `told` is what happened, for the report."""

    net: Devnet
    client: ChainClient
    watched: Watched
    tell: Callable[[str], None]
    told: dict[str, Any] = field(default_factory=dict)

    def member(self, stash: bytes) -> NodeLayout:
        """The node of a stash."""
        return next(each for each in self.net.members if dev_accounts.stash(each.name) == stash)

    def wallet(self, *words: str) -> str:
        """`ogpu-wallet` at the node that only follows."""
        url = ("--url", self.net.members[-1].rpc_url)
        return programs.run("ogpu-wallet", *url, *words, keyring=self.net.keyring)

    async def lift(self, stash: bytes) -> None:
        """Put so much behind somebody who waits that the next election ranks it first."""
        at = await self.client.finalized()
        behind = {each: await self._behind(each, at) for each in self.stashes()}
        amount = max(behind.values()) + STEP - behind[stash]
        await asyncio.to_thread(
            self.wallet, "delegate", ss58(stash), _ogpu(amount), "--from", f"//{self._saver(stash)}", "--yes"
        )
        self.tell(f"epoch {self.watched.epoch}: {_ogpu(amount)} oGPU go behind {self.member(stash).name}")

    def waits_longest(self) -> bytes:
        """Who of those that are not elected has waited longest."""
        newest = self.watched.sets[max(self.watched.sets)]
        waiting = [stash for stash in self.stashes() if stash not in newest]
        return min(waiting, key=lambda stash: (self._last_sat(stash), stash))

    async def kill_and_restart(self, stash: bytes) -> None:
        """Kill -9, and back a few seconds later."""
        member = self.member(stash)
        await asyncio.to_thread(processes.kill, node_process(self.net, member))
        self.tell(f"epoch {self.watched.epoch}: {member.name} is killed with -9")
        await asyncio.sleep(KILLED_SECONDS)
        processes.start(node_process(self.net, member))

    async def chill(self, *stashes: bytes) -> None:
        """Let these give up their candidacy."""
        for stash in stashes:
            await asyncio.to_thread(self.wallet, "chill", "--from", f"//{self.member(stash).name}", "--yes")

    async def offer_again(self, *stashes: bytes) -> None:
        """Let these be candidates again, with the keys that they had."""
        for stash in stashes:
            name = self.member(stash).name
            provider = f"0x{dev_accounts.key(name, dev_accounts.PROVIDER).hex()}"
            await asyncio.to_thread(self.wallet, "validate", f"//{name}", provider, "--from", f"//{name}", "--yes")

    def stop(self, stash: bytes) -> None:
        """Let a node go down and stay down."""
        processes.kill(node_process(self.net, self.member(stash)))

    def start(self, stash: bytes) -> None:
        """Bring it back."""
        processes.start(node_process(self.net, self.member(stash)))

    async def unjail(self, stash: bytes) -> None:
        """Ask to be let out of jail."""
        await asyncio.to_thread(self.wallet, "unjail", "--from", f"//{self.member(stash).name}", "--yes")

    def restart_equivocating(self, stash: bytes, epoch: int) -> None:
        """From an epoch on its node proposes twice in each of its slots."""
        process = node_process(self.net, self.member(stash))
        processes.stop(process)
        arguments = (*process.arguments, "--twice-from", str(epoch))
        processes.start(replace(process, module=EQUIVOCATING, arguments=arguments))

    def restart_honest(self, stash: bytes) -> None:
        """Its node is itself again."""
        process = node_process(self.net, self.member(stash))
        processes.stop(process)
        processes.start(process)

    async def is_convicted(self, stash: bytes) -> bool:
        """Whether somebody is tombstoned: an author had the evidence of the nodes that saw both blocks."""
        at = await self.client.finalized()
        return await self.client.read(TrustStake.tombstones, stash, at=at) is not None

    async def least(self) -> bytes:
        """Who of those that are elected has the least behind it."""
        at = await self.client.finalized()
        elected = self.watched.sets[max(self.watched.sets)]
        behind = {stash: await self._behind(stash, at) for stash in elected}
        return min(elected, key=lambda stash: (behind[stash], stash))

    async def stake_of(self, stash: bytes) -> int:
        """What is bonded and behind somebody."""
        return await self._behind(stash, await self.client.finalized())

    async def _behind(self, stash: bytes, at: bytes) -> int:
        pool = await self.client.read(TrustStake.pools, stash, at=at)
        bond: int = await self.client.read(TrustStake.bonds, stash, at=at)
        return bond + int(pool.stake.value)

    def stashes(self) -> list[bytes]:
        """Of all validators, whether they sit or wait."""
        return sorted(dev_accounts.stash(member.name) for member in self.net.members if member.is_validator)

    def _last_sat(self, stash: bytes) -> int:
        return max((epoch for epoch, members in self.watched.sets.items() if stash in members), default=-1)

    def _saver(self, stash: bytes) -> str:
        """Nobody delegates to itself."""
        return SAVER if self.member(stash).name != SAVER else "Bob"


def _ogpu(grains: int) -> str:
    whole, rest = divmod(grains, GRAINS_PER_OGPU)
    return f"{whole}.{rest:08d}".rstrip("0").rstrip(".")
