"""The money of a session: the pay of a place, the collateral, and the recipients of each payment.

Checks and disputes of its claims move money by the table of claims (`claims/money.py`). Invariants: no payment exceeds
the rest of the deposit. The shares of a payment add up to it. Rounding of a payment's parts goes against its receiver.
"""

from gpu_tasks.batches.leaf_draws import total_weight, weight_floor
from gpu_tasks.batches.requests import TOKEN, price_of, work_of
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.claims.collateral import ALWAYS_PPM, check_fee, fees_max, least_collateral
from gpu_tasks.market.claims.numbers import RUNS, WINDOW_BLOCKS_MAX
from gpu_tasks.market.sessions.records import SPARE_LEG, SessionRecord, SessionRules, left_of, leg_at
from gpu_tasks.market.sessions.spares import spare_rate

PLACE_PART = 4
"""The least pay of a place is this part of its full income."""
PRICED_TOKENS = 1_000
EXPOSURE_BLOCKS = 900
"""The collateral covers the pay of this many blocks of the slowest device."""
RUN_BLOCKS_MAX = WINDOW_BLOCKS_MAX // RUNS
"""The most blocks in which the slowest device computes a claim, so that its checks have a longest window."""


def place_rate_of(rate: int, pace: int) -> int:
    """Return the least pay of a place in grains a block: a quarter of the pay of the slowest device, rounded down."""
    return rate * pace // (PLACE_PART * PRICED_TOKENS)


def exposure_of(deposit: int, rate: int, pace: int) -> int:
    """Return the most unchecked pay that the collateral of a session covers."""
    return min(deposit, price_of(rate, EXPOSURE_BLOCKS * pace * TOKEN))


def collateral_of(rules: SessionRules, at_stake: int, items: int = 1) -> int:
    """Return the collateral for a claim of this amount, or of a session with this exposure."""
    return least_collateral(
        at_stake,
        items=items,
        # Voters alone decide claims of sets that are too small for checks.
        rate_ppm=rules.check_rate_ppm or ALWAYS_PPM,
        vote_fee=check_fee(at_stake, rules.check_ppm, rules.check_fee_min, weight=1, of=1),
    )


def fees_of(rules: SessionRules, amount: int) -> int:
    """Return the most that the customer pays for the checks of a claim."""
    return fees_max(amount, rules.check_ppm, rules.check_fee_min) if rules.check_rate_ppm else 0


def work_in(session: SessionRecord, totals: Totals) -> int:
    """Return the work of a period."""
    return work_of(session.input_share, totals.tokens_in, totals.tokens_out)


def run_blocks_of(session: SessionRecord, totals: Totals) -> int:
    """Return the most blocks in which the slowest device computes a period."""
    return -(-work_in(session, totals) // (session.pace * TOKEN))


def weight_of(session: SessionRecord, totals: Totals) -> int:
    """Return the weight of the items of a period, with their floors. Its allowed work is all of its work."""
    floor = weight_floor(-(-work_in(session, totals) // TOKEN), totals.requests)
    return total_weight(totals, floor, input_share=session.input_share)


def place_pay(session: SessionRecord, number: int) -> int:
    """Return the pay of a leg's place beyond its claims, at most the rest of the deposit. It has left."""
    leg, is_spare = leg_at(session, number), number == SPARE_LEG
    assert leg.left_at >= leg.since, "a leg leaves after it began"
    # A spare without a proof has claimed nothing.
    if leg.is_refuted or (is_spare and not leg.claimed):
        return 0
    rate = spare_rate(session) if is_spare else session.place_rate
    return max(0, min(rate * (leg.left_at - leg.since) - leg.claimed, left_of(session)))
