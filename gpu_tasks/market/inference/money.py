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


def work_allowed(unit_record: Unit) -> int:
    """Return the work that a unit's price pays for: all the tokens that its terms allow."""
    return work_of(unit_record.input_share, unit_record.terms.tokens_in, unit_record.terms.tokens_max)


def due(unit_record: Unit, winner: Racer) -> int:
    """Return the part of the unit's price that is due for the winner's tokens, in grains."""
    assert winner.reveal is not None, "a winner has a reveal"
    done_work = work_of(unit_record.input_share, winner.reveal.input_tokens, winner.reveal.output_tokens)
    return due_of(unit_record.price, done_work, work_allowed(unit_record))


def witness_pay(unit_rules: UnitRules, price_grains: int) -> int:
    """Return the payment of an agreeing runner-up, beside the winner's `price_grains`."""
    return part(price_grains, unit_rules.witness_share)


def fee(unit_rules: UnitRules, paid_grains: int) -> int:
    """Return the settlement fee on a payment."""
    return part(paid_grains, unit_rules.settlement_fee)


def rebate(unit_rules: UnitRules, price_grains: int) -> int:
    """Return the winner's rebate of the fee on `price_grains`, if the emission covers it. It is less than the fee."""
    return part(fee(unit_rules, price_grains), unit_rules.fee_rebate)


def fee_of_judge(unit_rules: UnitRules, price_grains: int) -> int:
    """Return the fee of a judge of the unit."""
    return judge_fee(price_grains, unit_rules.judge_fee_ppm, unit_rules.judge_fee_min)


def premium(unit_rules: UnitRules, price_grains: int) -> int:
    """Return the amount that a settlement pays into the audit pot."""
    return audit_premium(unit_rules.audit_rate_ppm, fee_of_judge(unit_rules, price_grains))


def check_fee(unit_rules: UnitRules, price_grains: int, requests: int) -> int:
    """Return the fee of the auditor of a batch that is checked by its leaves."""
    return leaf_fees.check_fee(price_grains, requests, unit_rules.judge_fee_min)


def premium_of(unit_record: Unit) -> int:
    """Return the amount that the settlement of this unit pays into the audit pot.

    For a batch that is checked by its leaves, it pays for occasional audits of its auditor's pass.
    """
    if not unit_record.leaf_audit_ppm:
        return premium(unit_record.rules, unit_record.price)
    return audit_premium(
        unit_record.leaf_audit_ppm, check_fee(unit_record.rules, unit_record.price, unit_record.terms.requests)
    )


def batch_rules(unit_rules: UnitRules) -> UnitRules:
    """Return the rules of a batch that is checked by its leaves.

    Every such batch is looked at, so the audit rate is 1 and the collateral is the least.
    """
    return replace(unit_rules, audit_rate_ppm=PPM)


def batch_escrow(unit_rules: UnitRules, leaf_audit_ppm: int, price_max: int, racer_count: int, requests: int) -> int:
    """Return the most that a leaf-checked batch costs its customer: an auditor replaces the share in audits."""
    auditor_fee = check_fee(unit_rules, price_max, requests)
    checking_cost = auditor_fee + audit_premium(leaf_audit_ppm, auditor_fee)
    return price_max + checking_cost + (spare(unit_rules, price_max) if racer_count > 1 else 0)


def spare(unit_rules: UnitRules, price_grains: int) -> int:
    """Return the reserve of a unit with two or more racers: it pays a witness, or the pair that judges a lone answer.

    It covers all fees of the pair, so the audit pot adds nothing. Otherwise a customer could drain the pot by units for
    its own racers: each unit with one late racer would cost the pot something.
    """
    return max(witness_pay(unit_rules, price_grains), PAIR * fee_of_judge(unit_rules, price_grains))


def escrow(unit_rules: UnitRules, price_max: int, racer_count: int) -> int:
    """Return the most that a unit costs its customer: price, premium, and the reserve if two or more race.

    Unspent parts come back.
    """
    return price_max + premium(unit_rules, price_max) + (spare(unit_rules, price_max) if racer_count > 1 else 0)


def customer_bond(price_max: int, bond_ppm: int) -> int:
    """Return the customer's bond: `bond_ppm` millionths of the price, rounded up."""
    return -(-price_max * bond_ppm // PPM)


def duty_calls(racer_count: int) -> int:
    """Return the most duty calls of a unit: commit and reveal of each racer and of one committee."""
    return 2 * racer_count + 2 * COMMITTEE


def collateral(unit_rules: UnitRules, price_grains: int) -> int:
    """Return the provider's collateral: the amount at which a lie does not pay at the audit rate."""
    return case_collateral(price_grains, unit_rules.audit_rate_ppm, fee_of_judge(unit_rules, price_grains))


def judge_seat(unit_rules: UnitRules, price_grains: int) -> int:
    """Return the grains that a judge of the unit must hold until the case ends."""
    return seat_hold(collateral(unit_rules, price_grains), fee_of_judge(unit_rules, price_grains), price_grains)


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
    unit_record: Unit, held_grains: int, *, winner: Racer, witness: Racer | None, treasury: bytes
) -> tuple[Share, ...]:
    """Return the shares of a right result: winner, witness, fees, audit premium, and the rest as change."""
    price_due = due(unit_record, winner)
    paid_shares = [
        *_earned(unit_record.rules, price_due, winner.owner, treasury),
        Share(AUDIT_POT, premium_of(unit_record)),
    ]
    if witness is not None:
        paid_shares += _earned(unit_record.rules, witness_pay(unit_record.rules, price_due), witness.owner, treasury)
    return _with_change(unit_record, held_grains, paid_shares)


def cancel_burn(unit_record: Unit) -> int:
    """Return the part of the customer's bond that burns on cancellation."""
    return part(unit_record.bond, unit_record.rules.cancel_burn)


def refund(unit_record: Unit, held_grains: int, reason: Refund) -> tuple[Share, ...]:
    """Return the shares of a unit without a result: all money comes back, except a part of the bond on cancellation."""
    burned_grains = cancel_burn(unit_record) if reason is Refund.CANCELLED else 0
    return _with_change(unit_record, held_grains, [Share(None, burned_grains)])


def _earned(unit_rules: UnitRules, gross_grains: int, payee: bytes, treasury: bytes) -> list[Share]:
    """Return the shares of a payment of `gross_grains`: half of the settlement fee burns, half goes to the treasury."""
    fee_grains = fee(unit_rules, gross_grains)
    to_treasury = fee_grains // 2
    return [
        Share(payee, gross_grains - fee_grains),
        Share(treasury, to_treasury),
        Share(None, fee_grains - to_treasury),
    ]


def _with_change(unit_record: Unit, held_grains: int, paid_shares: list[Share]) -> tuple[Share, ...]:
    change_grains = held_grains - sum(paid_share.amount for paid_share in paid_shares)
    assert change_grains >= 0, "an outcome costs no more than its lock"
    all_shares = (*paid_shares, Share(unit_record.customer, change_grains))
    return tuple(paid_share for paid_share in all_shares if paid_share.amount)
