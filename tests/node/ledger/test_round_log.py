"""Certificates of unsettled rounds come back after a restart, whatever happened to the end of the file."""

from __future__ import annotations

from pathlib import Path

from consensus.certificates import Certificate
from node.ledger.ledger import RoundLog
from runtime.blocks.votes import Ballot, BallotKind


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
