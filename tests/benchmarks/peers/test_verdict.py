"""The comparison of pairs: only values of one pair are compared, their median counts, and the worst shape decides."""

import pytest

from benchmarks.peers.race import Result
from benchmarks.peers.verdict import Pair, Standing, failures, line, medians


def result(rate: float, **cpu: float) -> Result:
    cpu = cpu or {"node": 100.0, "rpc": 50.0}
    return Result(rate, rate + 1, 0, "", cpu, 2.0, dict.fromkeys(cpu, 64.0))


def standing(label: str, *rates: tuple[float, float]) -> Standing:
    return Standing(label, [Pair(result(ours), result(theirs, anvil=90.0)) for ours, theirs in rates])


def test_the_ratio_is_the_median_of_the_pairs_and_not_of_the_rates() -> None:
    # In the second minute the machine was half as fast for both, in the third for one of them.
    assert standing("500x8", (1_200, 1_000), (600, 500), (600, 1_000)).ratio == 1.2


def test_medians_are_of_each_figure_and_totals_add_up() -> None:
    figures = medians([result(10.0), result(30.0), result(20.0)])
    assert figures["final_per_second"] == 20.0
    assert (figures["cpu_us"], figures["cpu_node_us"], figures["cpu_rpc_us"]) == (150.0, 100.0, 50.0)
    assert (figures["peak_mib"], figures["peak_rpc_mib"]) == (128.0, 64.0)


@pytest.mark.parametrize(
    ("worst", "verdict", "missed"), [(1.19, "MISSED", 1), (1.2, "bar met", 0), (1.5, "goal met", 0)]
)
def test_the_worst_shape_decides(worst: float, verdict: str, missed: int) -> None:
    standings = [standing("500x8", (2_000, 1_000)), standing("250x4", (worst * 1_000, 1_000))]
    assert len(failures(standings)) == missed
    assert all(failure.startswith("250x4") for failure in failures(standings))
    assert verdict in line(standings, {}, 7)


def test_the_line_names_what_was_not_run() -> None:
    said = line([standing("500x8", (2_000, 1_000))], {"LiteSVM": {"cpu_us": 48.0}, "py-evm": {"not run": "why"}}, 7)
    assert "500x8: 2.00 times anvil, 2,000 to 1,000 final a second, CPU us 150 to 90, MiB 128 to 64" in said
    assert "LiteSVM 48.0, py-evm not run" in said


def test_the_report_holds_every_run() -> None:
    report = standing("500x8", (2_000, 1_000), (900, 1_000)).report()
    runs = report["runs"]
    assert isinstance(runs, list)
    assert [run["ratio"] for run in runs] == [2.0, 0.9]
    assert runs[0]["ours"]["cpu_us"] == {"node": 100.0, "rpc": 50.0}
