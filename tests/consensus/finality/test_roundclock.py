"""The clock of a round: it runs with work, stops without, and schedules repetitions."""

from consensus.finality.gadget import RoundClock
from consensus.parameters import DEVNET

RESEND = DEVNET.resend_ms
TIMEOUT = DEVNET.round_timeout_ms


def running_since(start_ms: int) -> RoundClock:
    clock = RoundClock(DEVNET)
    clock.keep(start_ms, has_work=True)
    return clock


def test_it_stands_without_work() -> None:
    clock = RoundClock(DEVNET)
    clock.keep(0, has_work=False)
    assert not clock.is_running
    assert not clock.has_waited(10**9, 0)
    assert not clock.is_time_to_repeat(10**9)
    assert clock.deadline_ms(0, TIMEOUT) is None


def test_it_counts_from_the_first_work_and_forgets_when_there_is_none() -> None:
    clock = running_since(1_000)
    clock.keep(1_400, has_work=True)
    assert not clock.has_waited(1_499, 500)
    assert clock.has_waited(1_500, 500)
    clock.keep(1_600, has_work=False)
    clock.keep(1_700, has_work=True)
    assert not clock.has_waited(2_199, 500)
    clock.restart()
    assert not clock.is_running


def test_it_repeats_first_after_two_spans_then_after_each() -> None:
    clock = running_since(0)
    assert not clock.is_time_to_repeat(2 * RESEND - 1)
    assert clock.is_time_to_repeat(2 * RESEND)
    assert not clock.is_time_to_repeat(3 * RESEND - 1)
    assert clock.is_time_to_repeat(3 * RESEND)


def test_what_was_just_sent_is_repeated_later() -> None:
    clock = running_since(0)
    clock.postpone()
    assert not clock.is_time_to_repeat(3 * RESEND - 1)
    assert clock.is_time_to_repeat(3 * RESEND)


def test_the_deadline_is_the_next_of_repetition_wait_and_timeout() -> None:
    clock = running_since(700)
    assert clock.deadline_ms(700, TIMEOUT) == 700 + 2 * RESEND
    assert clock.is_time_to_repeat(700 + 2 * RESEND)
    assert clock.deadline_ms(700 + 2 * RESEND, TIMEOUT) == 700 + min(3 * RESEND, DEVNET.soft_wait_ms)
    clock.postpone()
    assert clock.deadline_ms(700, RESEND) == 700 + RESEND
    assert clock.is_time_to_repeat(700 + TIMEOUT)
    assert clock.deadline_ms(700 + TIMEOUT, TIMEOUT) == 700 + TIMEOUT + RESEND
