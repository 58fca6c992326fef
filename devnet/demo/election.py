"""An election, shown: an account puts stake behind a fifth candidate, an election seats it, and it proposes a block."""

from __future__ import annotations

import json
import time
from typing import Any

from devnet.stage.measuring.latency import digest_of
from devnet.stage.measuring.ledger import block_hash
from devnet.stage.network import CUSTOMER_KEY, Stage
from genesis import dev_accounts
from runtime.blocks.digest import find_author
from runtime.cryptography.ss58 import encode as ss58
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient

SEATED_SECONDS = 90.0
LIFT = "6000"
"""oGPU, as people type it: more than what the candidate lacks to the least of those who sit."""


class DemoElection:
    """From the delegation on; `end` waits for the block."""

    def __init__(self, stage: Stage) -> None:
        """Put the stake behind whoever of the members waits."""
        self._stage = stage
        self.candidate = stage.net.members[-1].name
        self._stash = dev_accounts.stash(self.candidate)
        stage.wallet("delegate", ss58(self._stash), LIFT, "--from", CUSTOMER_KEY, "--yes")
        rows = json.loads(stage.wallet("candidates", is_shown=False))
        behind = next(row for row in rows if row["stash"] == ss58(self._stash))["total"]["ogpu"]
        told = f"{self.candidate}, who waits for a seat, now has {behind} oGPU behind it: more than any who sits"
        stage.tell.line(told)

    def end(self) -> dict[str, Any]:
        """Wait until a block by the candidate is final, and show it."""
        return self._stage.ask(self._proposed)

    async def _proposed(self, client: ChainClient) -> dict[str, Any]:
        end = time.monotonic() + SEATED_SECONDS
        async for header in await client.finalized_heads():
            number = int(header["number"], 16)
            if find_author(digest_of(header)) == self._stash:
                return await self._told(client, number)
            if time.monotonic() > end:
                break
        return {"candidate": self.candidate, "failures": [f"{self.candidate} was not elected, or proposed no block"]}

    async def _told(self, client: ChainClient, number: int) -> dict[str, Any]:
        at = await block_hash(client, number)
        seats = await client.read(TrustStake.active_set, at=at)
        since = await client.read(TrustStake.active_since, self._stash, at=at)
        names = {dev_accounts.stash(member.name): member.name for member in self._stage.net.members}
        sitting = [names.get(seat.stash, "?") for seat in seats]
        self._stage.tell.line(
            f"block {number} is {self.candidate}'s, who was elected for epoch {since}; now {', '.join(sitting)} sit"
        )
        return {"candidate": self.candidate, "block": number, "epoch": since, "sitting": sitting, "failures": []}
