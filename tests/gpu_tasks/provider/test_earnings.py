"""Earnings: written once for each payment, added up by device, service or day."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from durable.database import Database
from error_codes import raises_code
from gpu_tasks.provider.earnings import (
    AT_MS_MAX,
    NO_DEVICE,
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
from gpu_tasks.provider.journal.schema import JOURNAL_FILE, JournalError, open_journal

DAY_NS = 24 * 3600 * 10**9


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with open_journal(tmp_path / JOURNAL_FILE) as opened:
        yield opened


def fill(database: Database) -> None:
    clock = iter(range(0, 100 * DAY_NS, DAY_NS // 2))
    book = EarningsBook(database, lambda: next(clock))
    book.note("unit", b"a" * 32, 1, device=b"d" * 32, service="service 0", grains=5)
    book.note("unit", b"b" * 32, 1, device=b"e" * 32, service="service 0", grains=7)
    book.note("task", b"a" * 32, 1, device=b"d" * 32, service="train-int8", grains=100)
    book.note("unit", b"b" * 32, 1, device=b"e" * 32, service="service 0", grains=9)  # once more, after a crash
    book.note("unit", b"c" * 32, 1, device=b"e" * 32, service="service 0", grains=0)


def test_payments_are_added_up(tmp_path: Path) -> None:
    assert not payments(tmp_path)
    assert not losses(tmp_path)
    with open_journal(tmp_path / JOURNAL_FILE) as database:
        fill(database)
        found = payments(tmp_path)
    assert payments(tmp_path) == found
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


@pytest.mark.parametrize(
    "damage",
    [{"grains": "5"}, {"grains": 0}, {"tokens": -1}, {"tokens": "9"}, {"at_ms": AT_MS_MAX}, {"device": None}],
)
def test_a_line_that_is_no_payment_is_damage(database: Database, tmp_path: Path, damage: dict[str, object]) -> None:
    fill(database)
    [(line,), *_] = database.rows("SELECT line FROM earnings ORDER BY rowid")
    database.execute("UPDATE earnings SET line = ? WHERE rowid = 1", json.dumps(json.loads(line) | damage))
    with raises_code(JournalError, "journal_damaged"):
        payments(tmp_path)


def test_amounts_and_times_up_to_their_greatest_are_noted(database: Database) -> None:
    book = EarningsBook(database, lambda: (AT_MS_MAX - 1) * 10**6)
    book.note("unit", b"a" * 32, 1, device=b"", service="service 0", grains=2**128 - 1)
    (found,) = book.read()
    assert (found.at_ms, found.grains, found.device) == (AT_MS_MAX - 1, 2**128 - 1, NO_DEVICE)
    assert sums([found], By.DAY)


def test_what_a_thousand_tokens_brought_is_of_units_alone(database: Database) -> None:
    book = EarningsBook(database, lambda: 0)
    for number, (grains, tokens) in enumerate(((300, 2_000), (50, 0), (101, 1_000))):
        book.note("unit", b"u" * 32, number, device=b"d" * 32, service="service 0", grains=grains, tokens=tokens)
    (found,) = sums(book.read(), By.SERVICE)
    assert (found.payments, found.grains, found.tokens, found.per_thousand) == (3, 451, 3_000, 401 * 1_000 // 3_000)
    assert as_csv([found], By.SERVICE).splitlines()[1] == "service 0,3,451,3000,133,0,0"


SLASH = LostPart(DAY_NS // 10**6, "loss 0xaa 7", "0x" + b"d".hex() * 32, 40, "lied", 7, "0xaa", 5, DAY_NS // 10**6 - 1)


def test_losses_stand_beside_the_earnings(database: Database, tmp_path: Path) -> None:
    fill(database)
    book = LossBook(database)
    for part in (SLASH, replace(SLASH, name="loss 0xbb 9", grains=2, fault="missed", case=""), SLASH):
        book.note(part)
    lost = losses(tmp_path)
    assert lost == book.read()
    assert [part.grains for part in lost] == [40, 2]
    found = sums(payments(tmp_path), By.DEVICE, lost)
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
def test_a_line_that_is_no_loss_is_damage(database: Database, tmp_path: Path, damage: dict[str, object]) -> None:
    LossBook(database).note(SLASH)
    database.execute("UPDATE losses SET line = ?", json.dumps(asdict(SLASH) | damage))
    with raises_code(JournalError, "journal_damaged"):
        losses(tmp_path)
