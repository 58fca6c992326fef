"""The money table of a unit: who gets which part of what its customer locked. What a case moves is the courts' table.

Always: the shares of an outcome add up to what is held for the unit exactly, and the deposit beside it comes back
whole; nobody but the customer gets a grain of the customer's without a result, or a case; rounding goes to the customer
or is burned.
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
"""Judges whose calls a post prepays."""
CHECK_CALLS = 2
"""Of a batch that is checked by its leaves: they are shown, and its auditor says something."""


def work_allowed(unit: Unit) -> int:
    """The work that a unit's price is for: all the tokens that its terms allow."""
    return work_of(unit.input_share, unit.terms.tokens_in, unit.terms.tokens_max)


def due(unit: Unit, winner: Racer) -> int:
    """What of the unit's price is due for what its winner revealed: that of the tokens that it took."""
    assert winner.reveal is not None, "a winner has revealed"
    done = work_of(unit.input_share, winner.reveal.input_tokens, winner.reveal.output_tokens)
    return due_of(unit.price, done, work_allowed(unit))


def witness_pay(rules: UnitRules, price: int) -> int:
    """What an agreeing runner-up is paid beside the winner's `price`."""
    return part(price, rules.witness_share)


def fee(rules: UnitRules, paid: int) -> int:
    """The settlement fee on a payment."""
    return part(paid, rules.settlement_fee)


def rebate(rules: UnitRules, price: int) -> int:
    """What a winner gets back of the fee on `price`, as far as the emission goes: less than the fee."""
    return part(fee(rules, price), rules.fee_rebate)


def fee_of_judge(rules: UnitRules, price: int) -> int:
    """What a judge of the unit is paid."""
    return judge_fee(price, rules.judge_fee_ppm, rules.judge_fee_min)


def premium(rules: UnitRules, price: int) -> int:
    """What a settlement pays into the audit pot."""
    return audit_premium(rules.audit_rate_ppm, fee_of_judge(rules, price))


def check_fee(rules: UnitRules, price: int, requests: int) -> int:
    """What the auditor of a batch that is checked by its leaves is paid."""
    return leaf_fees.check_fee(price, requests, rules.judge_fee_min)


def premium_of(unit: Unit) -> int:
    """What the settlement of this unit pays into the audit pot.

    Of a batch that is checked by its leaves, for looking now and then at what its auditor passed with.
    """
    if not unit.leaf_audit_ppm:
        return premium(unit.rules, unit.price)
    return audit_premium(unit.leaf_audit_ppm, check_fee(unit.rules, unit.price, unit.terms.requests))


def batch_rules(rules: UnitRules) -> UnitRules:
    """What a batch goes by that is checked by its leaves: every one is looked at, so its collateral is the least."""
    return replace(rules, audit_rate_ppm=PPM)


def batch_escrow(rules: UnitRules, leaf_audit_ppm: int, price_max: int, racers: int, requests: int) -> int:
    """What a batch may cost its customer that is checked by its leaves: its auditor instead of a share in audits."""
    checking = check_fee(rules, price_max, requests)
    looks = checking + audit_premium(leaf_audit_ppm, checking)
    return price_max + looks + (spare(rules, price_max) if racers > 1 else 0)


def spare(rules: UnitRules, price: int) -> int:
    """What is set aside where two or more race: it pays a witness, or the pair that looks at the only answer.

    All of that pair's fees: what the pot had to add, whoever posts to racers of its own would have it lose with every
    unit of which one is late, until nothing pays an audit.
    """
    return max(witness_pay(rules, price), PAIR * fee_of_judge(rules, price))


def escrow(rules: UnitRules, price_max: int, racers: int) -> int:
    """What a unit may cost its customer: the price, the premium, and what is spare where two or more race.

    What nobody earned of it comes back.
    """
    return price_max + premium(rules, price_max) + (spare(rules, price_max) if racers > 1 else 0)


def customer_bond(price_max: int, ppm: int) -> int:
    """The customer's side of the trust lock: so many millionths of the price, rounded up."""
    return -(-price_max * ppm // PPM)


def duty_calls(racers: int) -> int:
    """How many duty calls a unit may cause: commit and reveal of each racer and of one committee."""
    return 2 * racers + 2 * COMMITTEE


def collateral(rules: UnitRules, price: int) -> int:
    """The provider's side of the trust lock: what makes a lie not pay at the chance of an audit."""
    return case_collateral(price, rules.audit_rate_ppm, fee_of_judge(rules, price))


def judge_seat(rules: UnitRules, price: int) -> int:
    """What a judge of the unit must hold until the case ends."""
    return seat_hold(collateral(rules, price), fee_of_judge(rules, price), price)


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


def settlement(unit: Unit, held: int, *, winner: Racer, witness: Racer | None, treasury: bytes) -> tuple[Share, ...]:
    """A result was right: winner, witness, fees, the premium of the audits, and of what is held the rest as change."""
    price = due(unit, winner)
    paid = [*_earned(unit.rules, price, winner.owner, treasury), Share(AUDIT_POT, premium_of(unit))]
    if witness is not None:
        paid += _earned(unit.rules, witness_pay(unit.rules, price), witness.owner, treasury)
    return _with_change(unit, held, paid)


def cancel_burn(unit: Unit) -> int:
    """What a customer that changes its mind loses of its bond."""
    return part(unit.bond, unit.rules.cancel_burn)


def refund(unit: Unit, held: int, reason: Refund) -> tuple[Share, ...]:
    """There is no result: what is held comes back, but for a part of the bond where the customer changed its mind."""
    burned = cancel_burn(unit) if reason is Refund.CANCELLED else 0
    return _with_change(unit, held, [Share(None, burned)])


def _earned(rules: UnitRules, gross: int, payee: bytes, treasury: bytes) -> list[Share]:
    """`gross` less the settlement fee, half of which is burned and half the treasury's."""
    taken = fee(rules, gross)
    to_treasury = taken // 2
    return [Share(payee, gross - taken), Share(treasury, to_treasury), Share(None, taken - to_treasury)]


def _with_change(unit: Unit, held: int, paid: list[Share]) -> tuple[Share, ...]:
    change = held - sum(share.amount for share in paid)
    assert change >= 0, "an outcome costs no more than what was locked for it"
    shares = (*paid, Share(unit.customer, change))
    return tuple(share for share in shares if share.amount)
