"""Certificates of rounds that are not settled yet, kept over a restart.

What always holds: a certificate is on the disk when `add` returns, before anything that rests on it is signed; a
damaged end of the file costs what is there and nothing else, since whoever reads a certificate checks its signatures.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from consensus.certificates import CERTIFICATE, Certificate
from node.durable import write_durably, write_quickly
from runtime.encoding.codec import DecodeError

LENGTH = struct.Struct("<I")
FILE_BYTES_MAX = 64 * 1024 * 1024
RoundId = tuple[int, int, int]


class RoundLog:
    """The notarise and skip certificates above the last final round."""

    def __init__(self, path: Path) -> None:
        """Read what is there; a damaged end is cut off, or what is added behind it could not be read again."""
        self._path = path
        self._kept: dict[RoundId, Certificate] = {}
        for certificate in _read(path):
            self._kept[_round_of(certificate)] = certificate
        if path.is_file() and path.read_bytes() != self._packed():
            write_durably(path, self._packed())

    def certificates(self) -> list[Certificate]:
        """Everything kept, by epoch and round."""
        return [self._kept[key] for key in sorted(self._kept)]

    def add(self, certificate: Certificate) -> None:
        """Keep one more, synced: the votes that follow may leave nobody else who could go on without it."""
        if _round_of(certificate) in self._kept:
            return
        self._kept[_round_of(certificate)] = certificate
        with self._path.open("ab") as file:
            file.write(_packed(certificate))
            file.flush()
            os.fsync(file.fileno())

    def forget_to(self, epoch: int, round_: int) -> None:
        """(epoch, round) is final: what is not above it is needed no more."""
        settled = (epoch, round_)
        self._kept = {key: certificate for key, certificate in self._kept.items() if key[:2] > settled}
        # Nothing rests on an empty log, so emptying it waits for no disk.
        write = write_durably if self._kept else write_quickly
        write(self._path, self._packed())

    def _packed(self) -> bytes:
        return b"".join(map(_packed, self.certificates()))


def _round_of(certificate: Certificate) -> RoundId:
    return certificate.ballot.epoch, certificate.ballot.round, int(certificate.ballot.kind)


def _packed(certificate: Certificate) -> bytes:
    encoded = CERTIFICATE.encode(certificate)
    return LENGTH.pack(len(encoded)) + encoded


def _read(path: Path) -> list[Certificate]:
    if not path.is_file() or path.stat().st_size > FILE_BYTES_MAX:
        return []
    data = path.read_bytes()
    found: list[Certificate] = []
    at = 0
    while at + LENGTH.size <= len(data):
        end = at + LENGTH.size + LENGTH.unpack_from(data, at)[0]
        try:
            found.append(CERTIFICATE.decode(data[at + LENGTH.size : end]))
        except DecodeError:
            break
        at = end
    return found
