from functools import partial
from pathlib import Path

import pytest

from error_codes import raises_code
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.client.vouchers import NotedVoucher, Vouchers
from killed_commits import Deeds, lives
from wallet.outbox import OutboxFile, RecordError

SESSION, OTHER = b"s" * 32, b"o" * 32


def voucher(period: int, tokens_out: int, session: bytes = SESSION) -> NotedVoucher:
    return NotedVoucher(session, period, Totals(1, 7, tokens_out, bytes([tokens_out]) * 32), bytes([tokens_out]) * 64)


def test_the_newest_of_each_session_and_period_is_there_for_the_next_program(tmp_path: Path) -> None:
    with OutboxFile(tmp_path) as outbox:
        assert (Vouchers(outbox).sessions(), Vouchers(outbox).newest(SESSION)) == ([], None)
        for noted in (voucher(0, 1), voucher(0, 64), voucher(0, 64), voucher(1, 5), voucher(0, 3, OTHER)):
            Vouchers(outbox).note(noted)
    with OutboxFile(tmp_path) as outbox:
        vouchers = Vouchers(outbox)
        assert vouchers.sessions() == [OTHER, SESSION]
        assert vouchers.newest(SESSION) == vouchers.newest(SESSION, 1) == voucher(1, 5)
        assert vouchers.newest(SESSION, 0) == voucher(0, 64)
        assert (vouchers.newest(SESSION, 2), vouchers.newest(OTHER)) == (None, voucher(0, 3, OTHER))
        vouchers.forget(SESSION)
        assert (vouchers.sessions(), vouchers.newest(SESSION)) == ([OTHER], None)


@pytest.mark.parametrize("outdated", [voucher(1, 63), voucher(0, 200)])
def test_a_voucher_that_promises_less_is_refused(tmp_path: Path, outdated: NotedVoucher) -> None:
    with OutboxFile(tmp_path) as outbox, OutboxFile(tmp_path) as of_another_program:
        Vouchers(of_another_program).note(voucher(1, 64))
        with raises_code(RecordError, "voucher_outdated"):
            Vouchers(outbox).note(outdated)
        assert Vouchers(outbox).newest(SESSION) == voucher(1, 64)


def signed(folder: Path) -> Deeds:
    """Note the vouchers of two periods."""
    vouchers = Vouchers(OutboxFile(folder))
    for noted in (voucher(0, 1), voucher(0, 2), voucher(1, 1)):
        yield partial(vouchers.note, noted)


def test_after_a_kill_the_newest_voucher_is_the_sent_one_or_the_next(tmp_path: Path) -> None:
    states = (None, voucher(0, 1), voucher(0, 2), voucher(1, 1))
    seen = set()
    for folder, sent in lives(signed, tmp_path):
        with OutboxFile(folder) as outbox:
            found = Vouchers(outbox).newest(SESSION)
        assert found in states[sent : sent + 2]
        seen.add(sent)
    assert seen == {0, 1, 2, 3}
