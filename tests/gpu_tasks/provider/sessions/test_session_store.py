"""The provider's file of sessions: vouchers with their exchanges, periods, damage, and kills between two commits."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echoing_session import AMOUNT_MAX, SESSION, TERMS, EchoForm, Pair, is_signed
from error_codes import raises_code
from gpu_tasks.market.sessions.vouchers import Voucher
from gpu_tasks.provider.journal.schema import JOURNAL_FILE, JournalError, open_journal
from gpu_tasks.provider.sessions.session_store import KeptPeriod, SessionNote, SessionStore
from gpu_tasks.sessions.messages import UNPAID_TOKENS_MAX
from gpu_tasks.sessions.provider_end import KeepVoucher, ProviderEnd
from killed_commits import lives

NOTE = SessionNote(SESSION, bytes([7]) * 32, 4, 2**100, 500_000, 30_000, 12)
OTHER = bytes([9]) * 32


class KeepingPair(Pair):
    """Both ends of a session whose vouchers a store keeps."""

    def __init__(self, store: SessionStore) -> None:
        """Enter the session."""
        super().__init__()
        self.store = store

    def save(self) -> None:
        """Write the newest voucher."""
        assert self.provider.transcript is not None
        self.store.keep(self.provider.transcript, self.kept[-1])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    """Yield a new store."""
    with open_journal(tmp_path / JOURNAL_FILE, is_sole=True) as database:
        yield SessionStore(database)


def _resumed(store: SessionStore, kept: KeptPeriod) -> ProviderEnd:
    end = ProviderEnd(TERMS, kept.voucher.period, EchoForm(), is_signed, AMOUNT_MAX)
    transcript = store.transcript(TERMS.genesis, kept, EchoForm())
    end.resume(transcript, KeepVoucher(kept.voucher, kept.signature))
    return end


def test_a_conversation_comes_back_as_far_as_it_is_paid(tmp_path: Path) -> None:
    """Requests, tokens, secret and voucher are those of the process before."""
    database = open_journal(tmp_path / JOURNAL_FILE, is_sole=True)
    store = SessionStore(database)
    pair = KeepingPair(store)
    for answer in (b"first", bytes(range(90)), b"third"):
        pair.ask(answer)
        pair.save()
        while pair.open_request is not None:
            pair.step(7)
            pair.save()
    database.close()
    database = open_journal(tmp_path / JOURNAL_FILE, is_sole=True)
    store = SessionStore(database)
    [kept] = store.periods(SESSION)
    assert (kept.voucher, kept.signature) == (pair.kept[-1].voucher, pair.kept[-1].signature)
    end = _resumed(store, kept)
    assert end.transcript is not None
    assert pair.provider.transcript is not None
    assert end.transcript.exchanges == pair.provider.transcript.exchanges
    assert end.is_settled
    database.close()


@settings(max_examples=15)
@given(sizes=st.lists(st.integers(1, 120), min_size=1, max_size=5), steps=st.integers(1, 40))
def test_each_voucher_of_any_conversation_has_its_exchanges(
    sizes: list[int], steps: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """An end from the disk has the paid part of the transcript."""
    database = open_journal(tmp_path_factory.mktemp("store") / JOURNAL_FILE, is_sole=True)
    store = SessionStore(database)
    pair = KeepingPair(store)
    for size in sizes:
        pair.ask(bytes(range(size)))
        pair.save()
        while pair.open_request is not None:
            pair.step(steps)
            pair.save()
            kept = store.period(SESSION, 0)
            assert kept is not None
            end = _resumed(store, kept)
            assert end.transcript is not None
            assert end.transcript.totals() == pair.kept[-1].voucher.totals
    database.close()


def test_a_closed_period_takes_no_voucher(store: SessionStore) -> None:
    """Its claim may be on its way."""
    pair = KeepingPair(store)
    pair.ask(b"question")
    pair.save()
    store.close_period(SESSION, 0)
    pair.step(3)
    with pytest.raises(AssertionError):
        pair.save()
    [kept] = store.periods(SESSION)
    assert kept.is_closed
    assert kept.voucher.totals.tokens_out == 0


def test_sessions_are_noted_once_and_forgotten_with_their_periods(store: SessionStore) -> None:
    """Another session stays."""
    assert store.note(NOTE)
    assert not store.note(NOTE)
    assert not store.note(replace(NOTE, since=11))
    assert store.note(replace(NOTE, session=OTHER))
    pair = KeepingPair(store)
    pair.ask(b"question")
    pair.save()
    store.forget_session(SESSION)
    assert store.noted() == [replace(NOTE, session=OTHER)]
    assert store.periods(SESSION) == []


def test_a_forgotten_period_leaves_the_others(store: SessionStore) -> None:
    """Its exchanges go with it."""
    pair = KeepingPair(store)
    pair.ask(b"question")
    pair.save()
    other = KeepVoucher(Voucher(SESSION, 1, pair.kept[-1].voucher.totals), bytes(65))
    assert pair.provider.transcript is not None
    store.keep(pair.provider.transcript, other)
    store.forget_period(SESSION, 0)
    assert [kept.voucher.period for kept in store.periods(SESSION)] == [1]
    assert store._database.rows("SELECT period FROM exchanges") == [(1,)]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE exchanges SET tokens = x'01000000'",
        "UPDATE exchanges SET request = x'0541'",
        "UPDATE periods SET secret = zeroblob(32)",
        "DELETE FROM exchanges",
        "UPDATE periods SET totals = x'00'",
    ],
)
def test_damaged_exchanges_are_an_error(tmp_path: Path, damage: str) -> None:
    """A checker would find the claim wrong."""
    path = tmp_path / JOURNAL_FILE
    database = open_journal(path, is_sole=True)
    store = SessionStore(database)
    pair = KeepingPair(store)
    pair.ask(b"question")
    pair.step(3)
    pair.finish()
    pair.save()
    database.execute(damage)
    with raises_code(JournalError, "journal_damaged"):
        store.transcript(TERMS.genesis, store.periods(SESSION)[0], EchoForm())
    database.close()


def test_a_command_reads_beside_the_daemon(store: SessionStore, tmp_path: Path) -> None:
    """It changes nothing."""
    store.note(NOTE)
    with open_journal(tmp_path / JOURNAL_FILE, is_reader=True) as database:
        assert SessionStore(database).noted() == [NOTE]


ANSWERS = (bytes(range(70)), b"short", bytes(range(40)))


def _script() -> Iterator[tuple[Pair, int]]:
    """Yield the ends at each voucher, with the tokens that were sent before it."""
    pair, sent = Pair(), 0
    for answer in ANSWERS:
        pair.ask(answer)
        yield pair, sent
        vouchers = len(pair.kept)
        while pair.open_request is not None:
            pair.step(5)
            sent += min(5, len(answer))
            if len(pair.kept) > vouchers:
                vouchers = len(pair.kept)
                yield pair, sent


def conversation(folder: Path) -> Iterator[Callable[[], object]]:
    """Yield the commits of a conversation at its provider, for a process that is killed."""
    database = open_journal(folder / JOURNAL_FILE, is_sole=True)
    store = SessionStore(database)
    yield lambda: store.note(NOTE)
    for pair, _ in _script():
        assert pair.provider.transcript is not None
        transcript, kept = pair.provider.transcript, pair.kept[-1]
        yield partial(store.keep, transcript, kept)
    yield lambda: store.close_period(SESSION, 0)
    database.close()


def test_a_kill_between_any_two_commits_loses_no_voucher(tmp_path: Path) -> None:
    """The disk has the newest voucher that others could have seen, and all that it pays for."""
    vouchers = [(pair.kept[-1].voucher, sent) for pair, sent in _script()]
    for folder, told in lives(conversation, tmp_path):
        kept_count = max(0, told - 1)
        database = open_journal(folder / JOURNAL_FILE, is_sole=True)
        store = SessionStore(database)
        if told:
            assert store.noted() == [NOTE]
        found = store.periods(SESSION)
        if not found:
            assert not kept_count
        for kept in found:
            place = [voucher for voucher, _ in vouchers].index(kept.voucher)
            assert place >= min(kept_count, len(vouchers)) - 1
            assert _resumed(store, kept).transcript is not None
            # Tokens follow a voucher once it is on the disk, so few are lost.
            next_sent = vouchers[min(place + 1, len(vouchers) - 1)][1]
            assert next_sent - kept.voucher.totals.tokens_out <= UNPAID_TOKENS_MAX
        database.close()
