"""An attack's record as figures: a standstill counts, and so do requests without an answer."""

from itertools import accumulate

import pytest

from devnet.proofs.flood.judging import (
    FAILED_MS,
    DiskWrite,
    HonestCall,
    ProcessUsage,
    Records,
    Sample,
    Stretch,
)


@pytest.fixture
def regular() -> Records:
    """Return two nodes that reported a final block each second, until 10."""
    return Records(finals={name: [float(second) for second in range(11)] for name in ("Alice", "Dave")})


def test_quiet_intervals_begin_and_end_inside(regular: Records) -> None:
    assert regular.intervals(Stretch(2.5, 5.5), now_seconds=99.0, is_whole=True) == [1000, 1000] * 2


def test_an_attack_answers_for_every_interval_that_it_touches(regular: Records) -> None:
    assert regular.intervals(Stretch(2.5, 5.5), now_seconds=10.0, is_whole=False) == [1000] * 4 * 2


def test_a_block_that_came_after_the_attack_counts_with_all_the_time_it_took() -> None:
    records = Records(finals={"Alice": [1.0, 2.0, 22.0, 23.0]})
    assert records.intervals(Stretch(1.5, 9.5), now_seconds=30.0, is_whole=False) == [1000, 20_000]
    assert records.intervals(Stretch(1.5, 9.5), now_seconds=30.0, is_whole=True) == []


def test_a_chain_that_stands_still_counts_until_now() -> None:
    records = Records(finals={"Alice": [1.0, 2.0]})
    assert records.intervals(Stretch(1.5, 9.5), now_seconds=12.0, is_whole=False) == [1000, 10_000]


def test_figures_of_some_stretches_together(regular: Records) -> None:
    figures = regular.interval_figures([Stretch(0, 2), Stretch(5, 6)], now_seconds=10.0, is_whole=True)
    assert (figures.count, figures.p50_ms, figures.p99_ms) == (6, 1000, 1000)


def test_the_last_percents_of_intervals_and_of_calls_are_told_apart() -> None:
    lasted = [1.0] * 94 + [2.0] * 4 + [9.0] * 2
    calls = [HonestCall("rpc", 1.0, 1.0 + seconds, is_answered=True) for seconds in lasted]
    records = Records(calls=calls, finals={"A": list(accumulate([0.0, *lasted]))})
    figures = (
        records.door_figures("rpc", [Stretch(0, 5)], now_seconds=500.0),
        records.interval_figures([Stretch(0, 400)], now_seconds=500.0, is_whole=True),
    )
    for found in figures:
        assert (found.count, found.failed) == (100, 0)
        assert (found.p50_ms, found.p95_ms, found.p99_ms) == (1000, 2000, 9000)


def test_of_nothing_there_are_no_figures() -> None:
    assert Records().interval_figures([Stretch(0, 9)], now_seconds=9.0, is_whole=True).p99_ms is None


def test_honest_calls_of_a_stretch_by_door() -> None:
    calls = [
        HonestCall("rpc", began=1.0, ended=1.01, is_answered=True),
        HonestCall("rpc", began=2.0, ended=2.001, is_answered=False),  # refused at once
        HonestCall("rpc", began=3.0),  # waits still
        HonestCall("rpc", began=9.0, ended=9.5, is_answered=True),  # later
        HonestCall("metrics", began=1.0, ended=1.5, is_answered=True),
    ]
    figures = Records(calls=calls).door_figures("rpc", [Stretch(0, 5)], now_seconds=7.0)
    assert (figures.count, figures.failed, figures.p50_ms, figures.p99_ms) == (3, 1, 4000, FAILED_MS)


def samples(*seconds: tuple[float, dict[int, float], int]) -> Records:
    return Records(samples=[Sample(at, {"Bob/rpc": ProcessUsage(cpu, resident)}) for at, cpu, resident in seconds])


def test_cpu_time_of_a_stretch_and_of_a_process_that_was_started_in_it() -> None:
    records = samples(
        (0, {7: 1.0}, 0), (1, {7: 1.5}, 0), (2, {8: 0.25}, 0), (3, {8: 0.5, 9: 0.25}, 0), (4, {8: 9.0}, 0)
    )
    assert records.cpu_seconds(Stretch(0, 3)) == {"Bob/rpc": 0.5 + 0.25 + 0.5}


def test_what_others_used_is_the_machines_less_the_networks() -> None:
    machine = [(0, 0.0, 10.0), (1, 0.5, 12.0), (2, 0.75, 13.0), (3, 9.0, 99.0)]
    records = Records(samples=[Sample(at, {"Bob/rpc": ProcessUsage({7: cpu}, 0)}, busy) for at, cpu, busy in machine])
    assert records.others_seconds(Stretch(0, 2)) == 3.0 - 0.75
    assert records.others_seconds(Stretch(9, 10)) == 0.0


def test_memory_before_and_at_most() -> None:
    records = samples((0, {}, 100), (1, {}, 300), (2, {}, 200), (3, {}, 900))
    assert records.resident_at(1.9) == {"Bob/rpc": 300}
    assert records.resident_at(-1) == {}
    assert records.resident_peak(Stretch(0.5, 2.5)) == {"Bob/rpc": 300}


def test_a_write_counts_for_the_stretch_that_it_touches(regular: Records) -> None:
    regular.writes = [DiskWrite(1.0, 0.9), DiskWrite(2.0, 0.2), DiskWrite(3.9, 0.4), DiskWrite(5.0, 0.8)]
    assert regular.slowest_write_ms(Stretch(2.0, 4.0)) == 400
    assert regular.slowest_write_ms(Stretch(6.0, 7.0)) == 0
