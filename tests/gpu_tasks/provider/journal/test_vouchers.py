"""Vouchers of customers: the newest of each session and period, over restarts and kills."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.records import VoucherEntry
from gpu_tasks.provider.journal.vouchers import Vouchers
from killed_commits import Deeds, lives

SESSION, OTHER = b"s" * 32, b"o" * 32
SIGNATURE = b"g" * 64


def totals(tokens_out: int, requests: int = 1) -> Totals:
    return Totals(requests, 10, tokens_out, bytes([tokens_out % 256]) * 32)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "j")
    yield opened
    opened.close()


def test_the_newest_of_each_session_and_period_is_there_after_a_restart(journal: Journal) -> None:
    vouchers = Vouchers(journal)
    assert (vouchers.sessions(), vouchers.newest(SESSION), vouchers.periods(SESSION)) == ([], None, {})
    for session, period, tokens in ((SESSION, 1, 3), (OTHER, 0, 5), (SESSION, 0, 7), (SESSION, 1, 64)):
        assert vouchers.note(session, period, totals(tokens), SIGNATURE)
    reader = Journal(journal.path, is_reader=True)
    for each in (vouchers, Vouchers(reader)):
        assert each.sessions() == [SESSION, OTHER]
        assert each.newest(SESSION) == (1, VoucherEntry(totals(64), SIGNATURE))
        assert each.periods(SESSION) == {
            0: VoucherEntry(totals(7), SIGNATURE), 1: VoucherEntry(totals(64), SIGNATURE),
        }  # fmt: skip
        assert each.newest(OTHER) == (0, VoucherEntry(totals(5), SIGNATURE))
    reader.close()


@pytest.mark.parametrize("later", [totals(5), totals(4), totals(6, requests=0), Totals(1, 9, 100, bytes(32))])
def test_a_voucher_that_pays_no_more_replaces_nothing(journal: Journal, later: Totals) -> None:
    vouchers = Vouchers(journal)
    vouchers.note(SESSION, 0, totals(5), SIGNATURE)
    assert not vouchers.note(SESSION, 0, later, SIGNATURE)
    assert vouchers.newest(SESSION) == (0, VoucherEntry(totals(5), SIGNATURE))
    assert vouchers.note(SESSION, 1, later, SIGNATURE), "another period begins at nothing"


def test_settled_periods_are_forgotten_and_no_others(journal: Journal) -> None:
    vouchers = Vouchers(journal)
    for session in (SESSION, OTHER):
        for period in range(3):
            vouchers.note(session, period, totals(1), SIGNATURE)
    vouchers.forget(SESSION, until=1)
    assert (list(vouchers.periods(SESSION)), list(vouchers.periods(OTHER))) == ([2], [0, 1, 2])
    vouchers.forget(OTHER)
    assert vouchers.sessions() == [SESSION]
    vouchers.forget(OTHER)
    reader = Journal(journal.path, is_reader=True)
    assert list(Vouchers(reader).periods(SESSION)) == [2]
    reader.close()


def stream(folder: Path) -> Deeds:
    """Take vouchers of two periods, and forget the first one."""
    vouchers = Vouchers(Journal(folder / "j"))
    yield lambda: vouchers.note(SESSION, 0, totals(64), SIGNATURE)
    yield lambda: vouchers.note(SESSION, 0, totals(128), SIGNATURE)
    yield lambda: vouchers.note(SESSION, 1, totals(64), SIGNATURE)
    yield lambda: vouchers.forget(SESSION, until=0)


STATES: tuple[dict[int, int], ...] = ({}, {0: 64}, {0: 128}, {0: 128, 1: 64}, {1: 64})


@pytest.mark.nightly
def test_a_kill_between_any_two_writes_loses_no_voucher(tmp_path: Path) -> None:
    seen = set()
    for folder, ended in lives(stream, tmp_path):
        journal = Journal(folder / "j")
        found = {period: entry.totals.tokens_out for period, entry in Vouchers(journal).periods(SESSION).items()}
        assert found in STATES[ended : ended + 2]
        seen.add(STATES.index(found))
        assert Vouchers(journal).note(SESSION, 2, totals(1), SIGNATURE)
        journal.close()
    assert seen == set(range(len(STATES)))
