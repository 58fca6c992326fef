"""A picture as batch files of its tiles: which tiles a round asks for, and which of them have come.

A picture of an account on a chain has a folder of numbered rounds, each a file of lines with its results and errors.
Always: a round counts once its run was begun; the newest round that asked for a tile decides about it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_tasks.client.batches.record import BatchRecord
from gpu_tasks.client.batches.runs import INPUT, runs_of
from gpu_tasks.client.file_runs.plan import wish_of
from gpu_tasks.client.offers import form_of
from gpu_tasks.client.posting import Wish
from gpu_tasks.client.posting_record import record_name
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.services import Service
from gpu_tasks.workloads.pictures import (
    PictureOrder,
    SpotCheckedWorkload,
    picture_form,
)
from wallet.client import ChainClient
from wallet.errors import WalletError
from wallet.private_file import replace

SEED_BYTES = 32
NAME_CHARS = 16


class PictureSaleError(WalletError):
    """The picture cannot be bought as asked; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class PixelCheck:
    """How many drawn pixels of a tile are computed again, and on what; no workload: none are."""

    workload: SpotCheckedWorkload | None
    count: int

    def wrong(self, request: bytes, output: bytes) -> int | None:
        """A pixel of the tile that is wrong, out of some that nobody could foresee; None where all are right."""
        if self.workload is None:
            return None
        found = self.workload.spot_check(request, output, os.urandom(SEED_BYTES), self.count)
        return None if found.valid else found.first_wrong or 0


@dataclass(frozen=True, slots=True)
class PictureRound:
    """Tiles that one file asks for; the file's name has a hash of its text, so no other round is taken for it."""

    source: Path
    text: bytes

    @classmethod
    def of(cls, folder: Path, number: int, lines: list[str]) -> PictureRound:
        """Return the round that asks for these lines; nothing is written."""
        text = "".join(f"{line}\n" for line in lines).encode()
        return cls(folder / f"{number}-{record_name(text)[:NAME_CHARS]}.txt", text)

    @property
    def output(self) -> Path:
        """The file of its results."""
        return self.source.with_suffix(".results")

    @property
    def errors(self) -> Path:
        """The file of its errors."""
        return self.source.with_suffix(".errors")

    def write(self) -> None:
        """Write its lines, which tell later which tiles it asked for; before anything of it is posted."""
        self.source.parent.mkdir(parents=True, exist_ok=True)
        replace(self.source, self.text)


@dataclass(slots=True)
class PictureState:
    """The rounds of a picture that were begun, and what came of its tiles."""

    folder: Path
    order: PictureOrder
    begun: list[tuple[PictureRound, BatchRecord]] = field(default_factory=list)
    outputs: dict[int, bytes] = field(default_factory=dict)
    units: dict[int, bytes] = field(default_factory=dict)
    """By tile, the unit that was posted for it last."""
    problems: dict[int, str] = field(default_factory=dict)

    @classmethod
    def read(cls, postings: Path, order: PictureOrder, *identity: bytes) -> PictureState:
        """Return the state that the files tell; PictureSaleError where they cannot be read."""
        name = record_name(*identity, *map(str.encode, order.lines))
        state = cls(postings.expanduser().absolute() / f"picture-{name}", order)
        if not state.folder.exists():
            return state
        runs = runs_of(postings, skips_damaged=False)  # a skipped one would be bought again
        rounds = [(source, record) for record in runs if (source := _source_of(record)).parent == state.folder]
        for source, record in sorted(rounds, key=lambda found: _number_of(found[0])):
            try:
                state._take(source, record)
            except (OSError, ValueError, TypeError, KeyError, IndexError) as error:
                raise PictureSaleError(
                    f"{source} or its results cannot be read ({error}): see with `ogpu batch` what was posted, "
                    f"and remove {state.folder} to buy all tiles anew"
                ) from None
        return state

    def to_take_up(self) -> tuple[PictureRound, Wish] | None:
        """Return the last round and its terms, if it has not ended or gave the last of the tiles."""
        if not self.begun or (self.begun[-1][1].is_whole and len(self.outputs) < len(self.order.lines)):
            return None
        asked, record = self.begun[-1]
        assert record.plan is not None, "it was begun"
        return asked, wish_of(record.plan.settings)

    def next_round(self, *, is_anew: bool) -> PictureRound:
        """Return the round that asks for all tiles, or for those that have not come."""
        lines = [line for tile, line in enumerate(self.order.lines) if is_anew or tile not in self.outputs]
        return PictureRound.of(self.folder, len(self.begun), lines)

    def _take(self, source: Path, record: BatchRecord) -> None:
        assert record.plan is not None, "a round that was begun"
        asked = PictureRound(source, source.read_bytes())
        tiles = [self.order.lines.index(line) for line in asked.text.decode().splitlines()]
        self.begun.append((asked, record))
        for tile in tiles:
            self.outputs.pop(tile, None)
            self.problems.pop(tile, None)
        for place, unit in record.posted.items():
            self.units[tiles[record.plan.units[place][0]]] = bytes.fromhex(unit)
        for row in _rows(asked.output, record.ends.output):
            self.outputs[tiles[row["index"] - 1]] = bytes.fromhex(row["text"])
        for row in _rows(asked.errors, record.ends.errors):
            tile = tiles[row["index"] - 1]
            self.outputs.pop(tile, None)
            self.problems[tile] = row["error"]["message"]


def _source_of(record: BatchRecord) -> Path:
    assert record.plan is not None, "`runs_of` leaves out the others"
    return Path(record.plan.settings[INPUT])


def _number_of(source: Path) -> int:
    """Return the number of a round, by which rounds of the same second have an order; 0 for another file's name."""
    number = source.name.partition("-")[0]
    return int(number) if number.isdecimal() else 0


def _rows(path: Path, end: int) -> Iterator[dict[str, Any]]:
    with path.open("rb") as stream:
        data = stream.read(end)
    if len(data) < end:
        raise ValueError(f"{path} has fewer bytes than were written")
    yield from map(json.loads, data.splitlines())


async def selling_service(client: ChainClient, number: int | None) -> tuple[int, Service]:
    """The service that tiles are bought from; PictureSaleError says which there are."""
    services = await market_reads.services(client)
    form = picture_form()
    selling = [name for name, each in services.items() if each.is_open and each.terms.workload == form.workload_id]
    if number is None and len(selling) == 1:
        number = selling[0]
    if not selling:
        offered = f"`ogpu create-service --workload {form.name}` offers one"
        raise PictureSaleError(
            f"no service here sells {form.name}; {offered}, and providers decide whether they serve it"
        )
    if number not in selling:
        have = ", ".join(map(str, selling)) or "none"
        raise PictureSaleError(f"name a service that sells {form.name} with --service; open here: {have}")
    form_of(number, services[number])
    return number, services[number]
