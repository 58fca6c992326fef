"""A command that takes long says so, and one that does not says nothing."""

import asyncio
from pathlib import Path

import pytest

from cli import session as of_commands
from cli.output import Output
from cli.session import Doing, WalletSession
from wallet.keyring import Keyring


def session(folder: Path) -> WalletSession:
    return WalletSession("ws://slow", Keyring(folder), Output(as_json=False), None)


@pytest.mark.parametrize(("seconds", "told"), [(0.0, 0), (0.35, 1)])
def test_waits_are_told(
    seconds: float, told: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(of_commands, "WAIT_SECONDS", 0.1)

    async def body() -> None:
        await asyncio.sleep(seconds)

    session(tmp_path).run_connecting(body)
    said = capsys.readouterr().err
    assert said.count("not done after") >= told
    assert ("ws://slow " in said) is bool(told)


@pytest.mark.parametrize("what", ["this machine computes", None, lambda: "this machine computes", lambda: None])
def test_what_a_command_does_itself_is_not_blamed_on_a_node(
    what: Doing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With None nothing is said: the command shows how far it is."""
    monkeypatch.setattr(of_commands, "WAIT_SECONDS", 0.1)
    slow = session(tmp_path)

    async def body() -> None:
        with slow.doing("another thing"), slow.doing(what):
            await asyncio.sleep(0.35)

    slow.run_connecting(body)
    said = capsys.readouterr().err
    assert "ws://slow " not in said
    assert "another thing" not in said
    computes = what() if callable(what) else what
    assert ("not done after 0 s: this machine computes\n" in said) is (computes is not None)
    assert ("not done" in said) is (computes is not None)


def test_a_wait_for_the_node_is_told_again_after_a_command_did_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(of_commands, "WAIT_SECONDS", 0.1)
    slow = session(tmp_path)

    async def body() -> None:
        with slow.doing(None):
            pass
        await asyncio.sleep(0.35)

    slow.run_connecting(body)
    assert "ws://slow " in capsys.readouterr().err
