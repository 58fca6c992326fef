"""Facts beside every call about stake: the time on the chain, the block that frees the money, the risks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from cli.chain_time import ChainTime, read_time
from cli.options import ALL
from runtime.frame.runtime import Bound, constant_value
from runtime.pallets.staking.holdings import stake_of
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient
from wallet.trial import over_state

Looked = TypeVar("Looked")

RISK_OF_STAKE = (
    "an offence of the validator takes 5 to 100 % of all stake behind it, and evidence of it counts while you wait to "
    "leave; a reward is paid only for blocks that it makes"
)
RISK_OF_BOND = (
    "an offence of yours (two headers for one slot: never run one key twice) takes 5 to 100 % of it, also while it is "
    "on its way out"
)
RISK_OF_LEAVING = "it earns nothing from this era on, and bears what the validator did until now"
RISK_OF_MOVING = (
    "it answers for both validators until evidence against the first is too old, and may not move on before; it earns "
    "from the next era on"
)


@dataclass(frozen=True, slots=True)
class StakingView:
    """The newest final block of a chain, and when that is."""

    client: ChainClient
    at: bytes
    time: ChainTime

    async def look(self, work: Callable[[Bound], Looked]) -> Looked:
        """What `work` finds in the state."""
        return await over_state(self.client, self.at, work)

    async def staked(self, who: bytes, validator: bytes) -> int:
        """What an account has behind a validator."""
        return await self.look(lambda bound: stake_of(bound[TrustStake], who, validator))

    async def amount(self, given: int, who: bytes, validator: bytes) -> int:
        """An amount that was given; `ALL`: what is there."""
        return await self.staked(who, validator) if given == ALL else given

    @property
    def free_epoch(self) -> int:
        """From when on what leaves now may be withdrawn."""
        length: int = constant_value(TrustStake, TrustStake.unbonding_epochs, self.client.runtime)
        return self.time.epoch + length

    def leaving_facts(self) -> dict[str, Any]:
        """When what leaves now is free."""
        return {"free": self.time.epoch_text(self.free_epoch), **self.present_facts()}

    def joining_facts(self) -> dict[str, Any]:
        """From when on what comes now earns, and when it would be free if it left again at once."""
        return {
            "earns_from": self.time.era_text(self.time.era + 1),
            "free_if_unstaked_now": self.time.epoch_text(self.free_epoch),
            **self.present_facts(),
        }

    async def seat_fact(self, validator: bytes) -> dict[str, Any]:
        """That a validator has no seat, now or in the epochs whose validators are elected; nothing where it has."""

        def is_seated(bound: Bound) -> bool:
            stake = bound[TrustStake]
            epochs = (self.time.epoch, stake.last_elected_epoch.get())
            return any(seat.stash == validator for epoch in epochs for seat in stake.validators(epoch))

        if await self.look(is_seated):
            return {}
        return {"seat": "none: it earns nothing until an election gives it one (`ogpu-wallet candidates` says how far)"}

    def present_facts(self) -> dict[str, Any]:
        """What time it is."""
        return {"now": self.time.present_text}


async def open_view(client: ChainClient) -> StakingView:
    """The chain now."""
    at = await client.finalized()
    return StakingView(client, at, await read_time(client, at))
