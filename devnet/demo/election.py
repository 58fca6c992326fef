"""An election, shown: an account puts stake behind a fifth candidate, an election seats it, and it proposes a block."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from devnet.demo import stage
from devnet.demo.telling import Narrator
from devnet.launcher import programs
from devnet.launcher.layout import Devnet
from genesis import dev_accounts
from runtime.blocks.digest import DIGEST_ITEM, find_author
from runtime.cryptography.ss58 import encode as ss58
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient

SEATED_SECONDS = 90.0
LIFT = "6000"
"""oGPU, as people type it: more than what the candidate lacks to the least of those who sit."""


class DemoElection:
    """From the delegation on; `end` waits for the block."""

    def __init__(self, net: Devnet, tell: Narrator) -> None:
        """Put the stake behind whoever of the members waits."""
        self._net, self._tell = net, tell
        self._url = ("--url", net.members[0].rpc_url)
        self.candidate = net.members[-1].name
        self._stash = dev_accounts.stash(self.candidate)
        words = ("delegate", ss58(self._stash), LIFT, "--from", f"//{stage.CUSTOMER}", "--yes")
        programs.run("ogpu-wallet", *self._url, *words, keyring=net.keyring, show=tell.command)
        rows = json.loads(programs.run("ogpu-wallet", *self._url, "candidates", keyring=net.keyring))
        behind = next(row for row in rows if row["stash"] == ss58(self._stash))["total"]["ogpu"]
        tell.line(f"{self.candidate}, who waits for a seat, now has {behind} oGPU behind it: more than any who sits")

    def end(self) -> dict[str, Any]:
        """Wait until a block by the candidate is final, and show it."""
        return asyncio.run(self._proposed())

    async def _proposed(self) -> dict[str, Any]:
        end = time.monotonic() + SEATED_SECONDS
        async with await ChainClient.connect(self._url[1]) as client:
            async for header in await client.finalized_heads():
                digest = tuple(DIGEST_ITEM.decode(bytes.fromhex(log[2:])) for log in header["digest"]["logs"])
                number = int(header["number"], 16)
                if find_author(digest) == self._stash:
                    return await self._told(client, number)
                if time.monotonic() > end:
                    break
        return {"candidate": self.candidate, "failures": [f"{self.candidate} was not elected, or proposed no block"]}

    async def _told(self, client: ChainClient, number: int) -> dict[str, Any]:
        at = bytes.fromhex((await client.rpc.call("chain_getBlockHash", number))[2:])
        seats = await client.read(TrustStake.seats, at=at)
        since = await client.read(TrustStake.seated_since, self._stash, at=at)
        names = {dev_accounts.stash(member.name): member.name for member in self._net.members}
        sitting = [names.get(seat.stash, "?") for seat in seats]
        self._tell.line(
            f"block {number} is {self.candidate}'s, who was elected for epoch {since}; now {', '.join(sitting)} sit"
        )
        return {"candidate": self.candidate, "block": number, "epoch": since, "sitting": sitting, "failures": []}
