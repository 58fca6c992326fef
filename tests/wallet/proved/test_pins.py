"""A folder is bound to its first chain."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from error_codes import raises_code
from wallet.errors import KeyFileError, WalletError
from wallet.private_file import write_new
from wallet.proved import pins
from wallet.proved.pins import PIN_FILE, ChainChangedError, Pin, check_genesis, hold_to

FOUND = Pin("0x" + "ab" * 32, "Development", "devnet", True, 1)


def test_first_use_is_written_down_and_the_same_chain_goes_on(tmp_path: Path) -> None:
    home = tmp_path / "keys"
    assert hold_to(home, FOUND)
    assert not hold_to(home, FOUND)
    assert json.loads((home / PIN_FILE).read_text()) == asdict(FOUND)


@pytest.mark.parametrize(
    "other",
    [
        replace(FOUND, genesis="0x" + "cd" * 32),
        replace(FOUND, chain="Mainnet"),
        replace(FOUND, parameters="mainnet"),
        replace(FOUND, is_development=False),
        replace(FOUND, spec_version=2),
    ],
)
def test_a_change_stops_with_a_sentence_that_names_both(tmp_path: Path, other: Pin) -> None:
    hold_to(tmp_path, FOUND)
    with pytest.raises(ChainChangedError) as caught:
        hold_to(tmp_path, other)
    assert str(FOUND) in str(caught.value)
    assert str(other) in str(caught.value)
    assert str(tmp_path / PIN_FILE) in str(caught.value)
    (tmp_path / PIN_FILE).unlink()
    assert hold_to(tmp_path, other)


def test_two_programs_that_begin_together_hold_to_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    def write_second(path: Path, data: bytes) -> None:
        if not path.exists():
            write_new(path, data.replace(b"abab", b"cdcd"))
        write_new(path, data)

    monkeypatch.setattr(pins, "write_new", write_second)
    with pytest.raises(ChainChangedError, match="cdcd"):
        hold_to(tmp_path, FOUND)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "7", '{"genesis": 1}', json.dumps({**asdict(FOUND), "spec_version": True}), "[" * 2000]
)
def test_a_damaged_file_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / PIN_FILE).touch(mode=0o600)
    (tmp_path / PIN_FILE).write_text(text)
    with pytest.raises(WalletError, match="does not say which chain this is"):
        hold_to(tmp_path, FOUND)


def test_a_file_of_others_is_refused(tmp_path: Path) -> None:
    hold_to(tmp_path, FOUND)
    (tmp_path / PIN_FILE).chmod(0o666)
    with raises_code(KeyFileError, "file_not_private"):
        hold_to(tmp_path, FOUND)


def test_a_genesis_that_was_asked_for() -> None:
    check_genesis(bytes(32), bytes(32))
    with pytest.raises(ChainChangedError, match="not 0x0101"):
        check_genesis(bytes(32), b"\1" * 32)
