"""Which units are the tiles of a picture, on the disk: whoever repeats the command posts no tile twice.

One file for each picture of an account on a chain, until `--again`. It holds no scene. Always: which tiles a round asks
for stands there before any of them is posted, and their units before anybody waits for them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gpu_tasks.batches.requests import rate_of, work_of
from gpu_tasks.client.posting import UnitWish
from gpu_tasks.client.posting_record import RecordError
from runtime.cryptography.hashing import blake2_256
from wallet.private_file import lock_file, replace

RECORD_BYTES_MAX = 16 * 1024 * 1024


@dataclass(slots=True)
class PictureRound:
    """Tiles that were asked for together, on the same terms. Bytes are in hexadecimal."""

    tiles: list[int]
    service: int
    cost_max: int
    racers: int
    price_max: int
    units: list[str] = field(default_factory=list)
    """In the order of the tiles; none until all of them are in final blocks."""

    @property
    def rate_max(self) -> int:
        """The price of a tile in grains per thousand units of cost, rounded down."""
        return rate_of(self.price_max, work_of(0, 0, self.cost_max))

    @property
    def identity(self) -> tuple[bytes, ...]:
        """What makes it another posting than those of the picture's other rounds."""
        return repr((self.service, self.cost_max, self.racers, self.price_max)).encode(), repr(self.tiles).encode()

    def unit(self, request: bytes) -> UnitWish:
        """What is asked of a tile."""
        return UnitWish(request, 1, 0, self.cost_max, self.price_max)


@dataclass(slots=True)
class PictureRecord:
    """The file; use as a context manager: it is this process's alone until then."""

    path: Path
    rounds: list[PictureRound] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)
    """Units whose outputs were found wrong, and why."""
    _lock: int = -1

    @classmethod
    def open(cls, folder: Path, identity: tuple[bytes, ...]) -> Self:
        """The record of a picture, as earlier tries left it; RecordError if another process is at it."""
        path = _path(folder, identity)
        try:
            lock = lock_file(path.with_suffix(".lock"))
        except BlockingIOError:
            raise RecordError("the same picture is being bought by another `ogpu picture`: wait for it") from None
        except OSError as error:
            raise RecordError(
                f"{path.parent} cannot be used, and nothing is posted without a record: {error}"
            ) from None
        try:
            found = cls.peek(folder, identity)
        except RecordError:
            os.close(lock)
            raise
        return cls(found.path, found.rounds, found.wrong, lock)

    @classmethod
    def peek(cls, folder: Path, identity: tuple[bytes, ...]) -> Self:
        """As `open`, to look at: nothing is made or kept."""
        path = _path(folder, identity)
        try:
            said = _read(path)
            rounds = [PictureRound(**each) for each in said.get("rounds", [])]
            return cls(path, rounds, dict(said.get("wrong", {})))
        except (OSError, ValueError, TypeError) as error:
            raise RecordError(
                f"{path} cannot be read ({error}): see with `ogpu watch` what was posted, then remove it"
            ) from None

    def __enter__(self) -> Self:
        """Already open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let another process buy this picture."""
        os.close(self._lock)

    @property
    def begun(self) -> PictureRound | None:
        """The round that broke off while it was posted, if one did."""
        return self.rounds[-1] if self.rounds and not self.rounds[-1].units else None

    @property
    def units(self) -> dict[int, bytes]:
        """By tile the unit that was posted for it last."""
        pairs = [(tile, unit) for each in self.rounds for tile, unit in zip(each.tiles, each.units, strict=False)]
        return {tile: bytes.fromhex(unit) for tile, unit in pairs}

    def save(self) -> None:
        """Write all of it down; it is on the disk when this returns. RecordError if it cannot be."""
        said = {"rounds": [asdict(each) for each in self.rounds], "wrong": self.wrong}
        try:
            replace(self.path, json.dumps(said).encode())
        except OSError as error:
            raise RecordError(f"{self.path} cannot be written, so nothing more is posted: {error}") from None


def _path(folder: Path, identity: tuple[bytes, ...]) -> Path:
    whole = b"".join(len(part).to_bytes(8, "little") + part for part in (b"picture", *identity))
    return folder.expanduser() / f"picture-{blake2_256(whole).hex()}.json"


def _read(path: Path) -> Mapping[str, Any]:
    if not path.exists():
        return {}
    with path.open("rb") as stream:
        found = json.loads(stream.read(RECORD_BYTES_MAX))
    if not isinstance(found, dict):
        raise TypeError("no record of a picture")
    return found
