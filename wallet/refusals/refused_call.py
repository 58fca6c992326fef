"""A call that the chain refuses, with the state that it was tried on; and the words that all sentences share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runtime.cryptography import ss58
from runtime.frame.call import Call
from runtime.frame.runtime import Bound
from runtime.pallets.staking import holdings
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.amounts import SYMBOL, format_amount, format_percent


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """Of one account, tried on one state."""

    bound: Bound
    call: Call
    signer: bytes

    @property
    def stake(self) -> TrustStake:
        """The pallet over the state."""
        return self.bound[TrustStake]

    @property
    def name(self) -> str:
        """The call without its pallet."""
        return self.call.method.name

    def argument(self, name: str) -> Any:
        """Return an argument of the call; None where it has no such."""
        return self.call.named_arguments.get(name)

    @property
    def value(self) -> int:
        """How many grains it is about; of a compound all that was earned there."""
        given = self.argument("value")
        return self.earned if given is None else int(given)

    @property
    def validator(self) -> bytes:
        """Whom it takes from, or adds to; the signer where it names nobody."""
        named = (self.argument(name) for name in ("validator", "source", "stash"))
        return next((who for who in named if who is not None), self.signer)

    @property
    def target(self) -> bytes:
        """Behind whom stake would come."""
        moved_to = self.argument("target")
        return self.validator if moved_to is None else moved_to

    @property
    def earned(self) -> int:
        """What the signer may claim with the validator."""
        return holdings.earned_by(self.stake, self.signer, self.validator)

    def behind(self, validator: bytes) -> int:
        """What the signer has behind it now."""
        return holdings.stake_of(self.stake, self.signer, validator)

    @property
    def epoch(self) -> int:
        """The epoch of the state."""
        return self.stake.beacon.epoch()

    @property
    def era(self) -> int:
        """The era of the state."""
        return self.stake.current_era.get()


def grains_text(grains: int) -> str:
    """`3 oGPU`."""
    return f"{format_amount(grains)} {SYMBOL}"


def account_text(account: bytes) -> str:
    """Its address."""
    return ss58.encode(account)


def percent_text(ppm: int) -> str:
    """Millionths as `5.25 %`."""
    return f"{format_percent(ppm)} %"


def them(count: int, noun: str) -> str:
    """`1 slash`, `2 slashes`."""
    many = f"{noun}es" if noun.endswith("sh") else f"{noun}s"
    return f"{count} {noun if count == 1 else many}"
