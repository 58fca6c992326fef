"""The collateral behind a claim, the fees of its checks, and the chance of a draw, as pure functions.

    K = max(6/5 M (1 - q) / q, 2 C)

M is the money at stake, q the least ratio of the chance of a conviction to the share of the price that a lie gains, C
the fees of nine voters. docs/adr/0027-claims-and-checks.md derives it, and `simulation/claims_game.py` computes q.
"""

from gpu_tasks.market.claims.disputes import SEATS

PPM = 1_000_000
CLAIM_POINTS = 4
"""The points that a claim with many items expects."""
CLAIM_POINTS_MAX = CLAIM_POINTS + 1
"""The most points of a claim with the rate of `item_rate`: the last part of the line may be a short one."""
MARKUP_PPM = 1_200_000
"""A check's fee over its cost."""
RATIO_OF_RATE = {
    100_000: 37_200_000,
    200_000: 16_900_000,
    333_333: 9_040_000,
    500_000: 5_150_000,
    1_000_000: 2_590_000,
}
"""6/5 (1 - q) / q in millionths, rounded up, by the chance that an item is drawn. Other chances have no game."""
RATES_PPM = tuple(RATIO_OF_RATE)
ALWAYS_PPM = RATES_PPM[-1]


def item_rate(items: int, rate_ppm: int) -> int:
    """Return the chance that an item of mean weight is drawn: `rate_ppm`, or less if the claim has many items."""
    return min(rate_ppm, CLAIM_POINTS * PPM // items)


def game_rate(rate_ppm: int) -> int:
    """Return the greatest rate with a solved game that is at most `rate_ppm`. Raise ValueError below all of them."""
    return max(listed for listed in RATES_PPM if listed <= rate_ppm)


def check_share(cost_ppm: int) -> int:
    """Return the fee of checking an item over its price, given the cost of a check over the cost of the item."""
    return -(-cost_ppm * MARKUP_PPM // PPM)


def check_fee(price: int, check_ppm: int, fee_min: int, *, weight: int, of: int) -> int:
    """Return the fee of a check of items that weigh `weight` of all `of`, at least `fee_min`."""
    return max(fee_min, -(-price * check_ppm * weight // (PPM * of)))


def fees_max(price: int, check_ppm: int, fee_min: int, *, weight: int = 1, of: int = 1) -> int:
    """Return the most that a customer pays for the checks of a claim: two, of items that weigh `weight` of all `of`."""
    return 2 * check_fee(price, check_ppm, fee_min, weight=weight, of=of)


def least_collateral(at_stake: int, *, items: int, rate_ppm: int, vote_fee: int) -> int:
    """Return the collateral of a claim's provider and of each of its checkers.

    `vote_fee` is the fee of a voter. `rate_ppm` is the rate before `item_rate`. One without a game counts as the next
    lower one, so it takes more collateral than it needs. A claim of which at least four points are drawn is always
    checked.
    """
    is_always = items * rate_ppm >= CLAIM_POINTS * PPM
    ratio = RATIO_OF_RATE[ALWAYS_PPM if is_always else game_rate(rate_ppm)]
    return max(-(-at_stake * ratio // PPM), 2 * SEATS * vote_fee)


def finder_reward(held: int) -> int:
    """Return the reward of the account that found a false result."""
    return held // 2
