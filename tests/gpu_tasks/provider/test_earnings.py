"""Earnings: written once for each payment, added up by device, service or day."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from gpu_tasks.provider.earnings import (
    LOSSES_FILE,
    By,
    EarnedSum,
    EarningsBook,
    LossBook,
    LostPart,
    as_csv,
    losses,
    losses_as_csv,
    payments,
    sums,
)

DAY_NS = 24 * 3600 * 10**9


def a_book(path: Path) -> EarningsBook:
    clock = iter(range(0, 100 * DAY_NS, DAY_NS // 2))
    return EarningsBook(path, lambda: next(clock))


def fill(path: Path) -> None:
    book = a_book(path)
    book.note("unit", b"a" * 32, 1, device=b"d" * 32, service="service 0", grains=5)
    book.note("unit", b"b" * 32, 1, device=b"e" * 32, service="service 0", grains=7)
    book.note("task", b"a" * 32, 1, device=b"d" * 32, service="train-int8", grains=100)
    book.note("unit", b"b" * 32, 1, device=b"e" * 32, service="service 0", grains=7)  # once more, after a crash
    book.note("unit", b"c" * 32, 1, device=b"e" * 32, service="service 0", grains=0)


def test_payments_are_added_up(tmp_path: Path) -> None:
    path = tmp_path / "earnings.jsonl"
    fill(path)
    found = list(payments(path))
    assert sum(each.grains for each in found) == 112
    assert sums(found, By.SERVICE) == [EarnedSum("service 0", 2, 12), EarnedSum("train-int8", 1, 100)]
    assert sums(found, By.DEVICE) == [
        EarnedSum("0x" + b"d".hex() * 32, 2, 105),
        EarnedSum("0x" + b"e".hex() * 32, 1, 7),
    ]
    assert sums(found, By.DAY) == [EarnedSum("1970-01-01", 2, 12), EarnedSum("1970-01-02", 1, 100)]
    assert as_csv(sums(found, By.SERVICE), By.SERVICE) == (
        "service,payments,grains,tokens,grains_per_thousand,losses,lost_grains\nservice 0,2,12,0,,0,0\n"
        "train-int8,1,100,0,,0,0\n"
    )


def test_lines_that_are_no_payments_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "earnings.jsonl"
    assert list(payments(path)) == []
    fill(path)
    whole = path.read_text()
    path.write_text('{"at_ms": 1}\n[]\nx\n' + whole + whole[:40])
    assert len(list(payments(path))) == 3
    path.write_text(whole.replace('"grains": 5', '"grains": "5"').replace('"at_ms": 0', '"at_ms": 99999999999999999'))
    assert len(list(payments(path))) == 2


@pytest.mark.parametrize(("at_ms", "count"), [(2**45 - 1, 1), (2**45, 0)])
def test_a_time_that_no_calendar_has_is_left_out(tmp_path: Path, at_ms: int, count: int) -> None:
    (tmp_path / "e").write_text(json.dumps({"at_ms": at_ms, "name": "a", "device": "d", "service": "s", "grains": 7}))
    assert len(sums(payments(tmp_path / "e"), By.DAY)) == count


def test_what_a_thousand_tokens_brought_is_of_units_alone(tmp_path: Path) -> None:
    book = EarningsBook(tmp_path / "e", lambda: 0)
    for number, (grains, tokens) in enumerate(((300, 2_000), (50, 0), (101, 1_000))):
        book.note("unit", b"u" * 32, number, device=b"d" * 32, service="service 0", grains=grains, tokens=tokens)
    (found,) = sums(payments(tmp_path / "e"), By.SERVICE)
    assert (found.payments, found.grains, found.tokens, found.per_thousand) == (3, 451, 3_000, 401 * 1_000 // 3_000)
    assert as_csv([found], By.SERVICE).splitlines()[1] == "service 0,3,451,3000,133,0,0"


def test_a_line_of_an_older_release_has_no_tokens_and_a_false_one_is_left_out(tmp_path: Path) -> None:
    line = {"at_ms": 1, "name": "unit 0x1 1", "device": "d", "service": "s", "grains": 7}
    wrong = [{**line, "name": "a", "tokens": -1}, {**line, "name": "b", "tokens": "9"}]
    (tmp_path / "e").write_text("".join(json.dumps(each) + "\n" for each in (line, *wrong)))
    assert [(each.grains, each.tokens) for each in payments(tmp_path / "e")] == [(7, 0)]


SLASH = LostPart(DAY_NS // 10**6, "loss 0xaa 7", "0x" + b"d".hex() * 32, 40, "lied", 7, "0xaa", 5, DAY_NS // 10**6 - 1)


def test_losses_stand_beside_the_earnings(tmp_path: Path) -> None:
    fill(tmp_path / "earnings.jsonl")
    path = tmp_path / LOSSES_FILE
    book = LossBook(path)
    for part in (SLASH, replace(SLASH, name="loss 0xbb 9", grains=2, fault="missed", case=""), SLASH):
        book.note(part)
    assert path.stat().st_mode & 0o777 == 0o600
    lost = list(losses(path))
    assert [part.grains for part in lost] == [40, 2]
    found = sums(payments(tmp_path / "earnings.jsonl"), By.DEVICE, lost)
    assert [(each.grains, each.losses, each.lost) for each in found] == [(105, 2, 42), (7, 0, 0)]
    assert [(each.name, each.lost) for each in sums([], By.DAY, lost)] == [("1970-01-02", 42)]
    assert as_csv(sums([], By.SERVICE, lost), By.SERVICE).splitlines()[1] == "lost bond,0,0,0,,2,42"
    assert losses_as_csv(lost).splitlines()[1].split(",") == [
        "1970-01-02 00:00 UTC",
        SLASH.device,
        "lied",
        "40",
        "7",
        "0xaa",
        "5",
        "1970-01-01 23:59 UTC",
    ]


@pytest.mark.parametrize(
    "damage",
    [{"grains": "5"}, {"grains": 0}, {"grains": True}, {"block": -1}, {"until_ms": 1 << 60}, {"case": 1}],
)
def test_lines_that_are_no_losses_are_left_out(tmp_path: Path, damage: dict[str, object]) -> None:
    path = tmp_path / LOSSES_FILE
    whole = json.dumps(asdict(SLASH))
    path.write_text("x\n" + json.dumps(asdict(SLASH) | damage) + "\n" + whole + "\n" + whole[:50])
    assert list(losses(path)) == [SLASH]
