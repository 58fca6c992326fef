"""Blocks by an own key: those of another machine, and earlier ones of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from consensus.signstate import HeaderRecord, SigningRefusedError
from node.duty.keystore import KeyPair
from node.duty.signing_key import SigningKey
from node.duty.signstate_file import SignStateFile
from runtime.blocks.votes import skip_ballot

GENESIS = b"g" * 32
PAIR = KeyPair.from_seed(bytes([7]) * 32)
SINCE = 100
OWN = HeaderRecord(120, b"o" * 32)


def signing(folder: Path, *, has_sealed: bool, is_listening: bool = False) -> SigningKey:
    """Return a key whose newest header is `OWN`, or one without headers. A listening key has no file."""
    file = None if is_listening else SignStateFile.create(folder / "state", GENESIS, PAIR.public)
    key = SigningKey(PAIR, file, is_listening=is_listening)
    if has_sealed:
        key.sign(OWN, b"payload", 0)
    return key


@pytest.mark.parametrize(
    ("slot", "has_sealed", "is_foreign"),
    [
        (120, True, True),  # in the slot of the own one, another content
        (121, True, True),
        (119, True, False),  # older than the newest: the file has forgotten it
        (SINCE, False, True),
        (SINCE - 1, False, False),  # before this node began to run
    ],
)
def test_a_header_of_another_machine_stops_the_signing(
    slot: int, tmp_path: Path, *, has_sealed: bool, is_foreign: bool
) -> None:
    key = signing(tmp_path, has_sealed=has_sealed)
    key.notice_header(HeaderRecord(slot, b"x" * 32), SINCE)
    assert key.is_copied == is_foreign
    if is_foreign:
        with pytest.raises(SigningRefusedError):
            key.sign(HeaderRecord(slot + 1, b"y" * 32), b"payload", 0)


def test_the_own_header_is_no_alarm(tmp_path: Path) -> None:
    key = signing(tmp_path, has_sealed=True)
    key.notice_header(OWN, SINCE)
    assert not key.is_copied


@pytest.mark.parametrize(("slot", "is_foreign"), [(SINCE, True), (SINCE - 1, False)])
def test_a_key_that_listens_hears_headers_since_the_node_began(slot: int, tmp_path: Path, *, is_foreign: bool) -> None:
    key = signing(tmp_path, has_sealed=False, is_listening=True)
    key.notice_header(HeaderRecord(slot, b"x" * 32), SINCE)
    assert key.is_copied == is_foreign


def test_it_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    key = signing(tmp_path, has_sealed=True)
    for slot in range(200, 205):
        key.notice_header(HeaderRecord(slot, b"x" * 32), SINCE)
    assert [record.levelname for record in caplog.records] == ["CRITICAL"]


def test_a_key_that_listens_hears_votes_of_rounds_that_are_news(tmp_path: Path) -> None:
    key = signing(tmp_path, has_sealed=False, is_listening=True)
    key.notice(skip_ballot(1, 8))
    key.heard_since = (1, 7)
    for epoch, round_ in ((0, 9), (1, 6), (1, 7)):
        key.notice(skip_ballot(epoch, round_))
    assert not key.is_copied
    key.notice(skip_ballot(1, 8))
    assert key.is_copied
