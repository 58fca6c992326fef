"""The size of a slash and its recipients. Integers only. Every grain is accounted for."""

from collections.abc import Iterable
from dataclasses import dataclass

from runtime.encoding.codec import U32, struct
from runtime.encoding.types import Balance
from runtime.frame.holds import Hold

PPM = 1_000_000
SLASH_FLOOR_PPM = 50_000
SLASH_SLOPE = 3
VICTIM_PPM = 400_000
REPORTER_PPM = 100_000


# The stake behind a validator in an era: election, rewards and the share of an offence derive from it.
#
# Invariant: the parts of a reward add up to it.
@struct
class Exposure:
    """The stake behind one validator at the start of its era."""

    total: Balance
    own: Balance
    commission_ppm: U32 = 0
    """The validator's commission at the start of the era."""


def by_stake(candidates: Iterable[tuple[bytes, int]]) -> list[tuple[bytes, int]]:
    """Return candidates and the stake behind each, the most first. Equal stakes are in ascending order of account."""
    return sorted(candidates, key=lambda candidate: (-candidate[1], candidate[0]))


def own_part(reward_grains: int, exposure: Exposure) -> int:
    """Return the validator's own part of a reward: its commission, and the share of its bond.

    The rest is its delegators', rounded up.
    """
    commission = part(reward_grains, exposure.commission_ppm)
    return commission + ((reward_grains - commission) * exposure.own // exposure.total if exposure.total else 0)


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a sum of money: `payee` receives `amount` grains. Without a payee it is burned."""

    payee: bytes | None
    amount: int


@dataclass(frozen=True, slots=True)
class Loss:
    """The grains slashed from an account that still holds them for a case."""

    who: bytes
    hold: Hold
    amount: int


@dataclass(frozen=True, slots=True)
class SlashCurve:
    """The growth of a slash with the share of stake that offended together."""

    floor: int
    """The least slash, in ppm."""
    slope: int


@dataclass(frozen=True, slots=True)
class SlashSplit:
    """The parts of a slash in ppm. The rest is burned."""

    victim: int
    reporter: int


def equivocation_ppm(offending: int, total_weight: int, slash_curve: SlashCurve) -> int:
    """Return max(floor, min(100 %, (slope x)^2)) in ppm, where x = offending / total stake of the set.

    A lone mistake is survivable. If a third of the stake offends together, it loses everything. The shape is Polkadot's
    (wiki.polkadot.network, "Offenses and Slashes"), the floor Cosmos's.
    """
    if total_weight <= 0:
        return slash_curve.floor
    # All factors before the only division, so that nothing is lost to rounding.
    curve_ppm = slash_curve.slope * slash_curve.slope * offending * offending * PPM // (total_weight * total_weight)
    return max(slash_curve.floor, min(PPM, curve_ppm))


def part(whole_grains: int, share_ppm: int) -> int:
    """Return `share_ppm` millionths of `whole_grains`, rounded down."""
    return whole_grains * share_ppm // PPM


def shared(total_grains: int, payees: tuple[bytes, ...]) -> tuple[Share, ...]:
    """Return equal shares of `total_grains`. The remainder of the division is burned, and all of it without payees."""
    equal_part = total_grains // len(payees) if payees else 0
    remainder = total_grains - equal_part * len(payees)
    shares = tuple(Share(payee, equal_part) for payee in payees if equal_part)
    return (*shares, Share(None, remainder)) if remainder else shares


def slash_shares(
    slashed_grains: int,
    slash_split: SlashSplit,
    *,
    treasury: bytes,
    victim: bytes | None = None,
    rewarded: tuple[bytes, ...] = (),
    reward_max: int | None = None,
) -> tuple[Share, ...]:
    """Return the shares of a slash: parts for the victim and the reporters, the rest burned.

    Without a victim its part goes to the treasury, and likewise without a reporter. The reporters' part is at most
    `reward_max`. The excess and the rounding are burned. The shares add up to `slashed_grains`.
    """
    to_victim = part(slashed_grains, slash_split.victim)
    to_rewarded = part(slashed_grains, slash_split.reporter)
    if reward_max is not None:
        to_rewarded = min(to_rewarded, reward_max)
    burned_grains = slashed_grains - to_victim - to_rewarded
    all_shares = (
        Share(None, burned_grains),
        Share(victim or treasury, to_victim),
        *shared(to_rewarded, rewarded or (treasury,)),
    )
    return tuple(share for share in all_shares if share.amount)
