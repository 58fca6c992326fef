"""Run the chats on one devnet, and settle their sessions. See the package for the parts and their requirements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from devnet.launcher import processes
from devnet.proofs.chats import kills, speed
from devnet.proofs.chats.network import CUSTOMER_ACCOUNTS, ChatStage, chat_network
from devnet.proofs.chats.sold_sessions import MODEL_NAME, OpenedSession
from devnet.stage.actors.purchase import name_of_account
from devnet.stage.measuring.session_ledger import SessionTrace
from devnet.stage.network import CUSTOMER
from devnet.stage.scenario import LiveProof, ProofOption, Scenario, run
from genesis import dev_accounts
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.sessions.events import PlacePaid, SessionEnded
from gpu_tasks.market.sessions.records import SESSION_MONEY, SessionEnd
from runtime.pallets.staking.trust_lock import Paid

SETTLE_BLOCKS_MAX = 600
NOTED_SECONDS = 60.0
"""A daemon notes ends every few blocks."""
TOKENS, ROUNDS, KILLS, SEED = 96, 3, 5, 1


@dataclass(slots=True)
class SettledSessions:
    """The ends of all sessions. Amounts are in grains."""

    sessions: int = 0
    claims: int = 0
    proofs: int = 0
    """The claims of spares."""
    paid: int = 0
    fees: int = 0
    lost: int = 0
    """The customer's loss of wealth."""
    wrong_sums: list[str] = field(default_factory=list)


def settle(stage: ChatStage) -> SettledSessions:
    """Wait for the end of every session, and compare the customer's loss with their payments."""
    is_over = "every session has ended"
    stage.wait_until(is_over, lambda: all(stage.trace(seat).is_over for seat in stage.opened), SETTLE_BLOCKS_MAX)
    settled, at_height = SettledSessions(sessions=len(stage.opened)), stage.next_final - 1
    for seat in stage.opened:
        trace = stage.trace(seat)
        settled.claims += len(trace.periods)
        settled.proofs += len(trace.claims) - len(trace.periods)
        settled.paid += trace.cost
        wrong_sums = [*trace.wrong(), *_wrong_ends(trace), *_wrong_notes(stage, seat)]
        settled.wrong_sums += [f"{seat.text[:10]}: {wrong}" for wrong in wrong_sums]
    settled.fees = stage.ledger.fees[dev_accounts.stash(CUSTOMER)]
    settled.lost = stage.wealth_before - stage.wealth(CUSTOMER_ACCOUNTS, at_height)[CUSTOMER]
    return settled


def _wrong_ends(trace: SessionTrace) -> Iterator[str]:
    """Yield a sentence for an end that nobody asked for, and for each claim that has not passed."""
    ends = [event.end for event in trace.events(SessionEnded)]
    if ends != [SessionEnd.SETTLED]:
        yield f"the session ended as {ends}"
    for claim in trace.claims.values():
        if claim.outcome is not ClaimOutcome.PASSED:
            yield f"a claim ended as {claim.outcome}"


def _paid_to(trace: SessionTrace, payee: bytes) -> int:
    """Return the grains of the deposit that an account got."""
    deposit = (payment for payment in trace.events(Paid) if payment.reason == SESSION_MONEY)
    return sum(payment.amount for payment in deposit if payment.payee == payee)


def _wrong_notes(stage: ChatStage, seat: OpenedSession) -> Iterator[str]:
    """Yield a sentence for each provider whose daemon notes another pay than the chain."""
    trace = stage.trace(seat)
    for owner in dict.fromkeys(place.owner for place in trace.events(PlacePaid)):
        name, paid = name_of_account(owner), _paid_to(trace, owner)
        processes.until(lambda name=name: noted_pay(stage.telemetry(name), seat.session) is not None, NOTED_SECONDS)  # type: ignore[misc]
        noted = noted_pay(stage.telemetry(name), seat.session)
        if noted != paid:
            yield f"the daemon of {name} notes {noted} grains, and the chain paid {paid}"


def noted_pay(told: Iterable[Mapping[str, Any]], session: bytes) -> int | None:
    """Return the grains of a session's claims and place that a daemon has noted, or None before their end."""
    events = [event for event in told if event.get("session") == session.hex()]
    places = [event["place"] for event in events if event["event"] == "session_ended"]
    return (
        sum(places) + sum(event["grains"] for event in events if event["event"] == "session_paid") if places else None
    )


def failures_of(settled: SettledSessions) -> Iterator[str]:
    """Yield every failed requirement."""
    yield from settled.wrong_sums
    if settled.lost != settled.paid + settled.fees:
        yield (f"the customer lost {settled.lost} grains, and payments and fees come to {settled.paid + settled.fees}")


def figures(facts_by_scenario: Mapping[str, Any]) -> str:
    """Return the line of figures."""
    texts = []
    if "speed" in facts_by_scenario:
        found = facts_by_scenario["speed"]
        texts.append(
            f"{100 * found.share:.0f} % of the bare tokens/s ({100 * found.share_by_cpu:.0f} % by CPU time), first "
            f"tokens {found.first_excess:+.2f} s beside bare"
        )
    for name in ("killed-provider", "killed-customer"):
        if name in facts_by_scenario:
            found = facts_by_scenario[name]
            texts.append(
                f"{name}: {found.kills} kills, {found.whole_answers} of {found.answers} answers whole, "
                f"{found.unpaid_tokens} of {found.tokens} tokens unpaid"
            )
    settled = facts_by_scenario["settled"]
    texts.append(
        f"{settled.sessions} sessions, {settled.claims} claims and {settled.proofs} proofs of spares settled, "
        f"{settled.paid} grains paid"
    )
    return "; ".join(texts)


PROOF = LiveProof(
    "chats",
    "Chat in sessions on a devnet, at the engine's speed and through kills.",
    [
        Scenario(
            "speed", "Four chats at once beside the bare engine, {rounds} rounds of {tokens} tokens", chat_network,
            speed.measure, speed.failures_of,
        ),
        Scenario(
            "killed-provider", "A provider is killed amid an answer", chat_network,
            kills.kill_provider, kills.provider_failures_of,
        ),
        Scenario(
            "killed-customer", "`ogpu chat` is killed {kills} times amid answers", chat_network,
            kills.kill_customer, kills.customer_failures_of,
        ),
        Scenario(
            "settled", "Every session ends, and the books add up", chat_network, settle, failures_of,
            is_always_judged=True,
        ),
    ],
    figures,
    [
        ProofOption("--model", MODEL_NAME, "a model of your store, by name or first digits of its id"),
        ProofOption("--tokens", TOKENS, "of each answer at most"),
        ProofOption("--rounds", ROUNDS, "of chats and engine in turns"),
        ProofOption("--kills", KILLS, "of `ogpu chat`"),
        ProofOption("--seed", SEED, "of the moments of these kills"),
    ],
)  # fmt: skip

if __name__ == "__main__":
    run(PROOF)
