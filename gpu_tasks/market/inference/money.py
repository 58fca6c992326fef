"""The money table of a unit: the recipients of the customer's lock in each outcome.

A case moves money by the courts' own table. Invariants: the shares of an outcome add up exactly to the unit's held
money. The deposit returns whole. Without a result or a case, the customer's money returns to the customer alone, apart
from burned parts. Rounding favours the customer or is burned.
"""

from dataclasses import replace

from gpu_tasks.batches.requests import due_of, work_of
from gpu_tasks.market.courts.cases import AUDIT_POT
from gpu_tasks.market.courts.money import audit_premium, case_collateral, judge_fee, seat_hold
from gpu_tasks.market.inference.rules import UnitRules
from gpu_tasks.market.inference.units import Racer, Refund, Unit
from gpu_tasks.market.leaf_checks import fees as leaf_fees
from runtime.pallets.staking.slashing import PPM, Share, part

PAIR = 2
COMMITTEE = 3
"""The number of judges whose calls a post prepays."""
CHECK_CALLS = 2
"""The calls for a batch that is checked by its leaves: one shows the leaves, one is the auditor's answer."""


def work_allowed(unit: Unit) -> int:
    """Return the work that a unit's price pays for: all the tokens that its terms allow."""
    return work_of(unit.input_share, unit.terms.tokens_in, unit.terms.tokens_max)


def due(unit: Unit, winner: Racer) -> int:
    """Return the part of the unit's price that is due for the winner's tokens, in grains."""
    assert winner.reveal is not None, "a winner has a reveal"
    done = work_of(unit.input_share, winner.reveal.input_tokens, winner.reveal.output_tokens)
    return due_of(unit.price, done, work_allowed(unit))


def witness_pay(rules: UnitRules, price: int) -> int:
    """Return the payment of an agreeing runner-up, beside the winner's `price`."""
    return part(price, rules.witness_share)


def fee(rules: UnitRules, paid: int) -> int:
    """Return the settlement fee on a payment."""
    return part(paid, rules.settlement_fee)


def rebate(rules: UnitRules, price: int) -> int:
    """Return the winner's rebate of the fee on `price`, if the emission covers it. It is less than the fee."""
    return part(fee(rules, price), rules.fee_rebate)


def fee_of_judge(rules: UnitRules, price: int) -> int:
    """Return the fee of a judge of the unit."""
    return judge_fee(price, rules.judge_fee_ppm, rules.judge_fee_min)


def premium(rules: UnitRules, price: int) -> int:
    """Return the amount that a settlement pays into the audit pot."""
    return audit_premium(rules.audit_rate_ppm, fee_of_judge(rules, price))


def check_fee(rules: UnitRules, price: int, requests: int) -> int:
    """Return the fee of the auditor of a batch that is checked by its leaves."""
    return leaf_fees.check_fee(price, requests, rules.judge_fee_min)


def premium_of(unit: Unit) -> int:
    """Return the amount that the settlement of this unit pays into the audit pot.

    For a batch that is checked by its leaves, it pays for occasional audits of its auditor's pass.
    """
    if not unit.leaf_audit_ppm:
        return premium(unit.rules, unit.price)
    return audit_premium(unit.leaf_audit_ppm, check_fee(unit.rules, unit.price, unit.terms.requests))


def batch_rules(rules: UnitRules) -> UnitRules:
    """Return the rules of a batch that is checked by its leaves.

    Every such batch is looked at, so the audit rate is 1 and the collateral is the least.
    """
    return replace(rules, audit_rate_ppm=PPM)


def batch_escrow(rules: UnitRules, leaf_audit_ppm: int, price_max: int, racers: int, requests: int) -> int:
    """Return the most that a leaf-checked batch costs its customer: an auditor replaces the share in audits."""
    checking = check_fee(rules, price_max, requests)
    looks = checking + audit_premium(leaf_audit_ppm, checking)
    return price_max + looks + (spare(rules, price_max) if racers > 1 else 0)


def spare(rules: UnitRules, price: int) -> int:
    """Return the reserve of a unit with two or more racers: it pays a witness, or the pair that judges a lone answer.

    It covers all fees of the pair, so the audit pot adds nothing. Otherwise a customer could drain the pot by units for
    its own racers: each unit with one late racer would cost the pot something.
    """
    return max(witness_pay(rules, price), PAIR * fee_of_judge(rules, price))


def escrow(rules: UnitRules, price_max: int, racers: int) -> int:
    """Return the most that a unit costs its customer: price, premium, and the reserve if two or more race.

    Unspent parts come back.
    """
    return price_max + premium(rules, price_max) + (spare(rules, price_max) if racers > 1 else 0)


def customer_bond(price_max: int, ppm: int) -> int:
    """Return the customer's bond: `ppm` millionths of the price, rounded up."""
    return -(-price_max * ppm // PPM)


def duty_calls(racers: int) -> int:
    """Return the most duty calls of a unit: commit and reveal of each racer and of one committee."""
    return 2 * racers + 2 * COMMITTEE


def collateral(rules: UnitRules, price: int) -> int:
    """Return the provider's collateral: the amount at which a lie does not pay at the audit rate."""
    return case_collateral(price, rules.audit_rate_ppm, fee_of_judge(rules, price))


def judge_seat(rules: UnitRules, price: int) -> int:
    """Return the grains that a judge of the unit must hold until the case ends."""
    return seat_hold(collateral(rules, price), fee_of_judge(rules, price), price)


def ramped_price(floor: int, price_max: int, age: int, ramp: int) -> int:
    """Return a unit's price at an age in blocks: it rises from `floor` to its maximum in `ramp` blocks."""
    if ramp == 0 or price_max <= floor:
        return price_max
    return floor + (price_max - floor) * min(age, ramp) // ramp


def age_of_price(floor: int, price_max: int, price: int, ramp: int) -> int:
    """Return the age in blocks at which `ramped_price` reaches `price`, which is at most the maximum."""
    if ramp == 0 or price_max <= floor or price <= floor:
        return 0
    return -(-(price - floor) * ramp // (price_max - floor))


def settlement(unit: Unit, held: int, *, winner: Racer, witness: Racer | None, treasury: bytes) -> tuple[Share, ...]:
    """Return the shares of a right result: winner, witness, fees, audit premium, and the rest as change."""
    price = due(unit, winner)
    paid = [*_earned(unit.rules, price, winner.owner, treasury), Share(AUDIT_POT, premium_of(unit))]
    if witness is not None:
        paid += _earned(unit.rules, witness_pay(unit.rules, price), witness.owner, treasury)
    return _with_change(unit, held, paid)


def cancel_burn(unit: Unit) -> int:
    """Return the part of the customer's bond that burns on cancellation."""
    return part(unit.bond, unit.rules.cancel_burn)


def refund(unit: Unit, held: int, reason: Refund) -> tuple[Share, ...]:
    """Return the shares of a unit without a result: all money comes back, except a part of the bond on cancellation."""
    burned = cancel_burn(unit) if reason is Refund.CANCELLED else 0
    return _with_change(unit, held, [Share(None, burned)])


def _earned(rules: UnitRules, gross: int, payee: bytes, treasury: bytes) -> list[Share]:
    """Return the shares of a payment of `gross`: half of the settlement fee burns, half goes to the treasury."""
    taken = fee(rules, gross)
    to_treasury = taken // 2
    return [Share(payee, gross - taken), Share(treasury, to_treasury), Share(None, taken - to_treasury)]


def _with_change(unit: Unit, held: int, paid: list[Share]) -> tuple[Share, ...]:
    change = held - sum(share.amount for share in paid)
    assert change >= 0, "an outcome costs no more than its lock"
    shares = (*paid, Share(unit.customer, change))
    return tuple(share for share in shares if share.amount)
