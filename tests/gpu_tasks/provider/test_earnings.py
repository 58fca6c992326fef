"""What was earned: written once for each payment, added up by device, service or day."""

import json
from pathlib import Path

from gpu_tasks.provider.earnings import By, EarnedSum, EarningsBook, as_csv, payments, sums

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
        "service,payments,grains,tokens,grains_per_thousand\nservice 0,2,12,0,\ntrain-int8,1,100,0,\n"
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


def test_what_a_thousand_tokens_brought_is_of_units_alone(tmp_path: Path) -> None:
    book = EarningsBook(tmp_path / "e", lambda: 0)
    for number, (grains, tokens) in enumerate(((300, 2_000), (50, 0), (101, 1_000))):
        book.note("unit", b"u" * 32, number, device=b"d" * 32, service="service 0", grains=grains, tokens=tokens)
    (found,) = sums(payments(tmp_path / "e"), By.SERVICE)
    assert (found.payments, found.grains, found.tokens, found.per_thousand) == (3, 451, 3_000, 401 * 1_000 // 3_000)
    assert as_csv([found], By.SERVICE).splitlines()[1] == "service 0,3,451,3000,133"


def test_a_line_of_an_older_release_has_no_tokens_and_a_false_one_is_left_out(tmp_path: Path) -> None:
    line = {"at_ms": 1, "name": "unit 0x1 1", "device": "d", "service": "s", "grains": 7}
    wrong = [{**line, "name": "a", "tokens": -1}, {**line, "name": "b", "tokens": "9"}]
    (tmp_path / "e").write_text("".join(json.dumps(each) + "\n" for each in (line, *wrong)))
    assert [(each.grains, each.tokens) for each in payments(tmp_path / "e")] == [(7, 0)]
