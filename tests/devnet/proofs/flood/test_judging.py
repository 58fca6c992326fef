"""Each bar alone: a value just inside passes, and one just outside is named with its figures."""

from dataclasses import replace
from typing import Any

import pytest

from devnet.proofs.flood.__main__ import figures
from devnet.proofs.flood.attack import AttackAccount
from devnet.proofs.flood.judging import (
    DISK_STILL_MS,
    TRIES_MAX,
    AttackFigures,
    BarResult,
    MemoryUse,
    is_to_be_tried_again,
    missed_requirements,
)


def milliseconds(p99: int | None, failed: int = 0) -> AttackFigures:
    return AttackFigures(100, p99, p99, failed, p99)


HELD = BarResult(
    attack="parse_bomb",
    finding="C3",
    rule="",
    seconds=30.0,
    quiet_intervals=milliseconds(1000),
    intervals=milliseconds(1200),
    quiet_doors={"rpc": milliseconds(30)},
    doors={"rpc": milliseconds(150)},
    cpu_per_second={"rpc": 0.5},
    others_cpu_per_second=0.0,
    slowest_write_ms=5,
    memory={"Bob/rpc": MemoryUse(100_000_000, 900_000_000, 150_000_000)},
    account=AttackAccount(10, 10_000_000, cut_seconds=[None]),
    recovered_seconds=2.0,
    log_bytes_per_second=20_000,
    tracebacks=0,
    violations=[],
)


def test_what_is_on_the_bar_holds() -> None:
    assert missed_requirements(HELD) == []


def test_a_quick_honest_client_is_allowed_the_floor() -> None:
    found = replace(HELD, quiet_doors={"rpc": milliseconds(3)}, doors={"rpc": milliseconds(100)})
    assert missed_requirements(found) == []
    (miss,) = missed_requirements(replace(found, doors={"rpc": milliseconds(101)}))
    assert miss == "rpc: honest p99 101 ms, quiet 3 ms, bar 100 ms"


def test_a_late_answer_on_a_busy_machine_is_a_miss_that_names_who_else_was_at_work() -> None:
    (miss,) = missed_requirements(replace(HELD, intervals=milliseconds(1201), others_cpu_per_second=1.24))
    assert miss.endswith("bar 1200 ms (other programs used 1.2 processors)")


def test_only_what_was_late_beside_a_disk_that_stood_still_is_tried_again_twice() -> None:
    late = replace(HELD, intervals=milliseconds(1201), slowest_write_ms=DISK_STILL_MS)
    late.misses = missed_requirements(late)
    assert late.misses[0].endswith("(the disk stood still for 100 ms)")
    assert is_to_be_tried_again(late)
    assert is_to_be_tried_again(replace(late, earlier_misses=[late.misses] * (TRIES_MAX - 2)))
    assert not is_to_be_tried_again(replace(late, earlier_misses=[late.misses] * (TRIES_MAX - 1)))
    for other in (
        replace(late, slowest_write_ms=DISK_STILL_MS - 1),
        replace(late, tracebacks=1),
        replace(late, memory={"Bob/rpc": MemoryUse(1, 200_000_000, 200_000_000)}),
        replace(late, violations=["finality: not as regular as before"]),
        replace(HELD, slowest_write_ms=900),
    ):
        other.misses = missed_requirements(other)
        assert not is_to_be_tried_again(other)


@pytest.mark.parametrize(
    ("change", "start"),
    [
        ({"intervals": milliseconds(1201)}, "finality: interval p99 1201 ms, quiet 1000 ms, bar 1200 ms"),
        ({"intervals": milliseconds(None)}, "finality: no interval"),
        ({"doors": {"rpc": milliseconds(10_000, failed=2)}}, "rpc: honest p99 10000 ms, 2 of 100 refused"),
        ({"doors": {"rpc": milliseconds(None)}}, "rpc: no honest client"),
        ({"memory": {"Bob/node": MemoryUse(100_000_000, 0, 150_000_001)}}, "memory: Bob/node had 100 MB before"),
        ({"log_bytes_per_second": 20_001.0}, "log: 20 kB a second"),
        ({"tracebacks": 3}, "log: 3 stack traces"),
        ({"violations": ["the node Bob ended"]}, "the node Bob ended"),
    ],
)
def test_each_bar(change: dict[str, Any], start: str) -> None:
    (miss,) = missed_requirements(replace(HELD, **change))
    assert miss.startswith(start)


def test_beside_busy_processors_blocks_may_take_twice_as_long_and_clients_are_judged_by_their_p95() -> None:
    doors = {"proofs": AttackFigures(100, 40, 10_000, failed=1, p95_ms=500)}
    hogged = replace(
        HELD, hogged=True, intervals=milliseconds(2000), doors=doors, quiet_doors={"proofs": milliseconds(100)}
    )
    assert missed_requirements(hogged) == []
    (late,) = missed_requirements(replace(hogged, intervals=milliseconds(2001)))
    assert "bar 2000 ms" in late
    (slow,) = missed_requirements(replace(hogged, doors={"proofs": replace(doors["proofs"], p95_ms=501)}))
    assert slow.startswith("proofs: honest p95 501 ms")


@pytest.mark.parametrize(
    ("cuts", "held"),
    [([5.0, 0.1], True), ([5.1], False), ([1.0, None], False), ([], True)],
)
def test_who_breaks_a_rule_is_gone_in_time(cuts: list[float | None], held: bool) -> None:
    found = replace(HELD, rule="forged votes", account=AttackAccount(cut_seconds=cuts))
    assert (missed_requirements(found) == []) is held
    assert missed_requirements(replace(found, rule="")) == [], "who breaks no rule may stay"


def test_the_last_cut_is_known_when_all_were_cut() -> None:
    assert replace(HELD, account=AttackAccount(cut_seconds=[1.0, 3.0])).last_cut == 3.0
    assert replace(HELD, account=AttackAccount(cut_seconds=[1.0, None])).last_cut is None


def test_the_line_of_figures_names_what_missed() -> None:
    missed = replace(
        HELD, attack="far_votes", rule="far", intervals=milliseconds(6200), account=AttackAccount(cut_seconds=[4.0])
    )
    missed.misses = missed_requirements(missed)
    assert figures({"parse_bomb": HELD, "far_votes": missed}) == (
        "2 attacks, 1 hold; worst interval p99 6200 ms, worst honest RPC p99 150 ms, 1 of 1 rule breakers cut off; "
        "missed: far_votes"
    )
