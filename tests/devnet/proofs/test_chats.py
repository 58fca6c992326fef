"""The proof of chats judges its facts: each bar has a fact that breaks it, and sums that differ have a sentence."""

from dataclasses import replace
from typing import Any, cast

import pytest

from devnet.proofs.chats import kills, speed
from devnet.proofs.chats.__main__ import SettledSessions, failures_of, noted_pay
from devnet.proofs.chats.bare import EngineRun, answer
from devnet.proofs.chats.kills import KilledChat
from devnet.proofs.chats.network import ChatStage
from devnet.proofs.chats.speed import PROMPT_TOKENS, TOPICS, Speed, SpeedRound, percentile_95, question_of
from gpu_tasks.workloads.form import ChatMessage
from gpu_tasks.workloads.model_forms import form_named, open_workload
from gpu_tasks.workloads.streamed import streamed

BUILT_IN = "decoder-int8:ogpu-bytes"
ENGINE = EngineRun(first_seconds=[0.5, 0.6, 0.7, 0.8], tokens=400, seconds=10.0, cpu_seconds=10.0)
ROUND = SpeedRound([64] * 4, [0.9, 1.0, 1.1, 1.7], 400, 12.0, 14.0, ENGINE, 0.2)
SPEED = Speed(
    [ROUND], providers=["Alice"] * 4, tokens_wanted=400, share=ROUND.share, first_excess=ROUND.first_excess
)  # fmt: skip


def test_the_figures_of_a_round() -> None:
    assert percentile_95([3.0, 1.0, 2.0, 4.0]) == 4.0
    assert percentile_95([float(number) for number in range(1, 101)]) == 95.0
    assert ROUND.share == pytest.approx(10 / 12)
    assert ROUND.share_by_cpu == pytest.approx(10.0 / (14.0 - 0.2 * 12.0))
    assert ROUND.first_excess == pytest.approx(0.9)
    assert list(speed.failures_of(SPEED)) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"providers": ["Alice", "Alice", "Bob", "Alice"]},
        {"first_excess": 1.01},
        {"share": 0.79},
        {"rounds": [replace(ROUND, chat_tokens=199)]},
    ],
)
def test_each_bar_of_the_speed(changed: dict[str, Any]) -> None:
    assert len(list(speed.failures_of(replace(SPEED, **changed)))) == 1


def test_questions_have_the_wanted_tokens() -> None:
    form = form_named(BUILT_IN)
    for topic in TOPICS:
        request = form.encode_chat([ChatMessage("user", question_of(form, topic, PROMPT_TOKENS))], 1, {}, bytes(32))
        assert PROMPT_TOKENS - 12 <= form.cost_in(request) <= PROMPT_TOKENS


def test_the_bare_engine_answers_as_the_workload() -> None:
    form, workload = form_named(BUILT_IN), open_workload(BUILT_IN)
    requests = [form.encode(text, 8, {"temperature": "0"}, bytes(32)) for text in ("one", "two")]
    found = answer(streamed(workload).live(2), requests)
    assert len(found.first_seconds) == 2
    assert found.tokens == sum(form.cost(workload.run(request)) for request in requests)


CHAT = KilledChat(
    kills=1, answers=1, whole_answers=1, tokens=96, unpaid_tokens=14, is_text_right=True, handed_over=1, legs=2,
    claimed={"Bob": 30, "Charlie": 70}, promised={0: 30, 1: 70}, claimed_periods={0: 30, 1: 70},
)  # fmt: skip


def test_whole_answers_that_are_paid_once() -> None:
    assert list(kills.provider_failures_of(CHAT)) == []
    assert list(kills.customer_failures_of(CHAT)) == []
    # The last voucher may have been on its way when the provider was killed.
    assert list(kills.provider_failures_of(replace(CHAT, claimed_periods={0: 29, 1: 70}))) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"whole_answers": 0},
        {"is_text_right": False},
        {"repeated_claims": 1},
        {"claimed_periods": {0: 30}},
        {"claimed_periods": {0: 31, 1: 70}},
        {"claimed_periods": {0: 30, 1: 70, 2: 1}},
        {"unpaid_tokens": 65},
        {"unpaid_tokens": -1},
        {"handed_over": 0},
        {"claimed": {"Bob": 0, "Charlie": 70}},
    ],
)
def test_each_bar_of_a_killed_provider(changed: dict[str, Any]) -> None:
    assert len(list(kills.provider_failures_of(replace(CHAT, **changed)))) == 1


@pytest.mark.parametrize("changed", [{"kills": 0, "unpaid_tokens": 0}, {"claimed_periods": {0: 29, 1: 70}}])
def test_each_bar_of_a_killed_customer(changed: dict[str, Any]) -> None:
    assert len(list(kills.customer_failures_of(replace(CHAT, **changed)))) == 1


SESSION, CLAIM = bytes([1]) * 32, bytes([2]) * 32


def test_the_customer_loses_its_payments_and_fees() -> None:
    settled = SettledSessions(1, 1, paid=1_025, fees=7, lost=1_032)
    assert list(failures_of(settled)) == []
    assert len(list(failures_of(replace(settled, lost=1_033)))) == 1
    assert list(failures_of(replace(settled, wrong_sums=["a sum"]))) == ["a sum"]


def test_the_pay_that_a_daemon_notes() -> None:
    told: list[dict[str, Any]] = [
        {"event": "session_opened", "session": SESSION.hex(), "grains": 9},
        {"event": "session_paid", "session": SESSION.hex(), "grains": 905},
        {"event": "session_paid", "session": CLAIM.hex(), "grains": 3},
    ]
    assert noted_pay(told, SESSION) is None
    assert noted_pay([*told, {"event": "session_ended", "session": SESSION.hex(), "place": 18}], SESSION) == 923


def test_an_error_of_the_ledger_ends_the_wait() -> None:
    stage = ChatStage(cast("Any", None), cast("Any", None), reading_error=KeyError("a leg"))
    with pytest.raises(KeyError):
        stage.wait_until("nothing", lambda: False, blocks=1)
