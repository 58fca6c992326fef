"""`python -m devnet.proofs.sessions`: many honest sessions on a real devnet, settled to the grain (`make sessions`).

Four providers offer places, and five customers open sessions in waves. Each session is used in one of these ways:

* `asked`: two requests, then closed
* `handed over`: a request, a hand-over to the spare, a request there, then closed
* `closed early`: closed without a request
* `expired`: a request, and then its term ends

The requirements: every claim is that of the newest voucher, every payment is that of the tables, and each customer and
provider has gained as much as its sessions and fees come to.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from devnet.launcher.folder import DevnetError
from devnet.stage.actors.place_sale import offer_places
from devnet.stage.actors.session_customer import SessionOffer, SessionSeat, open_sessions, seats_of
from devnet.stage.actors.task_sale import People, provider_accounts
from devnet.stage.measuring.session_ledger import SessionLedger, SessionTrace, price_of_period
from devnet.stage.network import CUSTOMER_KEY, BlockFollower, FreshDevnet, Stage
from devnet.stage.scenario import LiveProof, ProofOption, Scenario, run
from genesis.presets import TEXT_MODEL, TEXT_WORKLOAD
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.sessions.events import SessionEnded
from gpu_tasks.market.sessions.records import SessionEnd, SessionRecord
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.vouchers import Voucher
from gpu_tasks.workloads.model_forms import form_of
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.frame.call import Call
from runtime.pallets.balances import Balances
from runtime.pallets.utility import Utility
from wallet.amounts import format_amount
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet.suri import keypair_from_suri

SESSIONS = 200
CUSTOMERS = 5
PLACES, RATE = 32, GRAINS_PER_OGPU // 100
SERVICE = 0
SETTLE_BLOCKS = 40
DEPOSIT, TERM, SHORT_TERM = GRAINS_PER_OGPU // 5, 900, 90
GIFT = 50 * GRAINS_PER_OGPU
WAVE = 40
"""The sessions that are opened together. Each takes two of the places."""
OPEN_MAX = 60
ANSWER_TOKENS = 8
ANSWER_SECONDS, POLL_SECONDS = 120.0, 2.0
AT_ONCE = 10
"""The streams at once."""
BLOCKS_MAX = 3_000
PROMPT = "One, two, three"


class Use(Enum):
    """The use of a session."""

    ASKED = "asked"
    HANDED_OVER = "handed over"
    CLOSED_EARLY = "closed early"
    EXPIRED = "expired"


USES = (Use.ASKED, Use.HANDED_OVER, Use.ASKED, Use.CLOSED_EARLY, Use.EXPIRED)
"""The uses in turn."""


@dataclass(slots=True)
class UsedSession:
    """A session, and its customer's vouchers."""

    use: Use
    signed: list[Voucher] = field(default_factory=list)


@dataclass(slots=True)
class SessionFacts:
    """The outcome of all sessions. Money is in grains."""

    sessions: int = 0
    customers: int = 0
    providers: int = 0
    uses: Counter[str] = field(default_factory=Counter)
    claims: int = 0
    proofs: int = 0
    checked: int = 0
    tokens: int = 0
    cost: int = 0
    people: dict[str, int] = field(default_factory=dict)
    """The gain of each customer and provider."""
    wrong_people: int = 0
    failures: list[str] = field(default_factory=list)


@dataclass(slots=True)
class SessionTrade:
    """The customers, and all sessions so far."""

    stage: Stage
    ledger: SessionLedger
    keys: Sequence[Keypair]
    used: dict[bytes, UsedSession] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def run(self, count: int) -> None:
        """Open and use so many sessions. Problems are noted."""
        try:
            asyncio.run(self._run(count))
        except Exception as error:  # noqa: BLE001  # recorded as a failure of the run
            self.problems.append(f"{type(error).__name__}: {error}")

    async def _run(self, count: int) -> None:
        async with await ChainClient.connect(self.stage.url) as chain:
            opened = 0
            while opened < count:
                size = min(WAVE, count - opened)
                await self._room(size)
                uses = [USES[(opened + each) % len(USES)] for each in range(size)]
                await self._wave(chain, uses)
                opened += size
                self.stage.narrator.line(f"{opened} of {count} sessions used")

    async def _room(self, size: int) -> None:
        """Wait until enough sessions have ended. Those with open claims occupy their places."""
        while self.open_count > OPEN_MAX - size:  # noqa: ASYNC110  # another thread reads the chain
            await asyncio.sleep(POLL_SECONDS)

    @property
    def open_count(self) -> int:
        """The sessions that have not ended."""
        return len(self.used) - sum(trace.is_over for trace in list(self.ledger.sessions.values()))

    async def _wave(self, chain: ChainClient, uses: Sequence[Use]) -> None:
        streams = asyncio.Semaphore(AT_ONCE)
        shares = ((key, uses[place :: len(self.keys)]) for place, key in enumerate(self.keys))
        await asyncio.gather(*(self._customer(chain, key, share, streams) for key, share in shares if share))

    async def _customer(
        self, chain: ChainClient, key: Keypair, uses: Sequence[Use], streams: asyncio.Semaphore
    ) -> None:
        """Use a customer's sessions of a wave, side by side."""
        offers = [SessionOffer(SERVICE, DEPOSIT, SHORT_TERM if use is Use.EXPIRED else TERM, RATE) for use in uses]
        ids = await open_sessions(chain, key, offers)
        self.used |= {session_id: UsedSession(use) for session_id, use in zip(ids, uses, strict=True)}
        await self._ask_all(chain, key, await seats_of(chain, ids), (Use.ASKED, Use.HANDED_OVER, Use.EXPIRED), streams)
        handed_over = [each for each in ids if self.used[each].use is Use.HANDED_OVER]
        await self._submit(chain, key, [Sessions.hand_over(session=each) for each in handed_over])
        await self._ask_all(chain, key, await seats_of(chain, ids), (Use.ASKED, Use.HANDED_OVER), streams)
        closed = [each for each in ids if self.used[each].use is not Use.EXPIRED]
        await self._submit(chain, key, [Sessions.close(session=each) for each in closed])

    async def _submit(self, chain: ChainClient, key: Keypair, calls: Sequence[Call]) -> None:
        """Make calls in one transaction."""
        outcome = await chain.submit(Utility.batch_all(calls=tuple(calls)), key) if calls else None
        if outcome is not None and not outcome.is_success:
            raise DevnetError(f"a customer's calls failed: {outcome.error}")

    async def _ask_all(
        self, chain: ChainClient, key: Keypair, records: Mapping[bytes, SessionRecord], uses: Sequence[Use],
        streams: asyncio.Semaphore,
    ) -> None:  # fmt: skip
        """Ask a request in each session that is used in one of these ways."""
        form = form_of(TEXT_WORKLOAD, TEXT_MODEL)
        assert form is not None, "the built-in model is here"
        seats = [
            SessionSeat(self.stage.url, chain.genesis_hash, session_id, record, key, form)
            for session_id, record in records.items()
            if self.used[session_id].use in uses
        ]
        for seat in seats:
            await seat.wait()
        await asyncio.gather(*(self._ask(seat, self.used[seat.id], streams) for seat in seats))

    async def _ask(self, seat: SessionSeat, used: UsedSession, streams: asyncio.Semaphore) -> None:
        request = seat.form.encode(PROMPT, ANSWER_TOKENS, {}, bytes(32))
        folder = self.stage.devnet.folder / "customers"
        async with (
            streams,
            asyncio.timeout(ANSWER_SECONDS),
            seat.client(folder, used.signed) as client,
            contextlib.aclosing(client.ask(request)) as parts,
        ):
            async for _ in parts:
                pass


def trade_sessions(stage: Stage) -> SessionFacts:
    """Offer places, fund customers, use all sessions, and compare every account with its sessions."""
    names = [member.name for member in stage.devnet.members]
    offer_places(stage, {name: [SERVICE] for name in names}, RATE, PLACES)
    keys = [keypair_from_suri(f"{CUSTOMER_KEY}//{number}") for number in range(CUSTOMERS)]
    gifts = tuple(Balances.transfer_keep_alive(dest=key.account, value=GIFT) for key in keys)
    stage.ask(lambda chain: chain.submit(Utility.batch_all(calls=gifts), keypair_from_suri(CUSTOMER_KEY)))
    people = People(
        {f"customer {number}": (key.account,) for number, key in enumerate(keys)}
        | {name: provider_accounts(name) for name in names}
    )
    ledger = SessionLedger()
    follower = BlockFollower(stage, ledger.take, stage.next_height())
    people.wealth_before = stage.wealth(people.accounts, follower.next_height - 1)
    trade = SessionTrade(stage, ledger, keys)
    worker = threading.Thread(target=trade.run, args=(stage.options.sessions,), daemon=True)
    worker.start()

    def are_over() -> bool:
        is_used = not worker.is_alive() and all(trace.is_over for trace in ledger.sessions.values())
        return is_used or bool(trade.problems)

    follower.until("the end of every session", are_over, BLOCKS_MAX)
    people.wealth_after = stage.wealth(people.accounts, follower.next_height - 1)
    return _facts(trade, people, len(names))


def _facts(trade: SessionTrade, people: People, providers: int) -> SessionFacts:
    ledger = trade.ledger
    facts = SessionFacts(len(ledger.sessions), len(trade.keys), providers, people=people.gains)
    for session_id, trace in ledger.sessions.items():
        used = trade.used[session_id]
        facts.uses[used.use.value] += 1
        facts.claims += len(trace.periods)
        facts.proofs += len(trace.claims) - len(trace.periods)
        facts.checked += sum(bool(claim.checks) for claim in trace.claims.values())
        facts.tokens += sum(voucher.totals.tokens_out for voucher in newest_of(used.signed))
        facts.cost += trace.cost
        facts.failures += [f"session 0x{session_id.hex()[:8]}: {failure}" for failure in failures_of(used, trace)]
    wrong_people = list(people.wrong(ledger))
    facts.wrong_people = len(wrong_people)
    facts.failures += [*trade.problems, *wrong_people]
    return facts


def newest_of(signed: Sequence[Voucher]) -> list[Voucher]:
    """Return the newest voucher of each period."""
    newest = {voucher.period: voucher for voucher in signed}
    return [newest[period] for period in sorted(newest)]


def failures_of(used: UsedSession, trace: SessionTrace) -> Iterator[str]:
    """Yield a sentence for each failed requirement of a session."""
    ends = [event.end for event in trace.events(SessionEnded)]
    if ends != [SessionEnd.SETTLED]:
        yield f"{used.use.value}: it ended as {ends}"
    record = trace.record
    if record is not None:
        promised = [
            price_of_period(voucher.totals, record.rate, record.input_share) for voucher in newest_of(used.signed)
        ]
        claimed = [event.amount for event, _ in trace.periods]
        if claimed != promised:
            yield f"{used.use.value}: {claimed} grains were claimed, and {promised} were promised"
    unpaid = [claim.outcome for claim in trace.claims.values() if claim.outcome is not ClaimOutcome.PASSED]
    if unpaid:
        yield f"{used.use.value}: claims ended as {unpaid}"
    legs = 2 if used.use is Use.HANDED_OVER else 1
    if trace.providers != legs:
        yield f"{used.use.value}: {trace.providers} providers served it, not {legs}"
    yield from trace.wrong()


def figures(facts_by_scenario: Mapping[str, SessionFacts]) -> str:
    """Return the line of figures."""
    facts = facts_by_scenario["sessions"]
    uses = ", ".join(f"{count} {use}" for use, count in facts.uses.items())
    return (
        f"{facts.sessions} sessions of {facts.customers} customers at {facts.providers} providers ({uses}), "
        f"{facts.claims} claims, {facts.proofs} proofs of spares, {facts.checked} checked, "
        f"{facts.tokens} tokens, {format_amount(facts.cost)} oGPU; "
        f"{len(facts.people) - facts.wrong_people} of {len(facts.people)} balances to the grain"
    )


PROOF = LiveProof(
    "sessions",
    "Use many sessions in every honest way, and settle them to the grain.",
    [
        Scenario(
            "sessions",
            "{sessions} sessions, some handed over, some closed early, some expired",
            FreshDevnet(numbers={"Sessions.session_settle_blocks": SETTLE_BLOCKS}).open,
            trade_sessions,
        )
    ],
    figures,
    [ProofOption("--sessions", SESSIONS, "to be opened")],
)

if __name__ == "__main__":
    run(PROOF)
