"""The verdict on a verifier's cost, rung by rung. Each rung does the work of checkers and nodes."""

import json
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from benchmarks.built_in import WORKLOAD
from benchmarks.ladder import __main__ as ladder
from benchmarks.ladder import claim_costs, page, tasks, timer, units
from benchmarks.ladder.rungs import (
    CHECKS_EXPECTED,
    TASK_RUNGS,
    UNIT_RUNGS,
    Found,
    failures,
    items_checked,
    task_bars,
    unit_bars,
)
from benchmarks.ladder.statements import checked, signed_milestone, signed_reveal
from gpu_tasks.workloads.model_forms import PACKAGE_FORMS, form_named
from gpu_tasks.workloads.stepwise import stepwise
from gpu_tasks.workloads.workload import OutputCheck
from training_requests import text_of

SMALL = {"context": "3", "width": "4", "hidden": "6", "batch": "8", "segment": "4"}
TASK = tasks.TaskSize("small", text_of(1, 1_500).decode("latin-1").encode("ascii", "ignore").decode(), 40, SMALL)


def row(share: float, bar: float, size: str = "small", rung: str = "check") -> Found:
    return Found("matmul-hash", "unit", size, rung, 2.0, 2.0 * share, bar)


def test_a_missed_bar_is_named_and_one_that_is_met_is_not() -> None:
    assert failures([row(1.5, 1.5)]) == []
    assert failures([row(1.5, 1.5), row(1.6, 1.5, rung="sample")]) == [
        "matmul-hash, unit of small: sample takes 1.6000 of the work, the bar 1.5000"
    ]


def test_the_checked_share_of_a_trace_falls_with_its_length() -> None:
    assert [items_checked(segments) for segments in (1, 12, 400)] == pytest.approx([1.25 / 3, 5, 5], abs=1e-4)
    assert task_bars(100)["item"] == pytest.approx(0.015)
    assert task_bars(100)["claim"] == pytest.approx(0.075)
    assert pytest.approx(0.125) == CHECKS_EXPECTED


def test_every_rung_has_a_bar_and_is_told_of() -> None:
    assert set(unit_bars(WORKLOAD)) == set(UNIT_RUNGS)
    assert set(task_bars(10)) == set(TASK_RUNGS)
    assert unit_bars(WORKLOAD)["check"] < 1 < unit_bars("anything else")["check"]


def test_every_workload_has_sizes_at_which_a_ratio_can_be_seen_to_scale() -> None:
    assert {form.name for form in PACKAGE_FORMS} == set(ladder.unit_sizes())
    assert {form.name for form in PACKAGE_FORMS if form.is_stepwise} == set(ladder.task_sizes())
    assert all(len(sizes) >= 2 for sizes in (*ladder.unit_sizes().values(), *ladder.task_sizes().values()))


def test_the_lowest_of_all_turns_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 5.0, 10.0, 12.0, 20.0, 23.0])
    monkeypatch.setattr("time.process_time", lambda: next(times))
    assert timer.lowest({"long": lambda: None}, 3) == {"long": 2.0}


def test_what_is_too_short_for_the_clock_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count()
    now = [0]

    def work() -> None:
        now[0] = next(calls)

    monkeypatch.setattr("time.process_time", lambda: now[0] * 0.001)
    found = timer.lowest({"short": work}, 1)
    assert found["short"] == pytest.approx(0.001, rel=0.2)
    assert next(calls) > 10


def test_a_unit_is_measured_on_every_rung() -> None:
    form = form_named("matmul-hash")
    found = units.measured_unit(form, form.open("numpy"), units.UnitSize("small", "1 16 4", 4), 1)
    assert [entry.rung for entry in found] == list(UNIT_RUNGS)
    assert all(entry.provider_s > 0 and entry.share > 0 for entry in found)
    shares = {entry.rung: entry.share for entry in found}
    assert shares["sample"] < shares["check"]
    assert shares["claim"] == pytest.approx(CHECKS_EXPECTED * (shares["check"] + shares["sample"]))


def test_a_unit_that_can_be_checked_at_drawn_places_has_a_rung_more() -> None:
    form = form_named("render-tile")
    size = units.UnitSize("small", ladder.ROOM.format(24, 16), 99, places=24 * 16)
    found = units.measured_unit(form, form.open("numpy"), size, 1)
    assert [entry.rung for entry in found] == [*UNIT_RUNGS, "spots"]
    assert found[-1].bar == pytest.approx(1.5 * 256 / 384 + 0.05)
    assert 0 < found[-1].share < 1.5
    assert "| spots | a customer: 256 drawn pixels |" in page.page(found)
    assert "spots" not in page.page([row(1.0, 2.0, rung=rung) for rung in UNIT_RUNGS])


def test_a_unit_whose_check_refuses_it_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    form = form_named("matmul-hash")
    workload = form.open("numpy")
    monkeypatch.setattr(workload, "verify", lambda *_: OutputCheck(valid=False, recomputed=1, first_wrong=0))
    with pytest.raises(RuntimeError, match="its own output is refused"):
        units.measured_unit(form, workload, units.UnitSize("small", "1 16 4", 4), 1)


def test_a_task_is_measured_on_every_rung() -> None:
    form = form_named("train-int8")
    found = tasks.measured_task(form, stepwise(form.open("numpy")), TASK, 1)
    assert [entry.rung for entry in found] == list(TASK_RUNGS)
    assert all(entry.provider_s > 0 and entry.share > 0 for entry in found)


def test_what_does_not_run_in_steps_is_no_task() -> None:
    with pytest.raises(TypeError, match="does not run in steps"):
        stepwise(form_named("matmul-hash").open("numpy"))


def test_a_right_item_that_is_refused_is_not_measured() -> None:
    form = form_named("train-int8")
    workload, request = stepwise(form.open("numpy")), form.encode(TASK.text, TASK.cost_max, TASK.options, bytes(32))
    run = tasks.computed(workload, request, {1})
    tasks.delivered(run.root, run.digests, 1, run.kept[1])
    tasks.recomputed(workload, request, run.digests, 1, run.kept[1])
    false = (*run.digests[:2], bytes(32), *run.digests[3:])
    with pytest.raises(RuntimeError, match="delivery"):
        tasks.delivered(run.root, false, 1, run.kept[1])
    with pytest.raises(RuntimeError, match="segment 1"):
        tasks.recomputed(workload, request, false, 1, run.kept[1])


@pytest.mark.parametrize("signed", [signed_reveal(PACKAGE_FORMS[0], b"text"), signed_milestone(1, bytes(32), 5)])
def test_a_node_refuses_a_statement_with_another_signature(signed: bytes) -> None:
    checked(signed)
    with pytest.raises(RuntimeError, match="a signature that is none"):
        checked(signed[:-1] + bytes([signed[-1] ^ 1]))


def test_the_page_puts_sizes_side_by_side_and_marks_what_is_missed() -> None:
    rows = [
        row(share, bar, size, rung)
        for size in ("small", "large")
        for rung, share, bar in zip(UNIT_RUNGS, (0.0004, 0.012, 0.5, 0.2), (1, 1, 0.4, 1), strict=True)
    ]
    lines = page.page(rows).splitlines()
    assert lines[0] == "| matmul-hash, a unit | work | small | large | bar |"
    assert "| *2,000* | *2,000* |" in lines[2]
    assert "| 1/2,000 | 1/2,000 |" in lines[3]
    assert "| 0.012 | 0.012 |" in lines[4]
    assert "| 0.50 **missed** | 0.50 **missed** |" in lines[5]


def test_the_line_tells_what_a_checker_takes_from_small_to_large() -> None:
    rows = [row(2.0, 3.0), row(1.5, 3.0, "large"), replace(row(0.08, 0.1, "x", "item"), work="task")]
    assert page.line(rows, 1, 7) == (
        "ladder: a checker over the provider, small to large: matmul-hash unit 2.00 1.50; "
        "matmul-hash task 0.08; 2 of 3 bars hold; 7 s"
    )


@pytest.mark.parametrize(
    ("value", "shown"), [(2.678, "2.68"), (0.0861, "0.086"), (0.00812, "0.0081"), (0.000123, "1/8,000"), (0.0, "0")]
)
def test_a_share_has_two_figures_that_count(value: float, shown: str) -> None:
    assert page.share(value) == shown


@pytest.mark.parametrize(("share", "status"), [(1.5, 0), (1.6, 1)])
def test_a_missed_bar_fails_the_tool(
    share: float, status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = [row(share, 1.5, rung=rung) for rung in UNIT_RUNGS]
    monkeypatch.setattr(ladder, "measured", lambda _: iter(rows))
    monkeypatch.setattr(ladder, "OUT", tmp_path / "ladder.json")
    monkeypatch.setattr("sys.argv", ["ladder"])
    assert ladder.main() == status
    written = json.loads((tmp_path / "ladder.json").read_text())
    assert len(written["failures"]) == status * len(rows)
    assert written["rungs"][0]["share"] == pytest.approx(share)
    assert (tmp_path / "ladder.md").read_text().count("missed") == status * len(rows)
    assert len(written["claims"]) == 2


def priced(rows: list[Found]) -> list[claim_costs.ClaimCosts]:
    return list(claim_costs.costs_of(rows, {"matmul-hash": 1_000_000, "train-int8": 1_000_000}))


def test_a_claim_costs_what_the_documents_say() -> None:
    """See the tables of docs/claims.md: collateral by rate and items, and expected fees."""
    small, large = (row(share, 3.0, "s", rung) for share, rung in ((2.0, "check"), (1.0, "sample"))), [
        row(2.0, 3.0, "large", "check"), row(1.0, 3.0, "large", "sample"),
    ]  # fmt: skip
    single, batch = priced([*small, *large])
    assert (single.size, batch.size) == ("large", "40 requests, large each")
    assert (single.k_prices, batch.k_prices) == pytest.approx((37.2, 21.6))
    assert (single.fees, batch.fees) == pytest.approx((0.15, 0.15))
    assert (single.check, single.answer) == (2.0, 1.0)
    assert single.k_days == pytest.approx(37.2 * 2.0 / 86_400)
    assert single.all_k_days == pytest.approx(37.2 * (0.9 * single.close.undrawn + 0.1 * single.close.checked) / 86_400)


def test_a_task_of_many_segments_is_checked_cheaply() -> None:
    def of(segments: int) -> claim_costs.ClaimCosts:
        size = f"{segments} segments"
        rows = [Found("train-int8", "task", size, rung, 10.0, 10.0 / segments, 1.0) for rung in ("item", "sample")]
        return priced(rows)[0]

    assert [of(segments).k_prices for segments in (1, 2, 5, 13, 50)] == pytest.approx([21.6, 10.8, 9.04, 2.59, 2.59])
    assert [of(segments).fees for segments in (5, 12, 50)] == pytest.approx([0.5, 0.5, 0.12], abs=1e-3)
    assert of(50).check == pytest.approx(1.0)


def test_a_claim_closes_in_about_a_minute_if_no_item_is_drawn() -> None:
    quick, slow = claim_costs.close_times(0.1, 1.0), claim_costs.close_times(100.0, 1_000.0)
    assert 2 * 17 <= quick.undrawn <= 2 * (32 + claim_costs.FINAL_BLOCKS)
    assert quick.undrawn == slow.undrawn
    assert quick.undrawn < quick.checked < quick.latest < slow.latest
    assert slow.latest > 6 * 3 * 1_000


def test_the_table_has_a_row_for_each_claim() -> None:
    lines = claim_costs.table(priced([row(2.0, 3.0, rung="check"), row(1.0, 3.0, rung="sample")])).splitlines()
    assert len(lines) == 4
    assert lines[2].startswith("| matmul-hash, a unit: small | 2.00 | 1 | 15.0% | 37.2 |")
    assert {line.count("|") for line in lines} == {11}
