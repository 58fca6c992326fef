"""The false statements of a claim, given a decided vote: pure rules over its checks.

Invariant: the provider or the open checker is convicted, unless the checker could not fetch an item that voters could.
"""

from dataclasses import dataclass

from gpu_tasks.market.claims.claims import Check, CheckEnd, ResultClaim
from gpu_tasks.market.claims.findings import ItemSample, ItemVote, Samples, Verdict


@dataclass(frozen=True, slots=True)
class Convicted:
    """The convicted parties of a dispute."""

    is_provider: bool
    checkers: tuple[bytes, ...]


def open_check(claim: ResultClaim) -> Check | None:
    """Return the present check of a claim, or None if none is open."""
    return claim.checks[-1] if claim.checks and claim.checks[-1].end is CheckEnd.OPEN else None


def passed_checks(claim: ResultClaim) -> tuple[Check, ...]:
    """Return the checks that passed."""
    return tuple(check for check in claim.checks if check.end is CheckEnd.PASSED)


def compared_checks(claim: ResultClaim) -> tuple[Check, ...]:
    """Return the checks at whose seeds voters take samples: the first one that passed, and the open one."""
    present = open_check(claim)
    return (*passed_checks(claim)[:1], *(() if present is None else (present,)))


def disputed_place(claim: ResultClaim) -> int:
    """Return the number of the point that a dispute is about. It was drawn if no checker was left."""
    check = open_check(claim)
    if check is None or check.finding is None:
        return claim.place
    if check.finding.verdict is not Verdict.RIGHT:
        return check.finding.place
    pairs = zip(check.finding.samples, _shown(check), strict=True)
    return next(place for place, (found, shown) in enumerate(pairs) if found != shown)


def convicted(claim: ResultClaim, vote: ItemVote) -> Convicted:
    """Return the parties whose statements about the disputed point contradict the vote."""
    if vote.verdict is Verdict.UNAVAILABLE:
        return Convicted(is_provider=True, checkers=())
    place, is_wrong = disputed_place(claim), vote.verdict is Verdict.WRONG
    right = {check.seed: sample for check, sample in zip(compared_checks(claim), vote.samples, strict=False)}
    is_provider = is_wrong or any(
        check.seed in right and _shown(check)[place] != right[check.seed] for check in compared_checks(claim)
    )
    present = open_check(claim)
    accused = (*passed_checks(claim), *(() if present is None else (present,)))
    false = (check.checker for check in accused if _is_false(check, place, right.get(check.seed), is_wrong=is_wrong))
    return Convicted(is_provider, tuple(false))


def _is_false(check: Check, place: int, right: ItemSample | None, *, is_wrong: bool) -> bool:
    """Return True if a finding contradicts the vote, by its verdict or by its sample."""
    assert check.finding is not None, "an accused checker has opened its finding"
    if check.finding.verdict is Verdict.UNAVAILABLE:
        return False
    if check.finding.verdict is Verdict.WRONG:
        return not is_wrong
    return is_wrong or (right is not None and check.finding.samples[place] != right)


def _shown(check: Check) -> Samples:
    assert check.shown is not None, "a finding opens after the provider's samples"
    return check.shown
