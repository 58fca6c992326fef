"""How much an offence costs and where the money goes. Integers only; every grain is accounted for."""

from dataclasses import dataclass

from runtime.frame.holds import Hold

PPM = 1_000_000
EQUIVOCATION_FLOOR_PPM = 50_000
BURN_PPM = 500_000
VICTIM_PPM = 400_000
REPORTER_PPM = 100_000


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a sum of money: `payee` receives `amount` grains; None: it is burned."""

    payee: bytes | None
    amount: int


@dataclass(frozen=True, slots=True)
class Loss:
    """What was struck from an account, which still holds it for a case."""

    who: bytes
    hold: Hold
    amount: int


def equivocation_ppm(offending: int, total: int) -> int:
    """max(5 %, min(100 %, (3x)^2)) in ppm, where x = offending / total stake of the set.

    A lone mistake is survivable, a third of the stake together loses everything. The shape is
    Polkadot's (wiki.polkadot.network, "Offenses and Slashes"), the floor Cosmos's.
    """
    if total <= 0:
        return EQUIVOCATION_FLOOR_PPM
    curve = 9 * offending * offending * PPM // (total * total)
    return max(EQUIVOCATION_FLOOR_PPM, min(PPM, curve))


def part(amount: int, ppm: int) -> int:
    """`ppm` millionths of `amount`, rounded down."""
    return amount * ppm // PPM


def shared(amount: int, payees: tuple[bytes, ...]) -> tuple[Share, ...]:
    """`amount` in equal parts; what does not divide is burned, and all of it without payees."""
    each = amount // len(payees) if payees else 0
    rest = amount - each * len(payees)
    shares = tuple(Share(payee, each) for payee in payees if each)
    return (*shares, Share(None, rest)) if rest else shares


def slash_shares(
    amount: int, *, treasury: bytes, victim: bytes | None = None, rewarded: tuple[bytes, ...] = ()
) -> tuple[Share, ...]:
    """Where a slash goes: 50 % burned, 40 % to the victim, 10 % to who proved it.

    Without a victim its part goes to the treasury, without a prover that part as well. Rounding
    is burned. The shares add up to `amount`.
    """
    to_victim = part(amount, VICTIM_PPM)
    to_rewarded = part(amount, REPORTER_PPM)
    burned = amount - to_victim - to_rewarded
    shares = (
        Share(None, burned),
        Share(victim or treasury, to_victim),
        *shared(to_rewarded, rewarded or (treasury,)),
    )
    return tuple(share for share in shares if share.amount)
