"""A call that the chain refuses, with the state on which it was tried; and the phrases that all sentences share."""

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
    """A refused call of one account, tried on one state."""

    bound: Bound
    call: Call
    signer: bytes

    @property
    def stake(self) -> TrustStake:
        """The pallet over the state."""
        return self.bound[TrustStake]

    @property
    def name(self) -> str:
        """The call's name without its pallet."""
        return self.call.method.name

    def argument(self, argument_name: str) -> Any:
        """Return an argument of the call; None if it has no such argument."""
        return self.call.named_arguments.get(argument_name)

    @property
    def value(self) -> int:
        """The grains in question; for a compound, all that was earned there."""
        value_argument = self.argument("value")
        return self.earned if value_argument is None else int(value_argument)

    @property
    def validator(self) -> bytes:
        """The validator whose stake changes; the signer if the call names none."""
        named_accounts = (self.argument(name) for name in ("validator", "source", "stash"))
        return next((account for account in named_accounts if account is not None), self.signer)

    @property
    def target(self) -> bytes:
        """The validator that would receive the stake."""
        moved_to = self.argument("target")
        return self.validator if moved_to is None else moved_to

    @property
    def earned(self) -> int:
        """The grains that the signer may claim with the validator."""
        return holdings.earned_by(self.stake, self.signer, self.validator)

    def behind(self, validator: bytes) -> int:
        """Return the signer's stake behind a validator."""
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
    """Return an amount with its unit: `3 oGPU`."""
    return f"{format_amount(grains)} {SYMBOL}"


def account_text(account: bytes) -> str:
    """Return the account's address."""
    return ss58.encode(account)


def percent_text(ppm: int) -> str:
    """Return millionths as per cent: `5.25 %`."""
    return f"{format_percent(ppm)} %"


def them(count: int, noun: str) -> str:
    """Return a count with its noun: `1 slash`, `2 slashes`."""
    plural_noun = f"{noun}es" if noun.endswith("sh") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural_noun}"
