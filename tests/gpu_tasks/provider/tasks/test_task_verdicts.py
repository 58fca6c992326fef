"""A judge's findings: segments computed from shown states, and the probes of earlier judges."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.run_states import encode_run_state
from gpu_tasks.data.sealing import READERS_MAX, SealKey, seal
from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.opinions import Answered, Statement
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.showing import TraceStretch, judged_stretches, refuted
from gpu_tasks.market.training.tasks import Challenge, HeldCheckpoint, JudgedFor, Milestone, Slot, TaskResult, TaskState
from gpu_tasks.provider.duties.cases import Lacking, Search
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.execution.executor import BadStateError, BegunRun, LaterState
from gpu_tasks.provider.execution.gpu import Reading
from gpu_tasks.provider.tasks import task_verdicts
from gpu_tasks.provider.tasks.state_answers import SHOWN_STATE, ShownState
from gpu_tasks.provider.tasks.task_verdicts import UNSHOWN, TaskCase
from gpu_tasks.traces.trace import state_hash, trace_root, traced_state
from priced_tasks import a_task
from provider_chain import keypair, seal_key
from simulation.chains.market_chain import GENESIS_HASH, Keys

SEGMENTS, STEPS = 8, 2
BOUNDARIES = tuple(STEPS * index for index in range(SEGMENTS + 1))
ME, MAKER = Keys("judge"), Keys("maker")
UNMEASURED = Reading(is_gpu=False, energy_mj=0, memory_peak_bytes=0)
CUSTOMER = Keys("customer")
ASKED: Any = SimpleNamespace(request=b"request", salt=b"s" * 32, reply_key=seal_key(CUSTOMER).public)


def state(done: int, run: bytes = b"mine") -> bytes:
    """Return the state of a run after `done` steps."""
    return done.to_bytes(4, "little") + run


RIGHT = tuple(state(done) for done in BOUNDARIES)


class WorkerPool:
    """Computes a run in which one step leads to the next state."""

    async def begin(self, _form: Any, _request: bytes) -> BegunRun:
        return BegunRun(RIGHT[0], BOUNDARIES)

    async def advance(self, _form: Any, _request: bytes, given: bytes, steps: int) -> tuple[LaterState, Reading]:
        done = int.from_bytes(given[:4], "little")
        if done > BOUNDARIES[-1]:
            raise BadStateError("no state of this run")
        return LaterState(state(done + steps, given[4:]), done + steps), UNMEASURED


def case_of(states: Sequence[bytes], segment: int | None, bench: BenchKind = BenchKind.PAIR) -> TaskCase:
    """Return a case about the trace of these states, with one doubted segment or drawn ones."""
    root = trace_root([state_hash(each) for each in states])
    slot = replace(Slot(MAKER.stash, b"d" * 32, 5, 50, 100), result=TaskResult(root, b"b" * 32, 7))
    challenge = None if segment is None else Challenge(b"e" * 32, 0, segment, 1, 1)
    why = JudgedFor.AUDIT if segment is None else JudgedFor.FRAUD_PROOF
    task = a_task(state=TaskState.JUDGED, slots=(slot,), challenge=challenge, judged_for=why, drawn=b"z" * 32)
    seat: Any = SimpleNamespace(bench=bench, probe_place=b"p" * 32)
    return TaskCase(b"c" * 32, cast(Any, SimpleNamespace()), seat, 9, 10, b"t" * 32, task, 0)


def parts_of(
    states: Sequence[bytes], shown: dict[int, bytes], seats: Sequence[tuple[bytes, Any]] = (), result: Any = None
) -> Parts[Any]:
    """Return a judge's parts. The maker shows the states of its trace, with some changed; the store has its result."""
    digests = [state_hash(each) for each in states]
    blob = result or seal(encode_run_state(tuple(digests), states[-1]), [seal_key(ME).public, ASKED.reply_key])

    async def provider(_stash: bytes) -> Provider:
        return Provider(b"k" * 32, b"http://127.0.0.1:1", 0)

    async def ask(_endpoint: str, _path: str, asked: bytes) -> bytes:
        first, end = (int.from_bytes(asked[at : at + 2], "little") for at in (32, 34))
        told = ShownState(traced_state(digests, first), traced_state(digests, end), shown.get(first, states[first]))
        return seal(SHOWN_STATE.encode(told), [seal_key(ME).public])

    identity = SimpleNamespace(stash=ME.stash, key=keypair(ME), seal_key=seal_key(ME), genesis=GENESIS_HASH)
    chain = SimpleNamespace(provider=provider, judges=AsyncMock(return_value=seats))
    store = SimpleNamespace(get=lambda _address: blob)
    found = SimpleNamespace(
        workers=WorkerPool(), chain=chain, blobs=SimpleNamespace(ask=ask), identity=identity, store=store
    )
    return cast(Parts[Any], found)


def is_right(states: Sequence[bytes], segment: int | None, shown: dict[int, bytes] | None = None) -> bool:
    """Return the finding about a trace."""
    judging = task_verdicts._compute_stretches(
        parts_of(states, shown or {}), case_of(states, segment), cast(Any, None), ASKED, Search()
    )
    return asyncio.run(judging)[0]


def test_a_right_trace_is_right_in_every_segment() -> None:
    assert is_right(RIGHT, None)
    assert all(is_right(RIGHT, segment) for segment in range(SEGMENTS))


def test_of_a_fraud_proof_its_own_segment_is_computed_and_no_other() -> None:
    for segment in range(SEGMENTS):
        case = case_of(RIGHT, segment)
        assert judged_stretches(case.task_id, case.task, case.place) == (TraceStretch(segment, segment + 1),)
    bent = [*RIGHT[:5], *(state(done, b"bent") for done in BOUNDARIES[5:])]
    assert [is_right(bent, segment) for segment in range(SEGMENTS)] == [segment != 4 for segment in range(SEGMENTS)]


def test_a_run_that_begins_elsewhere_is_wrong_from_its_first_segment() -> None:
    other = [state(done, b"other") for done in BOUNDARIES]
    assert [is_right(other, segment) for segment in range(2)] == [False, True], "the lie is one segment"


def test_a_state_of_another_step_or_of_no_run_is_wrong() -> None:
    skipping = [*RIGHT[:3], state(BOUNDARIES[3] + 1), *RIGHT[4:]]
    assert not is_right(skipping, 3), "though it leads to what is stated"
    assert not is_right([*RIGHT[:3], state(1_000), *RIGHT[4:]], 3)


def test_a_state_that_is_not_in_the_trace_is_no_state() -> None:
    with pytest.raises(BlobError, match="outside its trace"):
        is_right(RIGHT, 3, {3: state(6, b"another")})


def test_the_state_behind_a_segment_is_in_the_trace_too() -> None:
    """Otherwise any state that follows rightly would make any trace right."""
    parts = parts_of(RIGHT, {})
    digests, bent = ([state_hash(each) for each in run] for run in (RIGHT, [*RIGHT[:4], state(9), *RIGHT[5:]]))

    async def ask(*_: object) -> bytes:
        told = ShownState(traced_state(bent, 3), traced_state(digests, 4), RIGHT[3])
        return seal(SHOWN_STATE.encode(told), [seal_key(ME).public])

    parts.blobs.ask = ask  # type: ignore[method-assign, assignment]
    case = case_of([*RIGHT[:4], state(9), *RIGHT[5:]], 3)
    with pytest.raises(BlobError, match="outside its trace"):
        asyncio.run(task_verdicts._compute_stretches(parts, case, cast(Any, None), ASKED, Search()))


@pytest.mark.parametrize("is_root_of_its_own", [True, False])
def test_a_result_goes_on_from_where_its_leg_began_and_from_its_own_milestone(*, is_root_of_its_own: bool) -> None:
    """Every part followed from the state before it, and none of the leg leads to the first state."""
    start = 4
    elsewhere = [*RIGHT[:start], *(state(done, b"else") for done in BOUNDARIES[start:])]

    def root(states: Sequence[bytes], behind: int) -> bytes:
        return trace_root([state_hash(each) for each in states[: SEGMENTS * behind // 4 + 1]])

    def found(states: Sequence[bytes], segment: int | None = None) -> bool:
        case = case_of(states, segment)
        held = HeldCheckpoint(Milestone(3, root(states if is_root_of_its_own else RIGHT, 3), 1, b"b" * 32), b"h" * 32)
        begun = root(RIGHT if is_root_of_its_own else states, 2)
        case = replace(case, task=replace(case.task, behind=2, done=1, begun_from=begun, checkpoint=held))
        return asyncio.run(
            task_verdicts._compute_stretches(parts_of(states, {}), case, cast(Any, None), ASKED, Search())
        )[0]

    assert found(RIGHT)
    assert not found(elsewhere)
    assert found(elsewhere, start), "a fraud proof is about its segment"


def test_who_waits_for_states_lacks_what_others_have() -> None:
    """Only a wait for others is given up before commits close. A judge's own computation may take its time."""
    search, parts, case = Search(), parts_of(RIGHT, {}), case_of(RIGHT, None)
    parts.blobs.ask = AsyncMock(side_effect=BlobError("away"))  # type: ignore[method-assign]
    with pytest.raises(BlobError, match="away"):
        asyncio.run(task_verdicts._compute_stretches(parts, case, cast(Any, None), ASKED, search))
    assert search.lacks is Lacking.STATES
    search = Search()
    asyncio.run(task_verdicts._compute_stretches(parts_of(RIGHT, {}), case, cast(Any, None), ASKED, search))
    assert search.lacks is Lacking.NOTHING


# ------------------------------------------------------------------------------------------------------- its customer

RIGHT_RUN = encode_run_state(tuple(state_hash(each) for each in RIGHT), RIGHT[-1])
OTHER_RUN = encode_run_state(tuple(state_hash(each + b"!") for each in RIGHT), RIGHT[-1] + b"!")
OTHERS = [SealKey(bytes((1, number)) * 16).public for number in range(READERS_MAX)]
BOTH = [seal_key(ME).public, ASKED.reply_key]


@pytest.mark.parametrize(
    ("blob", "is_delivered"),
    [
        (seal(RIGHT_RUN, BOTH), True),
        (seal(RIGHT_RUN, [*BOTH, *OTHERS[2:]]), True),
        (seal(RIGHT_RUN, BOTH[:1]), False),
        (seal(RIGHT_RUN, BOTH[1:]), False),
        (seal(RIGHT_RUN, OTHERS[1:]), False),
        (seal(RIGHT_RUN, OTHERS), True),
        (seal(OTHER_RUN, BOTH), False),
        (seal(b"no run", BOTH), False),
        (b"no blob", False),
    ],
    ids=["both", "all", "no customer", "no judge", "neither", "no room for a judge", "other run", "no run", "no blob"],
)
def test_a_result_that_its_customer_cannot_open_is_wrong(blob: bytes, *, is_delivered: bool) -> None:
    """Judges received its states, so without this check the customer would pay for a result it never had."""
    judging = task_verdicts._compute_stretches(
        parts_of(RIGHT, {}, result=blob), case_of(RIGHT, None), cast(Any, None), ASKED, Search()
    )
    assert asyncio.run(judging)[0] is is_delivered
    proof = task_verdicts._compute_stretches(
        parts_of(RIGHT, {}, result=blob), case_of(RIGHT, 3), cast(Any, None), ASKED, Search()
    )
    assert asyncio.run(proof)[0], "a fraud proof is about its segment alone"


def test_a_result_that_nobody_has_is_waited_for_as_states_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_verdicts, "is_sound", AsyncMock(side_effect=BlobError("nobody has it")))
    search = Search()
    judging = task_verdicts._compute_stretches(
        parts_of(RIGHT, {}), case_of(RIGHT, None), cast(Any, None), ASKED, search
    )
    with pytest.raises(BlobError):
        asyncio.run(judging)
    assert search.lacks is Lacking.STATES, "and given up in time, against who should have it"


# ---------------------------------------------------------------------------------------------------- earlier judges


def doubted(*said: Statement | None, bench: BenchKind = BenchKind.COURT) -> int:
    """Return the earlier judges whom a judge doubts that finds the trace right."""
    case = case_of(RIGHT, 3, bench)
    seats: list[tuple[bytes, Any]] = [
        (bytes((number,)) * 32, SimpleNamespace(bench=BenchKind.PAIR, statement=each, probe_place=b"q" * 32))
        for number, each in enumerate(said)
    ]
    found = [RIGHT[4]]
    root = case.slot.result.root if case.slot.result else b""
    asking = task_verdicts._doubted_opinions(parts_of(RIGHT, {}, seats), case, ASKED, found, Answered(root))
    return asyncio.run(asking)


def stating(number: int, probe: bytes | None = None, root: bytes | None = None) -> Statement:
    """Return an earlier judge's statement, with its right probe unless another is given."""
    case = case_of(RIGHT, 3)
    own = task_verdicts._result_probe(case, ASKED, [RIGHT[4]], bytes((number,)) * 32, b"q" * 32)
    stated = case.slot.result.root if case.slot.result else b""
    return Statement(Answered(root or stated), probe or own, 0)


def test_who_says_the_same_without_having_computed_it_is_doubted() -> None:
    assert doubted(stating(0), stating(1, b"x" * 32), stating(2)) == 0b010
    assert doubted(stating(0, stating(1).probe), stating(1)) == 0b001, "copied of another seat"


def test_who_says_otherwise_was_shown_nothing_or_is_silent_is_not() -> None:
    other = stating(0, b"x" * 32, refuted(b"r" * 32))
    assert doubted(other, stating(1, UNSHOWN), None) == 0
    assert doubted(stating(0, b"x" * 32), bench=BenchKind.PAIR) == 0, "only a court doubts"


def test_a_probe_is_of_its_seat() -> None:
    case = case_of(RIGHT, 3)
    probes = {
        task_verdicts._result_probe(case, ASKED, [RIGHT[4]], judge, place)
        for judge in (b"1" * 32, b"2" * 32)
        for place in (b"p" * 32, b"q" * 32)
    }
    assert len(probes) == 4
