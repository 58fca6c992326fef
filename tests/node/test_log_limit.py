"""A flood of log messages makes few lines, with the number of the omitted ones."""

import logging

import pytest

from node.process import BURST, CAUSES_MAX, LogLimit


def log_forged(log: logging.Logger, number: int) -> None:
    log.info("peer %d: a forged vote", number)


def test_n8_one_line_a_second_for_each_cause_and_a_count(caplog: pytest.LogCaptureFixture) -> None:
    seconds = 0.0
    log = logging.getLogger("test.flood")
    limit = LogLimit(lambda: seconds)
    log.addFilter(limit)
    with caplog.at_level(logging.INFO, logger="test.flood"):
        for number in range(20_000):
            seconds = number / 10_000
            log_forged(log, number)
        assert BURST <= len(caplog.messages) <= BURST + 2
        log.info("something else")
        assert caplog.messages[-1] == "something else"
        seconds = 10.0
        log_forged(log, 7)
    log.removeFilter(limit)
    assert caplog.messages[-1].startswith("peer 7: a forged")
    assert "9998" in caplog.messages[-1]


def test_what_the_node_does_by_itself_is_told_in_full() -> None:
    limit = LogLimit(lambda: 0.0)
    record = logging.LogRecord("node", logging.INFO, "figures.py", 1, "final #1", None, None)
    assert all(limit.filter(record) for _ in range(100))


def test_the_newest_causes_are_remembered() -> None:
    limit = LogLimit(lambda: 0.0)

    def passed(line: int) -> int:
        record = logging.LogRecord("flood", logging.INFO, "attacked.py", line, "forged", None, None)
        return sum(bool(limit.filter(record)) for _ in range(2 * BURST))

    assert [passed(line) for line in range(CAUSES_MAX + 1)] == [BURST] * (CAUSES_MAX + 1)
    assert (passed(CAUSES_MAX), len(limit._causes_by_place)) == (0, CAUSES_MAX)
