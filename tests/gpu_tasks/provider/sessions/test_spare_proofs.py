"""The proofs of a spare over a fake chain: computed, kept, sent, checked, paid, and killed between any two writes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from echoing_session import SECRET
from error_codes import raises_code
from gpu_tasks.batches.leaves import leaf_of
from gpu_tasks.batches.outcomes import BatchOutcome, Completed, RefusedRequest
from gpu_tasks.batches.sum_tree import totals_of
from gpu_tasks.data.claim_delivery import DeliveredItems
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.sessions.records import SPARE_LEG, SPARE_PERIOD, over, spare_of, with_leg
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.spares import PROOF_BLOCKS, PROOF_TOKENS_IN, PROOF_TOKENS_OUT
from gpu_tasks.market.sessions.vouchers import item_salt, session_claim_id
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.sessions.session_items import proof_items, standard_request
from gpu_tasks.workloads.form import RequestError
from killed_commits import lives
from played_sessions import GENESIS, SEED, EchoHost, FakeSessions, PlayedProvider, StreamedEcho
from runtime.frame.call import Call

SESSION = bytes([31]) * 32
CLAIM = session_claim_id(SESSION, SPARE_PERIOD)
FORM: Any = StreamedEcho()
REQUEST = FORM.standard_request(SEED, PROOF_TOKENS_IN, PROOF_TOKENS_OUT)
ANSWER = REQUEST[1 : 1 + PROOF_TOKENS_OUT]
RIGHT = Completed(ANSWER, PROOF_TOKENS_IN, PROOF_TOKENS_OUT)
TOP = totals_of([leaf_of(GENESIS, CLAIM, item_salt(SEED, REQUEST), 0, RIGHT)]).top
AMOUNT = PROOF_TOKENS_IN * 500 + PROOF_TOKENS_OUT * 1_000
PLACE_RATE = 40_000


def net(amount: int) -> int:
    """Return a payment without the settlement fee."""
    return amount - amount * 3 // 100


@asynccontextmanager
async def sparing(folder: Path, chain: FakeSessions | None = None, **changed: Any) -> AsyncIterator[PlayedProvider]:
    """Yield a running provider. It stands by for a session, unless the chain has one already."""
    played = PlayedProvider(folder, chain)
    if chain is None:
        played.chain.open(SESSION, spare=True, place_rate=PLACE_RATE, **changed)
    try:
        yield played
    finally:
        await played.close()


def paid(played: PlayedProvider) -> list[tuple[str, int]]:
    """Return the payments: their kinds and grains."""
    return [(each.name.split(" 0x")[0], each.grains) for each in played.earnings.read()]


async def test_a_spare_proves_once_and_is_paid_for_its_blocks(tmp_path: Path) -> None:
    """The item is there until its claim has ended."""
    async with sparing(tmp_path) as played:
        chain = played.chain
        await played.step(6)
        assert chain.calls == [Sessions.prove_spare(session=SESSION, top=TOP)]
        kept = played.store.period_of_claim(CLAIM)
        assert kept is not None
        assert played.store.transcript(GENESIS, kept, FORM).item(0) == (REQUEST, RIGHT)
        assert played.store.periods(SESSION) == []
        chain.conclude(CLAIM)
        await played.step(4)
        assert paid(played) == [("session spare", net(AMOUNT))]
        assert played.store.period_of_claim(CLAIM) is None
        began, ended = 100, chain.height
        chain.close(SESSION)
        await played.step()
        chain.release(SESSION)
        await played.step(4)
        rest = PLACE_RATE // 4 * (ended - began) - AMOUNT
        assert paid(played) == [("session spare", net(AMOUNT)), ("session spare", net(rest))]
        assert played.store.noted() == []
        assert len(chain.calls) == 1


@pytest.mark.parametrize("outcome", [ClaimOutcome.REFUTED, ClaimOutcome.RETURNED])
async def test_a_proof_that_does_not_pass_earns_nothing(tmp_path: Path, outcome: ClaimOutcome) -> None:
    """A refuted spare is out at once."""
    async with sparing(tmp_path) as played:
        chain = played.chain
        await played.step(4)
        chain.conclude(CLAIM, outcome)
        assert (spare_of(chain.sessions[SESSION]) is None) == (outcome is ClaimOutcome.REFUTED)
        await played.step(4)
        if outcome is ClaimOutcome.RETURNED:
            chain.close(SESSION)
            await played.step()
        chain.release(SESSION)
        await played.step(4)
        assert paid(played) == []
        assert played.store.noted() == []
        assert played.store.period_of_claim(CLAIM) is None


async def test_a_refused_proof_is_sent_again_until_its_blocks_are_over(tmp_path: Path) -> None:
    """Then the spare stands by without pay."""
    async with sparing(tmp_path) as played:
        played.chain.is_refusing = True
        await played.step(PROOF_BLOCKS + 6)
        sent = len(played.chain.calls)
        assert 1 < sent <= PROOF_BLOCKS // 3 + 1
        played.chain.is_refusing = False
        await played.step(6)
        assert len(played.chain.calls) == sent
        assert len(played.made) == 1


@pytest.mark.parametrize("fault", ["no answer", "few tokens", "no request"])
async def test_a_spare_without_an_answer_proves_nothing(
    tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tries again in each block, and nothing is kept."""

    def fails() -> Exception:
        return ExecutionError("broken", code="broken")

    def no_request(*_: object) -> bytes:
        raise RequestError("a short context")

    if fault == "no request":
        monkeypatch.setattr(StreamedEcho, "standard_request", no_request)
    async with sparing(tmp_path) as played:
        make = played._make
        played.duty.hosts.make = lambda *given: _broken(make(*given), fault, fails)
        await played.step(PROOF_BLOCKS + 3)
        assert played.chain.calls == []
        assert played.store.period(SESSION, SPARE_PERIOD) is None
        assert 1 < played.heard.names().count("spare_not_proven") <= PROOF_BLOCKS
        assert spare_of(played.chain.sessions[SESSION]) is not None


def _broken(host: EchoHost, fault: str, fails: Callable[[], Exception]) -> EchoHost:
    if fault == "no answer":
        host.fails_after, host.failure = 0, fails
    if fault == "few tokens":
        answer = host.generate
        host.generate = lambda request: answer(bytes([3]) + request[1:])  # type: ignore[method-assign]
    return host


async def test_a_spare_that_serves_after_a_hand_over_is_paid_for_both(tmp_path: Path) -> None:
    """Its open proof goes on."""
    async with sparing(tmp_path) as played:
        chain = played.chain
        await played.step(4)
        chain.hand_over(SESSION)
        handed_at = chain.height
        await played.step(2)
        assert [played.heard.names().count(name) for name in ("session_spared", "session_opened")] == [1, 1]
        assert played.duty.find(SESSION) is not None
        assert played.store.period_of_claim(CLAIM) is not None
        chain.conclude(CLAIM)
        chain.release(SESSION)
        await played.step(20)
        chain.close(SESSION)
        closed_at = chain.height
        await played.step(6)
        assert chain.calls[1:] == [Sessions.leave(session=SESSION)]
        chain.release(SESSION)
        await played.step(4)
        spare, place = max(0, PLACE_RATE // 4 * 4 - AMOUNT), PLACE_RATE * (closed_at - handed_at)
        rows = [("session spare", net(AMOUNT)), ("session place", net(place)), ("session spare", net(spare))]
        assert sorted(paid(played)) == sorted(rows)
        assert played.store.noted() == []


# ------------------------------------------------------------------------------------------------------- a trusted node


async def test_a_claim_that_is_not_final_keeps_its_items(tmp_path: Path) -> None:
    """A daemon that trusts its node sees the claim before the final chain has it, and checkers will ask."""
    async with sparing(tmp_path) as played:
        chain = played.chain
        chain.final = FakeSessions(sessions=dict(chain.sessions), height=chain.height)
        await played.step(9)
        assert list(chain.claims) == [CLAIM]
        assert played.store.period_of_claim(CLAIM) is not None
        chain.final = None
        await played.step(4)
        chain.conclude(CLAIM)
        await played.step(4)
        assert paid(played) == [("session spare", net(AMOUNT))]


async def test_a_provider_leaves_once_the_close_is_final(tmp_path: Path) -> None:
    """It has no voucher to claim by, and waits for nothing more."""
    async with sparing(tmp_path, FakeSessions()) as played:
        chain = played.chain
        chain.open(SESSION, place_rate=PLACE_RATE)
        await played.step(5)
        began = replace(chain.sessions[SESSION])
        chain.close(SESSION)
        closed_at = chain.height
        chain.final = FakeSessions(sessions={SESSION: began})
        await played.step(9)
        assert chain.calls == []
        chain.final = None
        await played.step(2)
        assert chain.calls == [Sessions.leave(session=SESSION)]
        chain.release(SESSION)
        chain.end(SESSION)
        await played.step(4)
        assert paid(played) == [("session place", net(PLACE_RATE * (closed_at - 100)))]
        assert len(chain.calls) == 1


async def test_a_place_that_is_released_between_two_looks_is_noted_as_paid(tmp_path: Path) -> None:
    """A daemon may see no block in which the leg has left and is not released."""
    async with sparing(tmp_path, FakeSessions()) as played:
        chain = played.chain
        chain.open(SESSION, place_rate=PLACE_RATE)
        await played.step(8)
        session = chain.sessions[SESSION]
        chain.sessions[SESSION] = with_leg(session, 0, over(session.legs[0], chain.height))
        chain.release(SESSION)
        await played.step(4)
        assert paid(played) == [("session place", net(PLACE_RATE * 8))]
        assert played.store.noted() == []


# ---------------------------------------------------------------------------------------------------------------- kills


class _ToldChain(FakeSessions):
    """A chain that writes a file before it takes a call, for the process that follows a kill."""

    told: Path

    async def submit(self, call: Call) -> None:
        """See `FakeSessions`."""
        self.told.write_bytes(call.named_arguments["top"])
        await super().submit(call)


def spare_life(folder: Path) -> Iterator[Callable[[], object]]:
    """Yield the blocks of a spare's proof, for a process that is killed."""
    loop, chain = asyncio.new_event_loop(), _ToldChain()
    chain.told = folder / "sent"
    chain.open(SESSION, spare=True, place_rate=PLACE_RATE)
    played = PlayedProvider(folder, chain)
    for _ in range(8):
        yield lambda: loop.run_until_complete(played.step())
    yield lambda: chain.conclude(CLAIM)
    for _ in range(4):
        yield lambda: loop.run_until_complete(played.step())
    loop.run_until_complete(played.close())
    loop.close()


def test_a_spare_that_is_killed_between_any_two_writes_proves_the_same_answer_once(tmp_path: Path) -> None:
    """A proof that others could have seen has its item on the disk. Without one, the next process proves."""

    async def after(folder: Path) -> None:
        chain = FakeSessions()
        chain.open(SESSION, spare=True, place_rate=PLACE_RATE)
        sent = folder / "sent"
        if sent.exists():
            assert sent.read_bytes() == TOP
            await chain.submit(Sessions.prove_spare(session=SESSION, top=TOP))
        async with sparing(folder, chain) as played:
            is_settled = bool(paid(played))
            assert played.store.period_of_claim(CLAIM) is not None or is_settled or not sent.exists()
            await played.step(4)
            assert chain.calls == [Sessions.prove_spare(session=SESSION, top=TOP)]
            chain.conclude(CLAIM)
            await played.step(4)
            assert paid(played) == [("session spare", net(AMOUNT))]
            assert [note.session for note in played.store.noted()] == [SESSION]

    for folder, _ in lives(spare_life, tmp_path):
        asyncio.run(after(folder))


# -------------------------------------------------------------------------------------------------- the checker's items


def _delivered(secret: bytes = SEED, request: bytes = REQUEST, output: bytes = ANSWER) -> DeliveredItems:
    outcome = Completed(output, PROOF_TOKENS_IN, PROOF_TOKENS_OUT)
    return DeliveredItems(secret, (), {0: request}, {0: outcome})


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (_delivered(), RIGHT),
        (_delivered(output=b"wrong..."), Completed(b"wrong...", PROOF_TOKENS_IN, PROOF_TOKENS_OUT)),
        (_delivered(secret=SECRET), RefusedRequest()),
        (_delivered(request=REQUEST[:-1] + b"?"), RefusedRequest()),
        (_delivered(output=b""), RefusedRequest()),
        (DeliveredItems(SEED, (), {}, {}), RefusedRequest()),
    ],
)
def test_a_proof_is_an_answer_to_the_standard_request(found: DeliveredItems, outcome: BatchOutcome) -> None:
    """Another request, another secret and no answer are never right."""
    items = proof_items(FORM, SEED, found)
    assert (items.secret, dict(items.requests), dict(items.outcomes)) == (SEED, {0: REQUEST}, {0: outcome})


def test_a_model_without_a_standard_request_has_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its context is too short."""

    def no_request(*_: object) -> bytes:
        raise RequestError("a short context")

    monkeypatch.setattr(StreamedEcho, "standard_request", no_request)
    with raises_code(ExecutionError, "no_standard_request"):
        standard_request(FORM, SEED)


def test_the_spare_s_leg_has_no_number_of_a_serving_one() -> None:
    """Books and claims tell them apart by it."""
    session = FakeSessions().open(SESSION, spare=True)
    assert len(session.legs) <= SPARE_LEG
