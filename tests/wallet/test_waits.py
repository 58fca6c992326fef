"""A command that takes long says so, and one that does not says nothing."""

import asyncio
from pathlib import Path

import pytest

from wallet import session as of_commands
from wallet.keyring import Keyring
from wallet.output import Output
from wallet.session import WalletSession


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
    assert ("ws://slow is slow to answer" in said) is bool(told)
