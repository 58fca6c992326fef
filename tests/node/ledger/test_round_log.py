"""Certificates of unsettled rounds survive a restart with any damage to the end of the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from consensus.certificates import Certificate
from node.ledger import ledger
from node.ledger.ledger import LENGTH, RoundLog
from runtime.blocks.votes import Ballot, BallotKind
from synced_renames import watched_renames


def certificate(round_: int, kind: BallotKind = BallotKind.NOTARISE, epoch: int = 0) -> Certificate:
    return Certificate(1, Ballot(kind, epoch, round_, round_, b"b" * 32), b"\1", (b"s" * 64,))


def test_they_come_back_in_order_and_once(tmp_path: Path) -> None:
    log = RoundLog(tmp_path / "rounds")
    skip, above = certificate(2, BallotKind.SKIP), [certificate(4), certificate(1, epoch=1)]
    for added in (certificate(3), skip, certificate(3), *above):
        log.add(added)
    again = RoundLog(tmp_path / "rounds")
    assert again.certificates() == [skip, certificate(3), *above]
    again.forget_to(0, 3)
    assert RoundLog(tmp_path / "rounds").certificates() == above


def test_a_cut_or_damaged_end_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "rounds"
    log = RoundLog(path)
    log.add(certificate(1))
    whole = path.stat().st_size
    log.add(certificate(2))
    data = path.read_bytes()
    for size in range(whole, len(data)):
        path.write_bytes(data[:size])
        assert RoundLog(path).certificates() == [certificate(1)]
    path.write_bytes(data[:whole] + b"\xff" * 40)
    assert RoundLog(path).certificates() == [certificate(1)]
    path.write_bytes(b"")
    assert RoundLog(path).certificates() == []


def test_what_comes_after_a_torn_end_is_kept_too(tmp_path: Path) -> None:
    path = tmp_path / "rounds"
    RoundLog(path).add(certificate(1))
    with path.open("ab") as file:
        file.write(b"\x80\0\0\0 half a certificate")
    RoundLog(path).add(certificate(2))
    assert RoundLog(path).certificates() == [certificate(1), certificate(2)]


def test_a_round_has_a_certificate_of_each_kind(tmp_path: Path) -> None:
    both = [certificate(1, BallotKind.NOTARISE), certificate(1, BallotKind.SKIP)]
    log = RoundLog(tmp_path / "rounds")
    for added in both:
        log.add(added)
    assert log.certificates() == RoundLog(tmp_path / "rounds").certificates() == both


def test_a_certificate_is_on_the_disk_when_it_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    path, sizes = tmp_path / "rounds", []
    log = RoundLog(path)
    for round_ in (1, 2):
        log.add(certificate(round_))
        sizes.append(path.stat().st_size)
    assert synced == sizes


def test_only_an_empty_log_is_written_without_waiting_for_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "rounds"
    log = RoundLog(path)
    for round_ in (1, 2):
        log.add(certificate(round_))
    with watched_renames() as renames:
        log.forget_to(0, 1)
        assert (renames.done, renames.unsynced) == ([path], [])
        log.forget_to(0, 2)
        assert renames.done == [path, path]
        assert renames.unsynced_folders == [tmp_path]


def test_a_whole_file_is_not_written_again_and_a_missing_one_not_made(tmp_path: Path) -> None:
    path = tmp_path / "rounds"
    with watched_renames() as renames:
        log = RoundLog(path)
        assert not path.exists()
        log.add(certificate(1))
        assert RoundLog(path).certificates() == [certificate(1)]
    assert renames.done == []


def test_what_follows_a_damaged_certificate_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "rounds"
    RoundLog(path).add(certificate(1))
    path.write_bytes(LENGTH.pack(8) + b"\xff" * 8 + path.read_bytes())
    assert RoundLog(path).certificates() == []


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rounds"
    RoundLog(path).add(certificate(1))
    for less, kept in ((0, [certificate(1)]), (1, [])):
        monkeypatch.setattr(ledger, "FILE_BYTES_MAX", path.stat().st_size - less)
        assert RoundLog(path).certificates() == kept
