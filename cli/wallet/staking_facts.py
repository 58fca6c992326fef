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
    "an offence of the validator takes 5 to 100 % of its stake, also of yours while it unbonds; only blocks that it "
    "makes earn rewards"
)
RISK_OF_BOND = (
    "an offence of yours takes 5 to 100 % of it, also while it unbonds: two headers for one slot, so never run a key "
    "on two machines"
)
RISK_OF_LEAVING = "it earns nothing from this era on; earlier offences of the validator can still reduce it"
RISK_OF_MOVING = (
    "offences of both validators can reduce it until evidence against the first expires, and it cannot move again "
    "before; it earns from the next era on"
)


@dataclass(frozen=True, slots=True)
class StakingView:
    """The newest final block of a chain, and its time."""

    client: ChainClient
    at: bytes
    time: ChainTime

    async def look(self, read_state: Callable[[Bound], Looked]) -> Looked:
        """Return the result of `read_state`."""
        return await over_state(self.client, self.at, read_state)

    async def staked(self, account: bytes, validator: bytes) -> int:
        """Return an account's stake behind a validator."""
        return await self.look(lambda state: stake_of(state[TrustStake], account, validator))

    async def amount(self, given: int, account: bytes, validator: bytes) -> int:
        """Return the given amount; for `ALL`, the whole stake."""
        return await self.staked(account, validator) if given == ALL else given

    @property
    def free_epoch(self) -> int:
        """The epoch that frees stake which leaves at present."""
        unbonding_epochs: int = constant_value(TrustStake, TrustStake.unbonding_epochs, self.client.runtime)
        return self.time.epoch + unbonding_epochs

    def leaving_facts(self) -> dict[str, Any]:
        """Return the release of stake that leaves at present."""
        return {"free": self.time.epoch_text(self.free_epoch), **self.present_facts()}

    def joining_facts(self) -> dict[str, Any]:
        """Return the first paid era of new stake, and its release if it left at once."""
        return {
            "earns_from": self.time.era_text(self.time.era + 1),
            "free_if_unstaked_now": self.time.epoch_text(self.free_epoch),
            **self.present_facts(),
        }

    async def seat_fact(self, validator: bytes) -> dict[str, Any]:
        """Return a warning if a validator has no seat in the present and the elected epochs; nothing if it has one."""

        def is_seated(state: Bound) -> bool:
            trust_stake = state[TrustStake]
            epochs = (self.time.epoch, trust_stake.last_elected_epoch.get())
            return any(seat.stash == validator for epoch in epochs for seat in trust_stake.validators(epoch))

        if await self.look(is_seated):
            return {}
        return {"seat": "none: it earns nothing until it is elected (see `ogpu-wallet candidates`)"}

    def present_facts(self) -> dict[str, Any]:
        """Return the chain's time."""
        return {"now": self.time.present_text}


async def open_view(client: ChainClient) -> StakingView:
    """Read the newest final block and its time."""
    block_hash = await client.finalized()
    return StakingView(client, block_hash, await read_time(client, block_hash))
