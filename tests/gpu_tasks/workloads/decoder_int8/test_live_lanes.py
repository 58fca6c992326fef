"""Requests that begin and end at any time: each answer is that of its request alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoder_models import drawn_source
from gpu_tasks.workloads.decoder_int8 import live_lanes
from gpu_tasks.workloads.decoder_int8.config import cache_bytes, pass_bytes
from gpu_tasks.workloads.decoder_int8.decoding import generated
from gpu_tasks.workloads.decoder_int8.effort import LANES, room_bytes_max
from gpu_tasks.workloads.decoder_int8.live_lanes import STEPS_A_PIECE, LiveLanes
from gpu_tasks.workloads.decoder_int8.quantising import quantised_decoder
from gpu_tasks.workloads.decoder_int8.request import LENGTH_REACHED, REQUEST, GenerationOutput, GenerationRequest
from gpu_tasks.workloads.decoder_int8.transformer import LoadedDecoder, load
from gpu_tasks.workloads.integer_transformer.backends import arithmetic
from gpu_tasks.workloads.streamed import LaneTokens
from runtime.encoding.codec import DecodeError

PLAIN = GenerationRequest((1, 2, 3), 8, 0, 1000, bytes(32), (), has_logprobs=False)
MODEL = load(arithmetic("numpy"), quantised_decoder(drawn_source()))
PIECE = 5
ROOM = room_bytes_max(MODEL.shape)


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The small model's context is shorter than a piece."""
    monkeypatch.setattr(live_lanes, "PIECE", PIECE)


def lanes_of(places: int, model: LoadedDecoder = MODEL) -> LiveLanes:
    return LiveLanes(model, places, ROOM)


def alone(request: GenerationRequest) -> GenerationOutput:
    ((_, output),) = generated(MODEL, [request])
    return output


def drained(lanes: LiveLanes, steps: int = 200) -> list[LaneTokens]:
    return [progress for _ in range(steps) for progress in lanes.step()]


@st.composite
def requests(draw: st.DrawFn) -> GenerationRequest:
    tokens = st.integers(0, MODEL.shape.vocabulary - 1)
    prompt = draw(st.lists(tokens, min_size=1, max_size=17))
    stops = draw(st.lists(st.lists(tokens, min_size=1, max_size=2).map(tuple), max_size=3).map(tuple))
    return GenerationRequest(
        tuple(prompt), draw(st.integers(1, 12)), draw(st.sampled_from((0, 700, 2500))),
        draw(st.sampled_from((1000, 900, 1))), draw(st.binary(min_size=32, max_size=32)), stops, has_logprobs=False,
    )  # fmt: skip


ACTS = st.lists(
    st.one_of(requests(), st.tuples(st.sampled_from(("drop", "pause", "resume")), st.integers(0, 3)), st.just("step")),
    max_size=40,
)


@given(st.integers(1, 4), ACTS)
def test_any_interleaving_gives_each_request_its_own_answer(places: int, acts: list[object]) -> None:
    """A dropped request has the first tokens of its answer."""
    lanes, paused = lanes_of(places), set[int]()
    open_, told = dict[int, GenerationRequest](), dict[int, list[int]]()
    for act in [*acts, *["step"] * 200]:
        match act:
            case GenerationRequest() if len(open_) < places:
                lane = lanes.begin(REQUEST.encode(act))
                assert lane not in open_
                open_[lane], told[lane] = act, []
            case ("pause", lane):
                paused.add(lane)
            case ("resume", lane):
                paused.discard(lane)
            case ("drop", lane) if lane in open_:
                lanes.drop(lane)
                assert alone(open_.pop(lane)).tokens[: len(told[lane])] == tuple(told[lane])
            case "step":
                for lane, tokens, finish in lanes.step(paused):
                    assert lane not in paused
                    told[lane].extend(tokens)
                    if finish is not None:
                        assert GenerationOutput(tuple(told[lane]), finish, ()) == alone(open_.pop(lane))
            case _:
                pass
    assert set(open_) <= paused


def test_lanes_beside_a_long_prompt_keep_half_of_their_pace() -> None:
    lanes = lanes_of(2)
    short = lanes.begin(REQUEST.encode(replace(PLAIN, max_tokens=60)))
    assert lanes.step() == [LaneTokens(short, alone(PLAIN).tokens[:1], None)]
    long = lanes.begin(REQUEST.encode(replace(PLAIN, prompt=(1,) * (6 * PIECE))))
    until_read = list[LaneTokens]()
    while not any(progress.lane == long and progress.tokens for progress in until_read):
        until_read += lanes.step()
    assert Counter(progress.lane for progress in until_read) == {long: 6, short: 1 + 5 * STEPS_A_PIECE}


def test_a_new_prompt_does_not_wait_behind_a_long_one() -> None:
    lanes = lanes_of(3)
    first, second = [lanes.begin(REQUEST.encode(replace(PLAIN, prompt=(1,) * (4 * PIECE)))) for _ in range(2)]
    read = [lanes.step()[-1].lane for _ in range(3)]
    short = lanes.begin(REQUEST.encode(PLAIN))
    assert [*read, lanes.step()[-1].lane] == [first, second, first, short]


def test_a_paused_lane_goes_on_where_it_stopped() -> None:
    lanes = lanes_of(1)
    lane = lanes.begin(REQUEST.encode(PLAIN))
    assert lanes.step([lane]) == []
    first = lanes.step()
    assert lanes.step({lane}) == []
    tokens = [token for progress in (*first, *drained(lanes)) for token in progress.tokens]
    assert tuple(tokens) == alone(PLAIN).tokens


def test_a_free_lane_is_given_again_and_no_other() -> None:
    lanes = lanes_of(3)
    assert [lanes.begin(REQUEST.encode(PLAIN)) for _ in range(3)] == [0, 1, 2]
    lanes.drop(1)
    assert lanes.begin(REQUEST.encode(replace(PLAIN, max_tokens=1))) == 1
    assert LaneTokens(1, alone(PLAIN).tokens[:1], LENGTH_REACHED) in drained(lanes, 4)
    assert lanes.begin(REQUEST.encode(PLAIN)) == 1


@pytest.mark.parametrize(
    "request_",
    [
        b"no request",
        REQUEST.encode(replace(PLAIN, has_logprobs=True)),
        REQUEST.encode(replace(PLAIN, max_tokens=MODEL.shape.context)),
        REQUEST.encode(replace(PLAIN, prompt=())),
    ],
)
def test_an_invalid_request_takes_no_lane(request_: bytes) -> None:
    lanes = lanes_of(1)
    with pytest.raises(DecodeError):
        lanes.begin(request_)
    assert lanes.begin(REQUEST.encode(PLAIN)) == 0


def test_lanes_beyond_the_memory_or_the_most_are_refused() -> None:
    shape = MODEL.shape
    room = pass_bytes(shape) + 3 * shape.context * cache_bytes(shape)
    LiveLanes(MODEL, 3, room)
    for places, given_room in ((4, room), (3, room - 1), (LANES + 1, ROOM)):
        with pytest.raises(MemoryError):
            LiveLanes(MODEL, places, given_room)
