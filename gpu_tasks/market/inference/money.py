"""The money table of a unit: the recipients of the customer's lock in each outcome.

Checks and disputes move money by the table of claims (`claims/money.py`). Invariants: the shares of an outcome add up
exactly to the unit's held money. The deposit returns whole. Without an accepted result or a bad input, the customer's
money returns to the customer alone, apart from burned parts. Rounding favours the customer or is burned.
"""

from gpu_tasks.batches.requests import due_of, work_of
from gpu_tasks.market.claims.collateral import ALWAYS_PPM, check_fee, fees_max, least_collateral
from gpu_tasks.market.claims.disputes import SEATS
from gpu_tasks.market.inference.rules import UnitRules
from gpu_tasks.market.inference.units import Racer, Refund, Unit
from runtime.pallets.staking.slashing import PPM, Share, part

CHECK_CALLS = 4
"""The prepaid calls of checks: a checker's commitment and opening, and the provider's samples, with one to spare."""


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


def check_fee_max(rules: UnitRules, price_grains: int) -> int:
    """Return the fee of a check of a whole result. It is also the fee of a voter about one request."""
    return check_fee(price_grains, rules.check_ppm, rules.check_fee_min, weight=1, of=1)


def check_fees_max(rules: UnitRules, price_grains: int) -> int:
    """Return the most that a customer pays for the checks of a result at this price."""
    return fees_max(price_grains, rules.check_ppm, rules.check_fee_min) if rules.check_rate_ppm else 0


def input_fee(record: Unit) -> int:
    """Return the fee of a voter that looks at the input: its part of the customer's bond."""
    return max(record.rules.check_fee_min, record.bond // SEATS)


def escrow(rules: UnitRules, price_max: int, racer_count: int) -> int:
    """Return the most that a unit costs its customer: price, checks, and the witness if two or more race.

    Unspent parts come back.
    """
    return price_max + check_fees_max(rules, price_max) + _witness_pay_of(rules, price_max, racer_count)


def customer_bond(price_max: int, bond_ppm: int) -> int:
    """Return the customer's bond: `bond_ppm` millionths of the price, rounded up."""
    return -(-price_max * bond_ppm // PPM)


def duty_calls(racer_count: int) -> int:
    """Return the number of duty calls that a post prepays: commit and reveal of each racer, and those of checks."""
    return 2 * racer_count + CHECK_CALLS


def collateral(rules: UnitRules, price_grains: int, racer_count: int, requests: int) -> int:
    """Return the collateral of each racer: the amount at which no lie pays at the chance of a check."""
    return least_collateral(
        price_grains + _witness_pay_of(rules, price_grains, racer_count),
        items=requests,
        # Voters alone decide claims of sets that are too small for checks.
        rate_ppm=rules.check_rate_ppm or ALWAYS_PPM,
        vote_fee=check_fee_max(rules, price_grains),
    )


def collateral_of(record: Unit) -> int:
    """Return the collateral of each racer at the price of the current race."""
    return collateral(record.rules, record.price, record.terms.racers, record.terms.requests)


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
    """Return the shares of an accepted result: winner, witness, fees, and the rest as change.

    The fees of checks are paid already.
    """
    price_due = due(record, winner)
    fee_ppm = record.rules.settlement_fee
    shares = earned(price_due, fee_ppm, winner.owner, treasury)
    if witness is not None:
        shares += earned(witness_pay(record.rules, price_due), fee_ppm, witness.owner, treasury)
    return _with_change(record, held_grains, shares)


def cancel_burn(record: Unit) -> int:
    """Return the part of the customer's bond that burns on cancellation."""
    return part(record.bond, record.rules.cancel_burn)


def refund(record: Unit, held_grains: int, reason: Refund) -> tuple[Share, ...]:
    """Return the shares of a unit without a result: all money comes back, except a part of the bond on cancellation."""
    burned = cancel_burn(record) if reason is Refund.CANCELLED else 0
    return _with_change(record, held_grains, [Share(None, burned)])


def _witness_pay_of(rules: UnitRules, price_grains: int, racer_count: int) -> int:
    return witness_pay(rules, price_grains) if racer_count > 1 else 0


def earned(gross: int, fee_ppm: int, payee: bytes, treasury: bytes) -> list[Share]:
    """Return the shares of a payment of `gross`: half of the settlement fee burns, half goes to the treasury."""
    fee_grains = part(gross, fee_ppm)
    to_treasury = fee_grains // 2
    return [Share(payee, gross - fee_grains), Share(treasury, to_treasury), Share(None, fee_grains - to_treasury)]


def _with_change(record: Unit, held_grains: int, shares: list[Share]) -> tuple[Share, ...]:
    change = held_grains - sum(share.amount for share in shares)
    assert change >= 0, "an outcome costs no more than its lock"
    all_shares = (*shares, Share(record.customer, change))
    return tuple(share for share in all_shares if share.amount)
