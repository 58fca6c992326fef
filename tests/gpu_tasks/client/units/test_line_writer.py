"""Results and errors in the form of the input, a run as OpenAI's batch object, and how far it is."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.output import plain
from gpu_tasks.client.units.batch_object import ERRORS_SHOWN_MAX, BatchState, BatchStatus, RequestCounts, status_of
from gpu_tasks.client.units.costs import NOTHING, UnitSums
from gpu_tasks.client.units.lines import BatchLine, FileForm, LineError
from gpu_tasks.client.units.result_lines import CANCELLED, EXPIRED, LineAnswer, LineWriter, UnitPlace
from gpu_tasks.client.units.run_progress import BatchProgress

LINE = BatchLine(7, "a", "Once", 4, {}, bytes(32))
NAMELESS = BatchLine(8, None, "Once", 4, {}, bytes(32))
ANSWER = LineAnswer("upon\n a\u2028time", 4, 3)
PLACE = UnitPlace(bytes([5]) * 32, 2)
REFUSED = LineError(9, "b", "unsupported_parameter", "leave it out", "body.n")


def writer(form: FileForm, endpoint: str | None = None) -> LineWriter:
    return LineWriter(form, endpoint, "decoder-int8:ogpu-bytes", 1_700_000_000)


COMPLETIONS = writer(FileForm.OPENAI, "/v1/completions")
CHAT = writer(FileForm.OPENAI, "/v1/chat/completions")


def read(data: bytes) -> dict[str, Any]:
    """One line, for whatever reader of lines."""
    assert data.endswith(b"\n")
    assert len(data.decode().splitlines()) == 1
    found: dict[str, Any] = json.loads(data)
    return found


@pytest.mark.parametrize("form", [FileForm.LINES, FileForm.OBJECTS])
def test_plain_answers(form: FileForm) -> None:
    assert read(writer(form).answered(LINE, ANSWER, PLACE)) == {
        "index": 7,
        "id": "a",
        "text": ANSWER.text,
        "tokens_in": 4,
        "tokens_out": 3,
    }
    assert read(writer(form).answered(NAMELESS, ANSWER, PLACE)) == {
        "index": 8,
        "text": ANSWER.text,
        "tokens_in": 4,
        "tokens_out": 3,
    }


@pytest.mark.parametrize("form", [FileForm.LINES, FileForm.OBJECTS])
def test_plain_errors(form: FileForm) -> None:
    assert read(writer(form).refused(REFUSED)) == {
        "index": 9,
        "id": "b",
        "error": {"code": "unsupported_parameter", "message": "leave it out", "param": "body.n"},
    }
    found = read(writer(form).stopped(NAMELESS, EXPIRED))
    assert (found["index"], found["error"]["code"]) == (8, "batch_expired")
    assert read(writer(form).failed(LINE, PLACE, "nobody took it"))["error"] == {
        "code": "request_failed",
        "message": "nobody took it",
        "param": None,
    }


def test_a_completion_as_openai_writes_it() -> None:
    found = read(COMPLETIONS.answered(LINE, ANSWER, PLACE))
    assert list(found) == ["id", "custom_id", "response", "error"]
    assert found["id"].startswith("batch_req_")
    assert (found["custom_id"], found["error"]) == ("a", None)
    response = found["response"]
    assert list(response) == ["status_code", "request_id", "body"]
    assert response["status_code"] == 200
    assert response["request_id"].startswith("req_")
    name = response["body"].pop("id")
    assert name.startswith("cmpl-")
    assert response["body"] == {
        "object": "text_completion",
        "created": 1_700_000_000,
        "model": "decoder-int8:ogpu-bytes",
        "choices": [{"index": 0, "text": ANSWER.text, "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 4, "completion_tokens": 3, "total_tokens": 7},
    }


def test_a_chat_completion_as_openai_writes_it() -> None:
    body = read(CHAT.answered(LINE, LineAnswer("Hi", 4, 4), PLACE))["response"]["body"]
    assert body["id"].startswith("chatcmpl-")
    assert body["object"] == "chat.completion"
    assert body["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hi", "refusal": None},
            "logprobs": None,
            "finish_reason": "length",
        }
    ]


def test_a_refused_line_as_openai_writes_it() -> None:
    found = read(COMPLETIONS.refused(REFUSED))
    assert (found["custom_id"], found["error"]) == ("b", None)
    assert found["response"]["status_code"] == 400
    assert found["response"]["body"] == {
        "error": {
            "message": "leave it out",
            "type": "invalid_request_error",
            "param": "body.n",
            "code": "unsupported_parameter",
            "line": 9,
        }
    }


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (COMPLETIONS.stopped(LINE, EXPIRED), "batch_expired"),
        (COMPLETIONS.stopped(LINE, CANCELLED), "batch_cancelled"),
        (COMPLETIONS.failed(LINE, PLACE, "x"), "request_failed"),
        (COMPLETIONS.rejected(LINE, PLACE), "invalid_request"),
    ],
)
def test_what_got_no_answer_has_no_response(data: bytes, code: str) -> None:
    found = read(data)
    assert (found["custom_id"], found["response"], found["error"]["code"]) == ("a", None, code)
    assert found["error"]["message"]


def test_ids_are_the_same_each_time_and_of_one_request() -> None:
    assert COMPLETIONS.answered(LINE, ANSWER, PLACE) == COMPLETIONS.answered(LINE, ANSWER, PLACE)
    others = (UnitPlace(PLACE.unit, 3), UnitPlace(bytes(32), 2))
    names = {read(COMPLETIONS.answered(LINE, ANSWER, place))["id"] for place in (PLACE, *others)}
    assert len(names) == 3


@given(st.text(), st.text(min_size=1))
def test_texts_come_back_as_they_were(text: str, custom_id: str) -> None:
    line = BatchLine(1, custom_id, "", 4, {}, bytes(32))
    for each in (writer(FileForm.OBJECTS), COMPLETIONS):
        found = read(each.answered(line, LineAnswer(text, 0, 0), PLACE))
        assert found.get("id" if each.form is FileForm.OBJECTS else "custom_id") == custom_id
        assert text == (found["text"] if "text" in found else found["response"]["body"]["choices"][0]["text"])


def state(**fields: Any) -> dict[str, Any]:
    given_fields: dict[str, Any] = {
        "batch_id": "batch_1",
        "endpoint": "/v1/completions",
        "status": BatchStatus.IN_PROGRESS,
        "created_at": 5,
        "input_file": "in.jsonl",
        "output_file": "/out",
        "error_file": "/err",
        "counts": RequestCounts(10, 3, 1),
        "completion_window": "24h",
        "sums": UnitSums(9, 2, 1, 3, 5),
    }
    found: dict[str, Any] = json.loads(BatchState(**{**given_fields, **fields}).json())
    return found


def test_the_batch_object() -> None:
    assert state(times={"in_progress": 6, "expires": 99}) == {
        "id": "batch_1",
        "object": "batch",
        "endpoint": "/v1/completions",
        "errors": None,
        "input_file_id": "in.jsonl",
        "completion_window": "24h",
        "status": "in_progress",
        "output_file_id": "/out",
        "error_file_id": "/err",
        "created_at": 5,
        "in_progress_at": 6,
        "expires_at": 99,
        "finalizing_at": None,
        "completed_at": None,
        "failed_at": None,
        "expired_at": None,
        "cancelling_at": None,
        "cancelled_at": None,
        "request_counts": {"total": 10, "completed": 3, "failed": 1},
        "metadata": None,
        "costs": plain(UnitSums(9, 2, 1, 3, 5).facts()),
    }
    with pytest.raises(AssertionError):
        state(times={"tomorrow": 1})


def test_the_batch_object_names_no_file_in_which_nothing_stands() -> None:
    found = state(counts=RequestCounts(10, 0, 0), completion_window=None)
    assert (found["output_file_id"], found["error_file_id"]) == (None, None)
    assert (found["completion_window"], found["expires_at"]) == ("24h", None), "as OpenAI's, whose has always one"
    assert state(counts=RequestCounts(10, 0, 2))["error_file_id"] == "/err"
    assert state(completion_window="10m")["completion_window"] == "10m"


def test_its_errors_name_lines_and_are_bounded() -> None:
    assert state(refused=[REFUSED])["errors"] == {
        "object": "list",
        "data": [{"code": "unsupported_parameter", "message": "leave it out", "param": "body.n", "line": 9}],
    }
    assert len(state(refused=[REFUSED] * (ERRORS_SHOWN_MAX + 1))["errors"]["data"]) == ERRORS_SHOWN_MAX


@pytest.mark.parametrize("counts", [(1, 2, 0), (1, 1, 1), (1, -1, 1), (2, 3, -1)])
def test_counts_that_cannot_be(counts: tuple[int, int, int]) -> None:
    with pytest.raises(AssertionError):
        RequestCounts(*counts)


@pytest.mark.parametrize(
    ("completed", "stopped", "is_running", "are_files_whole", "status"),
    [
        (0, None, True, True, "in_progress"),
        (0, None, False, True, "in_progress"),
        (4, None, False, False, "finalizing"),
        (4, None, False, True, "completed"),
        (1, "expired", True, True, "in_progress"),
        (1, "expired", False, False, "finalizing"),
        (1, "expired", False, True, "expired"),
        (1, "cancelled", True, True, "cancelling"),
        (1, "cancelled", False, False, "cancelling"),
        (1, "cancelled", False, True, "cancelled"),
    ],
)
def test_where_a_run_stands(
    completed: int, stopped: str | None, is_running: bool, are_files_whole: bool, status: str
) -> None:
    given_up = 3 if stopped else 0
    assert status_of(RequestCounts(5, completed, 1), stopped, is_running, are_files_whole, given_up) == status


def progress(**fields: int) -> BatchProgress:
    given_fields: dict[str, Any] = {
        "requests": 1_000,
        "answered": 300,
        "failed": 10,
        "tokens": 9_000,
        "units_ended": 3,
        "began_at": 100,
        "done_before": 0,
        "now": 160,
    }
    return BatchProgress(**{**given_fields, **fields})


def test_how_far_a_run_is() -> None:
    found = progress()
    assert (found.done, found.permille, found.seconds_left) == (310, 310, 134)
    assert found.sentence("token") == "310 of 1,000 done (31 %), 10 failed, 9,000 tokens; about 3 minutes left"


@pytest.mark.parametrize(
    "fields", [{"answered": 0, "failed": 0}, {"now": 100}, {"now": 50}, {"units_ended": 1}, {"done_before": 310}]
)
def test_nothing_is_said_where_nothing_is_known(fields: dict[str, int]) -> None:
    assert progress(**fields).seconds_left is None
    assert progress(**fields).sentence("token").endswith("; too early for a forecast: two units must end first")


def test_until_anything_has_ended_what_was_foretold_is_said() -> None:
    found = progress(answered=0, failed=0, tokens=0, units_ended=0, foretold=100)
    said = replace(found, standing="units: 5 racing on 10 devices").sentence("token")
    assert said == "0 of 1,000 done (0 %), 0 tokens; units: 5 racing on 10 devices; less than a minute left"
    assert (found.seconds_left, replace(found, now=199).seconds_left, replace(found, now=200).seconds_left) == (
        40,
        1,
        None,
    )
    assert progress(foretold=100_000).seconds_left == 134, "what it does now says more"


@pytest.mark.parametrize(("now", "over"), [(200, "less than a minute"), (320, "about 2 minutes")])
def test_an_end_that_was_foretold_wrongly_is_not_kept_silent(now: int, over: str) -> None:
    late = progress(answered=0, failed=0, tokens=0, units_ended=1, foretold=100, now=now)
    assert late.sentence("token").endswith(f"; {over} over the forecast; a new forecast follows after two units")


def test_what_was_given_up_has_not_failed() -> None:
    said = progress(failed=10, given_up=7).sentence("token")
    assert said.startswith("310 of 1,000 done (31 %), 3 failed, 7 given up, 9,000 tokens; ")
    assert progress(failed=7, given_up=7).sentence("token").startswith("307 of 1,000 done (30 %), 7 given up, ")


def test_a_run_taken_up_again_goes_by_what_it_does_now() -> None:
    found = progress(done_before=280)
    assert found.seconds_left == 690 * 60 // 30


@pytest.mark.parametrize(
    ("answered", "now", "end"),
    [
        (990, 160, "9,000 tokens"),
        (989, 160, "less than a minute left"),
        (490, 160, "about 1 minute left"),
        (240, 3_700, "about 3 hours left"),
        (90, 100 + 86_400, "about 9 days left"),
    ],
)
def test_the_end_in_words(answered: int, now: int, end: str) -> None:
    assert progress(answered=answered, now=now).sentence("token").endswith(end)


def test_an_empty_run_is_done() -> None:
    assert progress(requests=0, answered=0, failed=0, tokens=1).sentence("token") == "0 of 0 done (100 %), 1 token"


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_all_is_said_only_of_all(requests: int, answered: int, now: int) -> None:
    found = progress(requests=requests, answered=min(answered, requests), failed=0, now=now)
    assert (found.permille == 1000) == (found.seconds_left == 0) == (found.done == requests)


AMOUNTS = st.integers(0, 10**15)


@st.composite
def unit_sums(draw: st.DrawFn) -> UnitSums:
    paid, returned, still = draw(AMOUNTS), draw(AMOUNTS), draw(AMOUNTS)
    return UnitSums(paid + returned + still, draw(AMOUNTS), draw(st.none() | AMOUNTS), paid, returned)


@given(unit_sums(), unit_sums())
def test_what_was_locked_is_paid_returned_or_locked_still(one: UnitSums, other: UnitSums) -> None:
    both = one + other
    assert both.locked == both.paid + both.returned + both.still_locked
    assert both.still_locked == one.still_locked + other.still_locked
    costs = [one.cost, other.cost]
    assert both.cost == (None if None in costs else sum(cost or 0 for cost in costs))
    assert one + NOTHING == one
    shown = both.facts()
    assert list(shown) == ["locked", "prepaid", "fees", "paid", "returned", "still_locked", "cost"]
    assert shown["fees"] == both.fees, "which is not known, rather than nothing"
