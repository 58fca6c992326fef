"""The money table of a unit: who gets which part of what its customer locked.

Always: the shares of an outcome add up to `escrow + bond` exactly, and the deposit beside them comes
back whole; nobody but the customer gets a grain of the customer's without a result; rounding goes to
the customer or is burned.
"""

from gpu_tasks.market.inference.committees import FIRST_SIZE
from gpu_tasks.market.inference.rules import UnitRules
from gpu_tasks.market.inference.units import Refund, Unit
from runtime.pallets.staking.slashing import PPM, Share, part, shared


def witness_pay(rules: UnitRules, price: int) -> int:
    """What an agreeing runner-up is paid beside the winner's `price`."""
    return part(price, rules.witness_share)


def fee(rules: UnitRules, paid: int) -> int:
    """The settlement fee on a payment."""
    return part(paid, rules.settlement_fee)


def rebate(rules: UnitRules, price: int) -> int:
    """What a winner gets back of the fee on `price`, as far as the emission goes: less than the fee."""
    return part(fee(rules, price), rules.fee_rebate)


def escrow(rules: UnitRules, price_max: int, racers: int) -> int:
    """What a unit may cost its customer: the price, and a witness where two or more race."""
    return price_max + (witness_pay(rules, price_max) if racers > 1 else 0)


def customer_bond(price_max: int, ppm: int) -> int:
    """The customer's side of the trust lock: so many millionths of the price, rounded up."""
    return -(-price_max * ppm // PPM)


def duty_calls(racers: int) -> int:
    """How many duty calls a unit may cause: commit and reveal of each racer and of one committee."""
    return 2 * racers + 2 * FIRST_SIZE


def collateral(rules: UnitRules, price: int, price_max: int) -> int:
    """The provider's side of the trust lock: a share of the price, at least another of the maximum."""
    return max(-(-price * rules.collateral_share // PPM), -(-price_max * rules.collateral_floor // PPM))


def ramped_price(floor: int, price_max: int, age: int, ramp: int) -> int:
    """The price that a unit offers at an age in blocks: from `floor` to its maximum in `ramp`."""
    if ramp == 0 or price_max <= floor:
        return price_max
    return floor + (price_max - floor) * min(age, ramp) // ramp


def age_of_price(floor: int, price_max: int, price: int, ramp: int) -> int:
    """The age in blocks at which `ramped_price` is `price` or more, which is at most the maximum."""
    if ramp == 0 or price_max <= floor or price <= floor:
        return 0
    return -(-(price - floor) * ramp // (price_max - floor))


def settlement(unit: Unit, *, winner: bytes, witnesses: tuple[bytes, ...], treasury: bytes) -> tuple[Share, ...]:
    """A result was right: winner, witness (or the committee in its place), fees, change, bond."""
    paid = _earned(unit.rules, unit.price, (winner,), treasury)
    if witnesses and len(unit.racers) > 1:  # a lone racer's customer set nothing aside for a witness
        paid += _earned(unit.rules, witness_pay(unit.rules, unit.price), witnesses, treasury)
    return _with_change(unit, paid)


def refund(unit: Unit, reason: Refund, judges: tuple[bytes, ...] = ()) -> tuple[Share, ...]:
    """There is no result: the price comes back, and of the bond what the reason leaves."""
    if reason is Refund.CANCELLED:
        return cancellation(unit)
    if reason in (Refund.INPUT_DECLINED, Refund.INPUT_BAD):
        return bad_input(unit, judges)
    return whole_refund(unit)


def cancellation(unit: Unit) -> tuple[Share, ...]:
    """Cancelled before a race: all comes back but a part of the bond, which is burned."""
    return _with_change(unit, [Share(None, part(unit.bond, unit.rules.cancel_burn))])


def bad_input(unit: Unit, judges: tuple[bytes, ...]) -> tuple[Share, ...]:
    """The input cannot be used: the price comes back, a part of the bond is burned.

    The rest of it pays the committee members who found it; without a committee it comes back.
    """
    burned = part(unit.bond, unit.rules.bad_input_burn)
    others = shared(unit.bond - burned, judges) if judges else ()
    return _with_change(unit, [Share(None, burned), *others])


def whole_refund(unit: Unit) -> tuple[Share, ...]:
    """Nobody is at fault: everything comes back."""
    return _with_change(unit, [])


def _earned(rules: UnitRules, gross: int, payees: tuple[bytes, ...], treasury: bytes) -> list[Share]:
    """`gross` less the settlement fee, half of which is burned and half the treasury's."""
    taken = fee(rules, gross)
    to_treasury = taken // 2
    return [
        *shared(gross - taken, payees),
        Share(treasury, to_treasury),
        Share(None, taken - to_treasury),
    ]


def _with_change(unit: Unit, paid: list[Share]) -> tuple[Share, ...]:
    change = unit.escrow + unit.bond - sum(share.amount for share in paid)
    assert change >= 0, "an outcome costs no more than what was locked for it"
    shares = (*paid, Share(unit.customer, change))
    return tuple(share for share in shares if share.amount)
