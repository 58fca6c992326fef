"""Devices' use of time: on disk by day, added up, shown by the command and beside the current activity."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from gpu_tasks.provider.cli import main
from gpu_tasks.provider.commands.utilisation import SILENT_MS, now_rows
from gpu_tasks.provider.earnings import EarningsBook, payments
from gpu_tasks.provider.execution.device_times import Activity, Present, Spent, TimedState, WhyIdle
from gpu_tasks.provider.journal.schema import JOURNAL_FILE, open_journal
from gpu_tasks.provider.utilisation import (
    DAYS_KEPT,
    FILE_BYTES_MAX,
    DeviceDay,
    PresentNote,
    UsedBy,
    UsedSum,
    UtilisationBook,
    device_days,
    present_notes,
    used_sums,
)

DAY_NS = 24 * 3600 * 10**9
DEVICE, OTHER = b"d" * 32, b"o" * 32
NAME, OTHER_NAME = f"0x{DEVICE.hex()}", f"0x{OTHER.hex()}"


def write(
    folder: Path,
    at_ns: int,
    *,
    units: int = 0,
    price: int = 0,
    device: bytes = DEVICE,
    tokens: int = 0,
    present: Present | None = None,
) -> None:
    """Write as a daemon that has just begun, and ends at once."""
    states: dict[TimedState, int] = {Activity.UNITS: units, WhyIdle.PRICE: price}
    spent = {device: Spent({state: value for state, value in states.items() if value}, tokens)}
    UtilisationBook(folder, lambda: at_ns).add(spent, {} if present is None else {device: present})


def test_a_day_goes_on_where_the_daemon_before_left_it(tmp_path: Path) -> None:
    write(tmp_path, 5, units=3, tokens=7)
    write(tmp_path, 9, units=4, price=1)
    write(tmp_path, 9, device=OTHER, price=2)
    write(tmp_path, DAY_NS + 9, price=6)
    assert list(device_days(tmp_path)) == [
        DeviceDay("1970-01-01", NAME, {"units": 7, "price": 1}, 7),
        DeviceDay("1970-01-01", OTHER_NAME, {"price": 2}, 0),
        DeviceDay("1970-01-02", NAME, {"price": 6}, 0),
    ]


def test_one_daemon_writes_what_came_since_and_begins_a_day_anew(tmp_path: Path) -> None:
    now = [DAY_NS - 1]
    book = UtilisationBook(tmp_path, lambda: now[0])
    for times in (1, 2, 3):
        book.add({DEVICE: Spent({Activity.UNITS: 2}, 1)}, {})
        assert [each.ms["units"] for each in device_days(tmp_path)] == [2 * times]
    now[0] += 1
    book.add({DEVICE: Spent({Activity.UNITS: 5})}, {})
    assert [(each.day, each.ms, each.tokens) for each in device_days(tmp_path)] == [
        ("1970-01-01", {"units": 6}, 3),
        ("1970-01-02", {"units": 5}, 0),
    ]


def test_days_that_are_too_long_ago_go(tmp_path: Path) -> None:
    for day in range(DAYS_KEPT + 3):
        write(tmp_path, day * DAY_NS, units=1)
    kept = [each.day for each in device_days(tmp_path)]
    assert len(kept) == DAYS_KEPT
    assert kept[0] == "1970-01-04"


def test_an_old_day_that_cannot_be_removed_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "1970-01-01.json").mkdir()
    for day in range(1, DAYS_KEPT + 2):
        write(tmp_path, day * DAY_NS, units=1)
    assert [each.day for each in device_days(tmp_path)][-1] == "1971-02-06"


def test_what_is_no_note_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, 5, units=3)
    (tmp_path / "1970-01-03.json").write_text('{"devices": {"0x1"')  # half written
    (tmp_path / "notes.json").write_text("{}")
    wrong = [5, {"ms": {"units": -1}, "tokens": 0}, {"ms": {"units": 1}, "tokens": "1"}, {"ms": {"units": True}}]
    for number, each in enumerate(wrong):
        (tmp_path / f"1970-01-1{number}.json").write_text(json.dumps({"d": each}))
    (tmp_path / "1970-01-05.json").write_text(" " * FILE_BYTES_MAX + "{}")
    assert [(each.day, each.device) for each in device_days(tmp_path)] == [("1970-01-01", NAME)]
    assert present_notes(tmp_path) == {}
    assert list(device_days(tmp_path / "none")) == []
    assert present_notes(tmp_path / "none") == {}


def test_a_disk_that_is_full_costs_the_note_and_no_more(tmp_path: Path, caplog: Any) -> None:
    (tmp_path / "file").write_text("")
    book = UtilisationBook(tmp_path / "file", lambda: 5)
    for _ in range(3):
        book.add({DEVICE: Spent({Activity.UNITS: 2})}, {})
    assert len(caplog.messages) == 1, "told once, not every few seconds"


def test_what_was_earned_stands_beside_the_time_of_the_same_days(tmp_path: Path) -> None:
    write(tmp_path / "u", 0, units=1_000, price=3_000, tokens=50)
    write(tmp_path / "u", 0, device=OTHER, price=4_000)
    clock = iter((0, 0, 0, DAY_NS))
    book = EarningsBook(open_journal(tmp_path / JOURNAL_FILE), lambda: next(clock))
    book.note("unit", b"1" * 32, 1, device=DEVICE, service="service 0", grains=8, tokens=50)
    book.note("checking", b"2" * 32, 1, device=b"", service="checking", grains=5)
    book.note("unit", b"3" * 32, 1, device=b"x" * 32, service="service 0", grains=9)  # of another machine
    book.note("unit", b"4" * 32, 1, device=DEVICE, service="service 0", grains=100)  # on a day that is not measured
    days, paid = list(device_days(tmp_path / "u")), payments(tmp_path)
    assert used_sums(days, paid, UsedBy.DEVICE) == [
        UsedSum(NAME, {"units": 1_000, "price": 3_000}, 50, 8),
        UsedSum(OTHER_NAME, {"price": 4_000}, 0, 0),
    ]
    (day,) = used_sums(days, paid, UsedBy.DAY)
    assert day == UsedSum("1970-01-01", {"units": 1_000, "price": 7_000}, 50, 22)
    assert (day.up_ms, day.computing_ms, day.tokens_per_second) == (8_000, 1_000, 50)
    assert day.grains_per_hour == 22 * 450
    assert (UsedSum("").tokens_per_second, UsedSum("").grains_per_hour) == (None, None)


def test_the_command_shows_shares_and_reasons_and_json_has_milliseconds(tmp_path: Path) -> None:
    at = Present(WhyIdle.PRICE, "it asks too much", 2)
    write(tmp_path / "utilisation", 0, units=3_600_000, price=10_800_000, tokens=7_200, present=at)
    with open_journal(tmp_path / JOURNAL_FILE) as database:
        EarningsBook(database, lambda: 0).note(
            "unit", b"1" * 32, 1, device=DEVICE, service="service 0", grains=8 * 10**9, tokens=7_200
        )

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(main, ["--base-path", str(tmp_path), *arguments])
        assert done.exit_code == 0, done.output
        return done.output

    (row,) = json.loads(run("--json", "utilisation"))
    assert row["device"] == NAME
    assert (row["up_ms"], row["computing_ms"], row["idle_ms"]) == (14_400_000, 3_600_000, 10_800_000)
    assert (row["computing_by"], row["idle_by"]) == ({"units": 3_600_000}, {"price": 10_800_000})
    assert (row["tokens"], row["tokens_per_second"]) == (7_200, 2)
    assert row["earned_per_hour"]["grains"] == str(2 * 10**9)
    shown = run("utilisation", "--by", "day")
    for text in ("1970-01-01", "4:00:00", "25.0 %", "75.0 %", "idle: price", "3:00:00", "1:00:00"):
        assert text in shown
    assert "no measurements" in CliRunner().invoke(main, ["--base-path", str(tmp_path / "x"), "utilisation"]).output


def test_what_a_device_is_at_is_told_while_its_daemon_writes(tmp_path: Path) -> None:
    at_ns = 50_000 * 10**6
    write(tmp_path, at_ns, price=1, present=Present(WhyIdle.PRICE, "it asks too much", 20_000))
    notes = present_notes(tmp_path)
    assert notes == {NAME: PresentNote("price", "it asks too much", 30_000, 50_000)}
    (now,) = now_rows(notes, 50_000 + SILENT_MS)
    assert (now["state"], now["why"]) == ("idle: price", "it asks too much")
    assert now["since"] == "1970-01-01 00:00:30 UTC"
    (then,) = now_rows(notes, 50_001 + SILENT_MS)
    assert (then["state"], then["since"]) == ("no daemon", "1970-01-01 00:00:50 UTC")
    (busy,) = now_rows({NAME: PresentNote("units", "", 30_000, 50_000)}, 50_000)
    assert (busy["state"], busy["why"]) == ("units", None)
