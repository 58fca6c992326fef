"""A session on the disk: the state after a kill, and files that cannot be used."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from echoing_provider import EchoingProvider, answered, client_of
from echoing_session import SESSION, asking, customer_end, signature_of
from error_codes import raises_code
from gpu_tasks.client.sessions.session_store import SessionFile, SessionFileError, SessionLeg, session_file
from gpu_tasks.sessions.transcript import Exchange
from killed_commits import lives

FIRST, SECOND = bytes(range(40)), bytes(range(20))
DISK = "provider"


def deeds(folder: Path) -> Iterator[Callable[[], object]]:
    """Ask two questions of a provider with a disk of its own."""
    loop = asyncio.new_event_loop()
    with SessionFile(folder, SESSION) as store:
        client = client_of(store, EchoingProvider(disk=folder / DISK))
        for question in (FIRST, SECOND):
            yield lambda question=question: loop.run_until_complete(answered(client, asking(question)))  # type: ignore[misc]
        loop.run_until_complete(client.close())
    loop.close()


def test_a_killed_customer_loses_no_voucher_and_pays_nothing_twice(tmp_path: Path) -> None:
    """Killed before each statement, it goes on from its disk, and so does the provider."""
    asked = [FIRST, SECOND]

    async def go_on(folder: Path) -> tuple[list[bytes], EchoingProvider]:
        provider = EchoingProvider(disk=folder / DISK)
        kept = list(provider.kept)
        with SessionFile(folder, SESSION) as store:
            assert not kept or [kept[-1].voucher.session] == [SESSION]
            client = client_of(store, provider)
            if store.turns and not store.turns[-1].is_over:
                async for _ in client.go_on():
                    pass
            for question in asked[len(store.turns) :]:
                await answered(client, asking(question))
            await asyncio.sleep(0.01)
            answers = [bytes(turn.tokens) for turn in store.turns]
            assert client.spent == client.terms.amount(provider.kept[-1].voucher.totals)
            await client.close()
        return answers, provider

    for folder, _ in lives(deeds, tmp_path):
        answers, provider = asyncio.run(go_on(folder))
        assert answers == asked
        # A first entry with another secret, or vouchers that this disk lacks, would have been refused.
        assert provider.entries <= 1
        totals = provider.kept[-1].voucher.totals
        assert totals.tokens_out <= len(FIRST) + len(SECOND)
        assert totals.requests <= 3


def test_one_process_has_a_session_and_others_read_it(tmp_path: Path) -> None:
    with (
        raises_code(SessionFileError, "session_in_use"),
        SessionFile(tmp_path, SESSION),
        SessionFile(tmp_path, SESSION),
    ):
        pass
    with SessionFile(tmp_path, SESSION) as store:
        store.begin_turn("why", b"\1a")
        with SessionFile(tmp_path, SESSION, is_reader=True) as reader:
            assert [turn.question for turn in reader.turns] == ["why"]
    with pytest.raises(FileNotFoundError):
        SessionFile(tmp_path, bytes(32), is_reader=True)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = session_file(tmp_path, SESSION)
    path.write_bytes(b"x" * 5_000)
    path.chmod(0o600)
    with raises_code(SessionFileError, "session_damaged"):
        SessionFile(tmp_path, SESSION)


def test_a_changed_row_is_damage(tmp_path: Path) -> None:
    """SQLite itself does not find it."""
    with SessionFile(tmp_path, SESSION) as store:
        store.begin_turn("a question", b"request of a turn")
    path = session_file(tmp_path, SESSION)
    data = path.read_bytes()
    assert b"request of a turn" in data
    path.write_bytes(data.replace(b"request of a turn", b"request of a tuRn"))
    with raises_code(SessionFileError, "session_damaged"):
        SessionFile(tmp_path, SESSION)


def test_legs_periods_and_turns_come_back(tmp_path: Path) -> None:
    """The exchanges are those of the newest period, changed as after a break."""
    end = customer_end()
    end.ask(asking(FIRST))
    first = end.transcript.totals()
    voucher = customer_end().ask(asking(FIRST))
    with SessionFile(tmp_path, SESSION) as store:
        assert (store.leg(), store.newest_period(0)) == (None, None)
        store.begin_leg(SessionLeg(0, 0, bytes(32)))
        store.begin_turn("a", asking(FIRST)).tokens[:] = [1, 2**32 - 1]
        store.keep([Exchange(b"a", [1, 2]), Exchange(b"b", [])], voucher, signature_of(voucher))
        store.keep([Exchange(b"a", [1])], voucher, signature_of(voucher))
    with SessionFile(tmp_path, SESSION) as store:
        assert store.exchanges() == [Exchange(b"a", [1], is_over=True)]
        assert store.turns[0].tokens == [1, 2**32 - 1]
        assert store.vouchers() == [(voucher, signature_of(voucher))]
        assert voucher.totals == first
        store.keep([Exchange(b"a", [1]), Exchange(b"c", [3])], replace(voucher, period=1), signature_of(voucher))
        assert store.exchanges() == [Exchange(b"a", [1], is_over=True), Exchange(b"c", [3], is_over=True)]
        assert store.newest_period(0) == 1
        store.begin_leg(SessionLeg(1, 1, bytes([1]) * 32))
        assert (store.exchanges(), store.newest_period(1)) == ([], None)
        store.keep_fact("system", "Be brief.")
    with SessionFile(tmp_path, SESSION) as store:
        assert store.leg() == SessionLeg(1, 1, bytes([1]) * 32)
        assert (store.fact("system"), store.fact("other")) == ("Be brief.", None)
