"""What may have moved when a check has ended, reckoned by the money table, and compared to the grain.

Always: what a hold was filled with is what left it; who did nothing wrong pays nothing; of a check nothing moves but
what is listed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from devnet.proofs.batch_cheats.traces import CheckCase, CheckTrace
from gpu_tasks.market.courts.cases import AUDIT_POT, JUDGE_SEAT
from gpu_tasks.market.courts.money import SMALL_SET_PRICE_PERCENT
from gpu_tasks.market.devices.records import COLLATERAL
from gpu_tasks.market.leaf_checks.checks import LEAF_BOND, LEAF_FEE, LEAF_SEAT, CheckTerms
from runtime.frame.holds import HoldReason
from runtime.pallets.staking.trust_lock import Locked, Paid

IN_OFFICE = 6
"""All of the same stake."""
REASONS = (COLLATERAL, LEAF_SEAT, LEAF_BOND, LEAF_FEE, JUDGE_SEAT)
CheckPurse = tuple[bytes, str]
"""Whose, and what for."""
CheckPayee = bytes | None
"""None: it burns."""


@dataclass(frozen=True, slots=True)
class CheckPayment:
    """Of what some hold together so much goes to each; what is left stays with them."""

    purses: tuple[CheckPurse, ...]
    dues: Counter[CheckPayee]

    def to_others(self) -> Counter[CheckPayee]:
        """Without what one of them would pay to itself, and keeps."""
        own = {who for who, _ in self.purses}
        return Counter({payee: due for payee, due in self.dues.items() if payee not in own})

    def lost(self) -> int:
        """What they have less."""
        return sum(self.to_others().values())


def purse(who: bytes, reason: HoldReason) -> CheckPurse:
    """What an account holds for the batch, or a case of it."""
    return who, reason.name


def lies_paid(
    case: CheckCase, liars: Sequence[tuple[CheckPurse, int]], customer: bytes, price: int, fee: int
) -> CheckPayment:
    """Who lied pays the judges who said what stands, then the customer its price; the rest burns.

    Whole, where these judges are more than a third of those in office; else price, fees and a fourth of the price.
    """
    assert case.ended is not None, "the case is over"
    right = [said.judge for said in case.opinions if said.statement.opinion == case.ended.verdict]
    cap = price + fee * len(right) + -(-price * SMALL_SET_PRICE_PERCENT // 100)
    whole = len(right) * 3 > IN_OFFICE
    left = sum(held if whole else min(held, cap) for _, held in liars)
    dues: Counter[CheckPayee] = Counter()
    for payee, due in [*((judge, fee) for judge in right), (customer, price)]:
        dues[payee] += min(left, due)
        left -= min(left, due)
    dues[None] += left
    return CheckPayment(tuple(each for each, _ in liars), +dues)


def withheld_paid(terms: CheckTerms) -> CheckPayment:
    """Who showed nothing pays the customer its price; the rest burns."""
    held = sum(each.held for each in terms.answerers)
    dues: Counter[CheckPayee] = Counter({terms.customer: min(held, terms.price), None: max(0, held - terms.price)})
    return CheckPayment(answerers(terms), +dues)


def fee_paid(terms: CheckTerms, earner: bytes | None) -> CheckPayment:
    """The auditor whose word stands has its fee; else it is for audits."""
    return CheckPayment((purse(terms.customer, LEAF_FEE),), Counter({earner or AUDIT_POT: terms.fee}))


def answerers(terms: CheckTerms) -> tuple[CheckPurse, ...]:
    """What stands for the result."""
    return tuple(purse(each.account, COLLATERAL) for each in terms.answerers)


def wrong_sums(trace: CheckTrace, payments: Sequence[CheckPayment]) -> Iterator[str]:
    """What did not move as these payments say, and what moved beside them."""
    paid = paid_of(trace)
    for payment in payments:
        found: Counter[CheckPayee] = Counter()
        for each in payment.purses:
            found += paid.get(each, Counter())
        dues = payment.to_others()
        if found != dues:
            yield f"{_named(payment.purses)} paid {_shown(found)}, and not {_shown(dues)}"
    allowed = {each for payment in payments for each in payment.purses}
    for each, found in paid.items():
        if each not in allowed and found:
            yield f"{_named([each])} paid {_shown(found)}, and did nothing wrong"
    yield from _left_behind(trace)


def paid_of(trace: CheckTrace) -> dict[CheckPurse, Counter[CheckPayee]]:
    """What each paid of what it held for the batch or its cases, to whom."""
    paid: dict[CheckPurse, Counter[CheckPayee]] = {}
    names = {reason.name for reason in REASONS}
    for _, event in trace.moved:
        if isinstance(event, Paid) and event.reason.name in names:
            paid.setdefault((event.who, event.reason.name), Counter())[event.payee] += event.amount
    return paid


def lost_by(trace: CheckTrace, who: Iterable[CheckPurse]) -> int:
    """What these paid in all."""
    paid = paid_of(trace)
    return sum(sum(paid.get(each, Counter()).values()) for each in who)


def _left_behind(trace: CheckTrace) -> Iterator[str]:
    """What was locked of seats and bonds has been unlocked or paid."""
    balances: Counter[CheckPurse] = Counter()
    for _, event in trace.moved:
        if event.reason.name in (LEAF_SEAT.name, LEAF_BOND.name, JUDGE_SEAT.name):
            balances[event.who, event.reason.name] += event.amount if isinstance(event, Locked) else -event.amount
    for each, left in balances.items():
        if left:
            yield f"{left} grains of {_named([each])} are left behind"


def _named(purses: Sequence[CheckPurse]) -> str:
    return ", ".join(f"{who.hex()[:8]} ({reason})" for who, reason in purses)


def _shown(dues: Counter[CheckPayee]) -> dict[str, int]:
    return {"burned" if payee is None else payee.hex()[:8]: amount for payee, amount in dues.items()}
