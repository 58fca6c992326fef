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


def work_allowed(record: Unit) -> int:
    """Return the work that a unit's price pays for: all the tokens that its terms allow."""
    return work_of(record.input_share, record.terms.tokens_in, record.terms.tokens_max)


def due(record: Unit, winner: Racer) -> int:
    """Return the part of the unit's price that is due for the winner's tokens, in grains."""
    assert winner.reveal is not None, "a winner has a reveal"
    done_work = work_of(record.input_share, winner.reveal.input_tokens, winner.reveal.output_tokens)
    return due_of(record.price, done_work, work_allowed(record))


def witness_pay(rules: UnitRules, price_grains: int) -> int:
    """Return the payment of an agreeing runner-up, beside the winner's `price_grains`."""
    return part(price_grains, rules.witness_share)


def fee(rules: UnitRules, paid_grains: int) -> int:
    """Return the settlement fee on a payment."""
    return part(paid_grains, rules.settlement_fee)


def rebate(rules: UnitRules, price_grains: int) -> int:
    """Return the winner's rebate of the fee on `price_grains`, if the emission covers it. It is less than the fee."""
    return part(fee(rules, price_grains), rules.fee_rebate)


def fee_of_judge(rules: UnitRules, price_grains: int) -> int:
    """Return the fee of a judge of the unit."""
    return judge_fee(price_grains, rules.judge_fee_ppm, rules.judge_fee_min)


def premium(rules: UnitRules, price_grains: int) -> int:
    """Return the amount that a settlement pays into the audit pot."""
    return audit_premium(rules.audit_rate_ppm, fee_of_judge(rules, price_grains))


def check_fee(rules: UnitRules, price_grains: int, requests: int) -> int:
    """Return the fee of the auditor of a batch that is checked by its leaves."""
    return leaf_fees.check_fee(price_grains, requests, rules.judge_fee_min)


def premium_of(record: Unit) -> int:
    """Return the amount that the settlement of this unit pays into the audit pot.

    For a batch that is checked by its leaves, it pays for occasional audits of its auditor's pass.
    """
    if not record.leaf_audit_ppm:
        return premium(record.rules, record.price)
    return audit_premium(record.leaf_audit_ppm, check_fee(record.rules, record.price, record.terms.requests))


def batch_rules(rules: UnitRules) -> UnitRules:
    """Return the rules of a batch that is checked by its leaves.

    Every such batch is looked at, so the audit rate is 1 and the collateral is the least.
    """
    return replace(rules, audit_rate_ppm=PPM)


def batch_escrow(rules: UnitRules, leaf_audit_ppm: int, price_max: int, racer_count: int, requests: int) -> int:
    """Return the most that a leaf-checked batch costs its customer: an auditor replaces the share in audits."""
    auditor_fee = check_fee(rules, price_max, requests)
    checking_cost = auditor_fee + audit_premium(leaf_audit_ppm, auditor_fee)
    return price_max + checking_cost + (spare(rules, price_max) if racer_count > 1 else 0)


def spare(rules: UnitRules, price_grains: int) -> int:
    """Return the reserve of a unit with two or more racers: it pays a witness, or the pair that judges a lone answer.

    It covers all fees of the pair, so the audit pot adds nothing. Otherwise a customer could drain the pot by units for
    its own racers: each unit with one late racer would cost the pot something.
    """
    return max(witness_pay(rules, price_grains), PAIR * fee_of_judge(rules, price_grains))


def escrow(rules: UnitRules, price_max: int, racer_count: int) -> int:
    """Return the most that a unit costs its customer: price, premium, and the reserve if two or more race.

    Unspent parts come back.
    """
    return price_max + premium(rules, price_max) + (spare(rules, price_max) if racer_count > 1 else 0)


def customer_bond(price_max: int, bond_ppm: int) -> int:
    """Return the customer's bond: `bond_ppm` millionths of the price, rounded up."""
    return -(-price_max * bond_ppm // PPM)


def duty_calls(racer_count: int) -> int:
    """Return the most duty calls of a unit: commit and reveal of each racer and of one committee."""
    return 2 * racer_count + 2 * COMMITTEE


def collateral(rules: UnitRules, price_grains: int) -> int:
    """Return the provider's collateral: the amount at which a lie does not pay at the audit rate."""
    return case_collateral(price_grains, rules.audit_rate_ppm, fee_of_judge(rules, price_grains))


def judge_seat(rules: UnitRules, price_grains: int) -> int:
    """Return the grains that a judge of the unit must hold until the case ends."""
    return seat_hold(collateral(rules, price_grains), fee_of_judge(rules, price_grains), price_grains)


def ramped_price(price_min: int, price_max: int, age_blocks: int, ramp_blocks: int) -> int:
    """Return a unit's price at an age in blocks: it rises from `price_min` to its maximum in `ramp_blocks` blocks."""
    if ramp_blocks == 0 or price_max <= price_min:
        return price_max
    return price_min + (price_max - price_min) * min(age_blocks, ramp_blocks) // ramp_blocks


def age_of_price(price_min: int, price_max: int, price_grains: int, ramp_blocks: int) -> int:
    """Return the age in blocks at which `ramped_price` reaches `price_grains`, which is at most the maximum."""
    if ramp_blocks == 0 or price_max <= price_min or price_grains <= price_min:
        return 0
    return -(-(price_grains - price_min) * ramp_blocks // (price_max - price_min))


def settlement(
    record: Unit, held_grains: int, *, winner: Racer, witness: Racer | None, treasury: bytes
) -> tuple[Share, ...]:
    """Return the shares of a right result: winner, witness, fees, audit premium, and the rest as change."""
    price_due = due(record, winner)
    shares = [
        *_earned(record.rules, price_due, winner.owner, treasury),
        Share(AUDIT_POT, premium_of(record)),
    ]
    if witness is not None:
        shares += _earned(record.rules, witness_pay(record.rules, price_due), witness.owner, treasury)
    return _with_change(record, held_grains, shares)


def cancel_burn(record: Unit) -> int:
    """Return the part of the customer's bond that burns on cancellation."""
    return part(record.bond, record.rules.cancel_burn)


def refund(record: Unit, held_grains: int, reason: Refund) -> tuple[Share, ...]:
    """Return the shares of a unit without a result: all money comes back, except a part of the bond on cancellation."""
    burned = cancel_burn(record) if reason is Refund.CANCELLED else 0
    return _with_change(record, held_grains, [Share(None, burned)])


def _earned(rules: UnitRules, gross: int, payee: bytes, treasury: bytes) -> list[Share]:
    """Return the shares of a payment of `gross`: half of the settlement fee burns, half goes to the treasury."""
    fee_grains = fee(rules, gross)
    to_treasury = fee_grains // 2
    return [
        Share(payee, gross - fee_grains),
        Share(treasury, to_treasury),
        Share(None, fee_grains - to_treasury),
    ]


def _with_change(record: Unit, held_grains: int, shares: list[Share]) -> tuple[Share, ...]:
    change = held_grains - sum(share.amount for share in shares)
    assert change >= 0, "an outcome costs no more than its lock"
    all_shares = (*shares, Share(record.customer, change))
    return tuple(share for share in all_shares if share.amount)
