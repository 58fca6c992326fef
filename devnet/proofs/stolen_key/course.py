"""A budget from its creation to its end: spent by a delegate, revoked in mid-session, and closed to the grain."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from devnet.proofs.stolen_key.scenes import BLOCKS_MAX, CAP_WORDS, SELLING, BudgetOwner, EventsSince, asked
from devnet.stage.network import CUSTOMER_KEY, Stage
from gpu_tasks.market.budgets.events import DelegateRevoked
from gpu_tasks.market.budgets.records import REVOKED_BLOCKS
from gpu_tasks.market.sessions.events import PeriodClaimed, SessionEnded, SessionOpened
from wallet.amounts import format_amount
from wallet.suri import keypair_from_suri

DELEGATE = f"{CUSTOMER_KEY}//app"
QUESTION = "Name a colour."
OPENINGS_MAX = 8


@dataclass(frozen=True, slots=True)
class BudgetCourse:
    """The outcome. Amounts are grains."""

    answer: str
    unit_state: str
    sessions: int
    refused_at_cap: str | None
    refused_after_revoke: Mapping[str, str | None]
    claimed_after_blocks: int | None
    """Blocks from the revocation to the last claim of a provider; None without a claim."""
    claimed: int
    spent: int
    """The decrease of the budget's money, without withdrawals."""
    explained: int
    """The same, summed over the unit and the sessions."""
    owner_lost: int
    """The decrease of the owner's wealth, without fees and the gift to the delegate."""


def use(stage: Stage) -> BudgetCourse:
    """Create a budget, spend it up to a cap as a delegate, revoke in mid-session, and take the rest back."""
    owner = BudgetOwner(stage)
    wealth_before, events = owner.wealth, EventsSince(stage)
    budget = owner.create()
    owner.grant(budget, DELEGATE, *CAP_WORDS, "--for", "1d")
    status = owner.status(budget)
    assert status is not None, "it was created"
    money_before = owner.money(budget)
    unit_state, unit_cost = _unit(stage, budget)
    output, _ = asked(stage, QUESTION, *_chat(stage, budget), "--keep")
    refused_at_cap = _refused_opening(stage, budget)
    owner.revoke(budget, DELEGATE)
    [(revoked_at, _)] = events.until("the revocation", DelegateRevoked, delegate=keypair_from_suri(DELEGATE).account)
    after = {
        "unit": asked(stage, "another", *_post(budget))[1],
        "session": asked(stage, "", *_open(stage, budget))[1],
        "chat": asked(stage, QUESTION, *_chat(stage, budget))[1],
    }
    opened = [event.session for _, event in events.of(SessionOpened, customer=status.account)]
    for session in opened:
        events.until(f"the end of session 0x{session.hex()}", SessionEnded, session=session)
    claims = [claim for session in opened for claim in events.of(PeriodClaimed, session=session)]
    sessions_paid = sum(event.paid for session in opened for _, event in events.of(SessionEnded, session=session))
    _wait_for_records(owner, events, budget)
    spent = money_before - owner.money(budget)
    _take_back(owner, budget)
    return BudgetCourse(
        answer=json.loads(output.splitlines()[-1])["answer"] if output else "",
        unit_state=unit_state,
        sessions=len(opened),
        refused_at_cap=refused_at_cap,
        refused_after_revoke=after,
        claimed_after_blocks=max(height for height, _ in claims) - revoked_at if claims else None,
        claimed=sum(event.amount for _, event in claims),
        spent=spent,
        explained=unit_cost + sessions_paid,
        owner_lost=wealth_before - owner.wealth - owner.fees - owner.gifts,
    )


def _post(budget: str) -> tuple[str, ...]:
    words = ("unit", "post", "-", "--racers", "1", "--max-tokens", "8", "--budget", budget, "--key", DELEGATE, "--yes")
    return (*words, "--anyway", "--watch")


def _unit(stage: Stage, budget: str) -> tuple[str, int]:
    """Post a unit by the delegate, follow it, and return its state and its cost without fees."""
    asked(stage, "def f():", *_post(budget))
    listed = json.loads(stage.ogpu("unit list", "--key", DELEGATE, is_shown=False))
    return listed[-1]["state"], int(listed[-1]["cost_before_fees"]["grains"])


def _chat(stage: Stage, budget: str) -> tuple[str, ...]:
    words = (
        "chat",
        stage.options.model,
        "--service",
        str(SELLING[stage.options.model]),
        "--budget",
        budget,
        "--key",
        DELEGATE,
        "--temperature",
        "0",
    )
    return (*words, "--max-tokens", "16", "--deposit", "2", "--term", "600", "--yes")


def _open(stage: Stage, budget: str) -> tuple[str, ...]:
    words = ("session", "open", str(SELLING[stage.options.model]), "--budget", budget, "--key", DELEGATE)
    return (*words, "--deposit", "2", "--term", "600", "--yes")


def _refused_opening(stage: Stage, budget: str) -> str | None:
    """Open sessions until one is refused, and return the code."""
    for _ in range(OPENINGS_MAX):
        code = asked(stage, "", *_open(stage, budget))[1]
        if code is not None:
            return code
    return None


def _wait_for_records(owner: BudgetOwner, events: EventsSince, budget: str) -> None:
    def is_free() -> bool:
        found = owner.status(budget)
        return found is not None and not found.held

    events.follower.until("the drop of the records of units", is_free, BLOCKS_MAX)


def _take_back(owner: BudgetOwner, budget: str) -> None:
    """Withdraw half of the money, and close the budget."""
    owner.withdraw(budget, format_amount(owner.money(budget) // 2))
    owner.close(budget)


def failures_of(course: BudgetCourse) -> Iterator[str]:
    """Yield every failed requirement."""
    if not course.answer:
        yield "the delegate got no answer in its chat"
    if course.unit_state != "settled":
        yield f"the delegate's unit is {course.unit_state}"
    if course.refused_at_cap != "day_cap":
        yield f"the cap of a day was answered by {course.refused_at_cap}"
    for name, code in course.refused_after_revoke.items():
        if code != "not_delegate":
            yield f"after the revocation, a {name} was answered by {code}"
    if course.claimed_after_blocks is None or course.claimed_after_blocks > REVOKED_BLOCKS:
        yield f"the last claim came {course.claimed_after_blocks} blocks after the revocation"
    if not course.spent == course.explained == course.owner_lost:
        yield (
            f"the budget spent {course.spent} grains, its purchases explain {course.explained}, and the owner lost "
            f"{course.owner_lost}"
        )
