"""`ogpu session` and `ogpu chat` against a played node: opening, listing, closing, and each refusal with its code."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from echoing_session import SESSION, asking, customer_end, signature_of
from error_codes import ended_code, raises_code
from gpu_tasks.client.cli import main
from gpu_tasks.client.commands import chat, sessions
from gpu_tasks.client.commands.session_stream import send_last_voucher
from gpu_tasks.client.sessions.session_reads import KnownSession, SessionError, is_usable, session_of, sessions_here
from gpu_tasks.client.sessions.session_store import SessionFile, SessionLeg, session_file
from gpu_tasks.market.sessions.records import Leg, SessionRecord, SessionRules, SessionState
from gpu_tasks.sessions.transcript import Exchange
from gpu_tasks.workloads import model_forms
from wallet.rpc import NodeUnreachableError
from wallet.suri import keypair_from_suri
from wallet_runner import answer, chain

OPEN = ("session", "open", "ogpu-bytes", "--key", "//Ferdie", "--rate", "0.05")
CHAT = ("chat", "ogpu-bytes", "--key", "//Ferdie", "--rate", "0.05")


pytestmark = pytest.mark.usefixtures("stored_nowhere")


def ogpu(folder: Path, url: str, *words: str, typed: str | None = None) -> Result:
    options = ["--url", url, "--keyring", str(folder / "keys"), "--json"]
    return CliRunner().invoke(main, [*options, *words], input=typed)


def test_a_session_is_opened_listed_and_closed(tmp_path: Path) -> None:
    """The chain makes a block for each call alone, so the session waits for its draw."""

    async def waiting(_: Any, client: Any, session_id: bytes) -> KnownSession:
        return await session_of(client, session_id)

    with chain(tmp_path) as url, patch.object(sessions, "seated", waiting):
        dry = answer(ogpu(tmp_path, url, *OPEN, "--dry-run"))
        assert (dry["sent"], dry["refused"]) == (False, None)
        assert 0 < int(dry["for_tokens"]["grains"]) <= int(dry["costs_at_most"]["grains"])
        assert dry["costs_at_most"]["grains"] == str(20 * 5_000_000 + 3_600 * 80_000)
        opened = ogpu(tmp_path, url, *OPEN, "--deposit", "2", "--term", "100", "--yes")
        assert opened.exit_code == 0, opened.output
        (row,) = answer(ogpu(tmp_path, url, "session", "ps", "--key", "//Ferdie"))
        assert (row["state"], row["provider"], row["left"]["ogpu"]) == ("waiting", None, "2")
        assert 0 < int(row["for_tokens"]["grains"]) <= int(row["left"]["grains"])
        assert row["waits_for"] is not None
        assert row["session"] in opened.stdout
        closed = answer(ogpu(tmp_path, url, "session", "close", row["session"][:12], "--key", "//Ferdie", "--yes"))
        assert closed["success"]
        assert answer(ogpu(tmp_path, url, "session", "ps", "--key", "//Ferdie")) == []
        gone = ogpu(tmp_path, url, "session", "close", row["session"], "--key", "//Ferdie", "--yes")
        assert ended_code(gone) == "session_unknown"


def test_each_refusal_has_its_code(tmp_path: Path) -> None:
    plain = ("--workload", "matmul-hash", "--name", "plain", "--price-min", "0.1", "--price-max", "1", "--ramp", "9")
    with chain(tmp_path, beat_seconds=0.1) as url:
        create = ("offer", "create-service", *plain, "--commit-window", "60", "--max-tokens", "64", "--key", "//Ferdie")
        assert answer(ogpu(tmp_path, url, *create, "--yes"))["success"]
        cases: dict[tuple[str, ...], str] = {
            ("session", "open", "nothing", "--key", "//Ferdie", "--yes"): "model_unsold",
            ("session", "open", "ogpu-bytes", "--service", "7", "--key", "//Ferdie", "--yes"): "model_unsold",
            ("session", "open", "ogpu-bytes", "--key", "//Ferdie", "--yes"): "no_places",
            ("session", "open", "plain", "--key", "//Ferdie", "--yes"): "no_pace",
            (*OPEN, "--term", "3", "--yes"): "term_range",
            (*OPEN, "--term", "2d", "--yes"): "term_range",
            (*OPEN, "--term", "100", "--deposit", "1", "--yes"): "no_place",
            ("session", "close", "12345", "--key", "//Ferdie", "--yes"): "invalid_id",
            ("session", "close", "0x12345", "--key", "//Ferdie", "--yes"): "session_unknown",
            (*CHAT, "--session", "0x" + "1" * 64, "--yes"): "session_unknown",
            CHAT: "no_terminal",
            (*CHAT, "--yes", "--term", "100", "--deposit", "1"): "no_place",
        }
        for words, code in cases.items():
            assert ended_code(ogpu(tmp_path, url, *words, typed="why")) == code, words
        assert ended_code(ogpu(tmp_path, url, *CHAT, typed="\n")) == "no_question"
        assert ended_code(ogpu(tmp_path, url, *CHAT, typed="x" * 300_000)) == "question_too_long"


RULES = SessionRules(600, 100_000, 333_333, 250_000, 1_000)
LEG = Leg(bytes([7]) * 32, bytes([8]) * 32, since=12, first_period=0, collateral=1)
RECORD = SessionRecord(
    customer=bytes(32), signer=bytes([1]) * 32, customer_key=bytes(32), service=0, workload=bytes(32), model=bytes(32),
    rate=1, input_share=1, pace=1, rules=RULES, place_rate=1, exposure=1, deposit=1_000, record_deposit=1,
    opened_at=10, recorded_at=10, expires_at=110, state=SessionState.OPEN, legs=(LEG,),
)  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "blocks_left", "waits_for", "usable"),
    [
        ({}, 60, None, True),
        ({"state": SessionState.WAITING, "legs": ()}, 60, "block 12", True),
        ({"expires_at": 50}, 0, None, False),
        ({"state": SessionState.CLOSING, "legs": (replace(LEG, left_at=40),)}, 0, "block 640", False),
        ({"state": SessionState.CLOSING, "legs": (replace(LEG, left_at=40, claims=2),)}, 0, "2 claims", False),
        ({"state": SessionState.CLOSING, "legs": (replace(LEG, left_at=40, is_over=True),)}, 0, "block 50", False),
    ],
)
def test_a_session_tells_why_it_waits(
    changed: dict[str, Any], blocks_left: int, waits_for: str | None, usable: bool
) -> None:
    known = KnownSession(bytes(32), replace(RECORD, **changed), height=50)
    assert known.blocks_left == blocks_left
    assert (known.waits_for is None) if waits_for is None else (waits_for in str(known.waits_for))
    assert is_usable(known) == usable


@pytest.mark.parametrize(
    ("changed", "proven"),
    [({}, False), ({"claimed": 9, "claims": 1}, False), ({"claimed": 9}, True), ({"left_at": 40, "claimed": 9}, None)],
)
def test_a_row_tells_whether_the_spare_has_proven(
    tmp_path: Path, changed: dict[str, Any], *, proven: bool | None
) -> None:
    """A spare that serves now, or is out, does not stand by."""
    spare = replace(LEG, owner=bytes([6]) * 32, **changed)
    row = sessions._row(KnownSession(bytes(32), replace(RECORD, spare=spare), height=50), tmp_path)
    assert set(row) == set(sessions.COLUMNS)
    assert row["spare_proven"] is proven
    assert (row["spare"] is None) == (proven is None)


def test_the_files_of_sessions_are_found_by_their_names(tmp_path: Path) -> None:
    assert sessions_here(tmp_path / "none") == []
    SessionFile(tmp_path, SESSION).close()
    (tmp_path / "notes.db").touch()
    (tmp_path / ("z" * 64 + ".db")).touch()
    assert sessions_here(tmp_path) == [SESSION]


@pytest.mark.parametrize("spoil", ["none", "in use", "damaged", "no file"])
async def test_a_session_can_be_closed_whatever_its_file_and_its_provider_do(tmp_path: Path, spoil: str) -> None:
    """Its last voucher is sent if that is possible."""
    key, asked = keypair_from_suri("//Ferdie"), 0

    async def no_node() -> Any:
        nonlocal asked
        asked += 1
        raise NodeUnreachableError("no node", code="node_unreachable")

    form = next(form for form in model_forms.PACKAGE_FORMS if form.is_streamed)
    record = replace(RECORD, signer=key.account, workload=form.workload_id, model=form.model_id)
    found = KnownSession(SESSION, record, 50)
    if spoil != "no file":
        with SessionFile(tmp_path, SESSION) as store:
            voucher = customer_end().ask(asking(b"why"))
            store.begin_leg(SessionLeg(0, 0, bytes(32)))
            store.keep([Exchange(asking(b"why"))], voucher, signature_of(voucher))
    owner = SessionFile(tmp_path, SESSION) if spoil == "in use" else None
    if spoil == "damaged":
        session_file(tmp_path, SESSION).write_bytes(b"x" * 5_000)
    await send_last_voucher(cast(Any, SimpleNamespace(connect=no_node)), found, key, bytes(32), tmp_path)
    assert asked == (spoil == "none")
    if owner is not None:
        owner.close()


@pytest.mark.parametrize(
    ("argument", "piped", "asked"),
    [
        (None, None, None),
        ("why", None, "why"),
        (None, "why\nnot\n", "why\nnot"),
        ("Summarise:", "a text\n", "Summarise:\n\na text"),
        ("why", "", "why"),
        ("why", "\n", "why"),
    ],
)
def test_a_question_comes_from_the_command_line_and_from_a_pipe(
    argument: str | None, piped: str | None, asked: str | None
) -> None:
    assert chat._asked(argument, piped) == asked


@pytest.mark.parametrize("length", [chat.QUESTION_CHARACTERS_MAX, chat.QUESTION_CHARACTERS_MAX - 2])
def test_both_parts_of_a_question_share_its_limit(length: int) -> None:
    with raises_code(SessionError, "question_too_long"):
        chat._asked("x", "y" * length)


def test_the_ids_of_recent_sessions_complete(tmp_path: Path) -> None:
    folder = tmp_path / "sessions" / bytes(32).hex()
    for number in (1, 2):
        SessionFile(folder, bytes([number]) * 32).close()
    os.utime(session_file(folder, bytes([2]) * 32), (0, 0))
    words = f"ogpu --keyring {tmp_path} session close 0x"
    for line in (words, f"ogpu --keyring {tmp_path} chat ogpu-bytes --session 0x"):
        shown = ShellComplete(main, {}, "ogpu", "_OGPU_COMPLETE").get_completions(line.split()[1:-1], "0x")
        assert [item.value for item in shown] == ["0x" + "01" * 32]


DOCUMENT = Path(__file__).parents[4] / "docs" / "customers.md"


def test_the_fields_of_a_session_are_documented() -> None:
    """Programs read them with `--json`."""
    told = DOCUMENT.read_text(encoding="utf-8").partition("| field of a session |")[2].partition("\n\n")[0]
    fields = [name for row in told.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert set(fields) == {
        *sessions.COLUMNS,
        "rate_per_1000_tokens",
        "place_rate_per_block",
        "costs_at_most",
        "time_left",
    }
