"""Buy a scene's picture as tiles from several providers, check the tiles, and write one file."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import click

from cli.output import Account
from cli.session import CallFailedError, WalletSession
from gpu_tasks.batches.requests import rate_of, work_of
from gpu_tasks.client.buyer import Buyer, buyer_for
from gpu_tasks.client.commands.calls import told_nothing_was_sent
from gpu_tasks.client.commands.purchase import Manner, answer_file
from gpu_tasks.client.input_files import read_input
from gpu_tasks.client.offers.listing import form_of
from gpu_tasks.client.output_files import OutputFile
from gpu_tasks.client.tasks.orders import load, load_input
from gpu_tasks.client.units.file_plan import FileWish, WrongAnswerError, wish_of
from gpu_tasks.client.units.lines import BatchLine, FileForm
from gpu_tasks.client.units.posting import Wish, check_terms
from gpu_tasks.client.units.results import winner_of
from gpu_tasks.client.units.run_record import INPUT, BatchRecord, runs_of
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.services import Service
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.pictures import (
    PICTURE_WORKLOAD,
    PictureOrder,
    PictureOrderError,
    SpotCheckedWorkload,
    picture_form,
    picture_order,
    spot_checked,
    tile_requests,
)
from wallet.amounts import Grains
from wallet.client import ChainClient
from wallet.errors import WalletError
from wallet.outbox import record_name
from wallet.private_file import replace

SEED_BYTES = 32
NAME_CHARS = 16


class PictureSaleError(WalletError):
    """The picture cannot be bought as requested."""


@dataclass(frozen=True, slots=True)
class PixelCheck:
    """The number of random pixels of a tile to recompute, and the workload; None recomputes nothing."""

    workload: SpotCheckedWorkload | None
    count: int

    def wrong(self, request: bytes, output: bytes) -> int | None:
        """Return a wrong pixel of the tile among unpredictable ones, or None."""
        if self.workload is None:
            return None
        # A provider that could predict the pixels would compute no others.
        found = self.workload.spot_check(request, output, os.urandom(SEED_BYTES), self.count)
        return None if found.valid else found.first_wrong or 0


@dataclass(frozen=True, slots=True)
class PictureRound:
    """The tiles of one posted file. Its name holds a hash of its text, so no other round is mistaken for it."""

    source: Path
    text: bytes

    @classmethod
    def of(cls, folder: Path, number: int, lines: list[str]) -> PictureRound:
        """Return the round for these lines. Nothing is written."""
        text = "".join(f"{line}\n" for line in lines).encode()
        return cls(folder / f"{number}-{record_name(text).hex()[:NAME_CHARS]}.txt", text)

    @property
    def output(self) -> Path:
        """The file of its results."""
        return self.source.with_suffix(".results")

    @property
    def errors(self) -> Path:
        """The file of its errors."""
        return self.source.with_suffix(".errors")

    def write(self) -> None:
        """Write the lines before anything is posted, so that a later command knows the tiles."""
        self.source.parent.mkdir(parents=True, exist_ok=True)
        replace(self.source, self.text)


@dataclass(slots=True)
class PictureState:
    """The begun rounds of a picture, and the outcome of each tile."""

    folder: Path
    order: PictureOrder
    begun: list[tuple[PictureRound, BatchRecord]] = field(default_factory=list)
    outputs: dict[int, bytes] = field(default_factory=dict)
    units: dict[int, bytes] = field(default_factory=dict)
    """The newest unit of each tile."""
    problems: dict[int, str] = field(default_factory=dict)

    @classmethod
    def read(cls, postings: Path, order: PictureOrder, *identity: bytes) -> PictureState:
        """Return the state from the files. Raise PictureSaleError if they cannot be read."""
        name = record_name(*identity, *map(str.encode, order.lines)).hex()
        state = cls(postings.expanduser().absolute() / f"picture-{name}", order)
        if not state.folder.exists():
            return state
        rounds = [
            (source, record) for record in runs_of(postings) if (source := _source_of(record)).parent == state.folder
        ]
        for source, record in sorted(rounds, key=lambda found: _number_of(found[0])):
            try:
                state._take(source, record)
            except (OSError, ValueError, TypeError, KeyError, IndexError) as error:
                raise PictureSaleError(
                    f"{source} or its results cannot be read ({error}). `ogpu unit runs` lists the posted tiles. "
                    f"Remove {state.folder} to buy all tiles again",
                    code="picture_record_damaged",
                ) from None
        return state

    def to_take_up(self) -> tuple[PictureRound, Wish] | None:
        """Return the last round and its terms if it has not ended, or if it completed the picture."""
        if not self.begun or (self.begun[-1][1].is_whole and len(self.outputs) < len(self.order.lines)):
            return None
        asked, record = self.begun[-1]
        assert record.plan is not None, "it was begun"
        return asked, wish_of(record.plan.settings)

    def next_round(self, *, is_anew: bool) -> PictureRound:
        """Return the round for all tiles, or for the missing ones."""
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
    """Return the number of a round, which orders rounds of the same second; 0 for another file."""
    number = source.name.partition("-")[0]
    return int(number) if number.isdecimal() else 0


def _rows(path: Path, end: int) -> Iterator[dict[str, Any]]:
    with path.open("rb") as stream:
        data = stream.read(end)
    if len(data) < end:
        raise ValueError(f"{path} has fewer bytes than were written")
    yield from map(json.loads, data.splitlines())


async def selling_service(client: ChainClient, number: int | None) -> tuple[int, Service]:
    """Return the service that sells tiles. Raise PictureSaleError, with the possible ones, if that is unclear."""
    services = await market_reads.services(client)
    form = picture_form()
    selling = [name for name, each in services.items() if each.is_open and each.terms.workload == form.workload_id]
    if number is None and len(selling) == 1:
        number = selling[0]
    if not selling:
        offered = f"Create one with `ogpu offer create-service --workload {form.name}`"
        raise PictureSaleError(
            f"no service sells {form.name}. {offered}. Providers decide whether they serve it", code="service_unknown"
        )
    if number not in selling:
        have = ", ".join(map(str, selling)) or "none"
        raise PictureSaleError(
            f"name a service that sells {form.name} with --service. Open services: {have}", code="service_unknown"
        )
    form_of(number, services[number])
    return number, services[number]


PRICE = 5_000_000
SCENE_BYTES_MAX = 64 * 1024
"""With comments. The request itself is shorter."""
SHOWN = ("tile", "unit", "provider", "device", "block", "cost", "pixels_checked")
DEFAULT_NAME = "picture.png"
PROBLEMS_SHOWN = 8
ID_BYTES_SHOWN = 4


def picture(
    session: WalletSession, file: Path | None, scene: Path | None, key_text: str, size: tuple[int, int] | None,
    tiles: int, out: Path, force: bool, service: int | None, racers: int, price: int | None, pixels: int,
    backend: str, anyway: bool, postings: Path, again: bool, tip: int, yes: bool, dry_run: bool,
    budget_text: str | None,
) -> None:  # fmt: skip
    """Carry out `ogpu unit picture`."""
    if (file is None) == (scene is None):
        raise click.UsageError("name a task file, or a scene with --scene")
    place = OutputFile(out, is_forced=force)
    planned: list[tuple[Wish, FileWish, _Picture]] = []

    async def look(client: ChainClient) -> None:
        place.place(DEFAULT_NAME)
        text, file_price = _scene_of(file, scene)
        order, check = _ordered(text, tiles, size), _pixel_check(pixels, backend)
        number, sold = await selling_service(client, service)
        is_default = price is None and file_price is None
        per_tile = price if price is not None else PRICE if file_price is None else file_price // tiles
        price_from = "--price" if price is not None or file_price is None else f"maxPrice of {file} over {tiles} tiles"
        most, requests = _requests(order, sold)
        rate = rate_of(per_tile, work_of(0, 0, most))
        # A small tile for the default amount would cost more for a bundle than the service may ask.
        wish = Wish(number, most, {}, racers, min(rate, sold.terms.price_max) if is_default else rate)
        buyer = await buyer_for(client, session.payer(key_text).account, budget_text)
        state = PictureState.read(postings, order, client.genesis_hash, buyer.name)
        bought = _Picture(session, buyer, order, requests, check, postings, place)
        found = None if again else state.to_take_up()
        if found is None:
            check_terms(sold, picture_form(), wish, price_from)
            asked = state.next_round(is_anew=again)
            if not dry_run:
                asked.write()
        else:
            asked, wish = found
        stream, source = BytesIO(asked.text), str(asked.source)
        wanted = FileWish(
            stream, FileForm.LINES, asked.output, asked.errors, postings, source,
            makes_folder=True, read=bought.text_of,
        )  # fmt: skip
        planned.append((wish, wanted, bought))

    with told_nothing_was_sent():
        session.run(look)
    ((wish, wanted, bought),) = planned
    answer_file(session, key_text, wish, wanted, Manner(tip, anyway, yes, dry_run, budget_text), bought.finish)


def _scene_of(file: Path | None, scene: Path | None) -> tuple[str, int | None]:
    """Return the scene, and the price of its task file for the whole picture. Raise WalletError."""
    if file is not None:
        found = load(file)
        if found.task.workload != PICTURE_WORKLOAD:
            raise PictureSaleError(
                f"{file} asks for {found.task.workload}, and pictures are {PICTURE_WORKLOAD}. See "
                "examples/picture.yaml",
                code="not_a_picture",
            )
        data, price = load_input(file, found), found.task.price_max
    else:
        assert scene is not None, "one of the two was named"
        data, price = read_input(scene, SCENE_BYTES_MAX, "the scene "), None
    if len(data) > SCENE_BYTES_MAX:
        raise PictureSaleError(
            f"the scene has more than {SCENE_BYTES_MAX:,} bytes. Give a shorter one", code="scene_too_long"
        )
    try:
        return data.decode("utf-8"), price
    except UnicodeDecodeError as error:
        raise PictureSaleError(
            f"the scene is not UTF-8 at byte {error.start}. Save it as UTF-8", code="scene_unreadable"
        ) from None


def _ordered(text: str, tiles: int, size: tuple[int, int] | None) -> PictureOrder:
    try:
        return picture_order(text, tiles, size)
    except PictureOrderError as error:
        raise PictureSaleError(str(error), code="invalid_scene") from None


def _pixel_check(count: int, backend: str) -> PixelCheck:
    """Return the check of random pixels, ready before anything is paid."""
    if not count:
        return PixelCheck(None, 0)
    try:
        return PixelCheck(spot_checked(registry.open_workload(PICTURE_WORKLOAD, backend)), count)
    except (LookupError, ImportError) as error:
        raise PictureSaleError(
            f"this machine cannot compute pixels: {error}. Name another --backend, or leave the check out with "
            "--check 0",
            code="backend_unusable",
        ) from None


def _requests(order: PictureOrder, sold: Service) -> tuple[int, list[bytes]]:
    """Return the requests of all tiles, and the highest cost."""
    try:
        requests = tile_requests(order, sold.terms.tokens_max)
    except PictureOrderError as error:
        raise PictureSaleError(f"{error}, with --tiles", code="invalid_tiles") from None
    return max(map(picture_form().cost_asked, requests)), requests


@dataclass(frozen=True, slots=True)
class _Picture:
    """A purchase of a picture: it checks the answers and assembles the picture."""

    session: WalletSession
    buyer: Buyer
    order: PictureOrder
    requests: list[bytes]
    check: PixelCheck
    postings: Path
    place: OutputFile

    async def text_of(self, line: BatchLine, output: bytes) -> str:
        """Return a tile in hexadecimal. Raise WrongAnswerError for another tile or a wrong pixel."""
        tile = self.order.lines.index(line.text)
        problem = self.order.problem(tile, output)
        if problem is not None:
            raise WrongAnswerError(f"{problem}", code="invalid_answer")
        # Beside the event loop, because nodes close a silent connection.
        pixel = await asyncio.to_thread(self.check.wrong, self.requests[tile], output)
        if pixel is not None:
            place = self.order.places[tile]
            row, column = divmod(pixel, place.columns)
            raise WrongAnswerError(
                f"its pixel at column {place.left + column}, row {place.top + row} differs from the scene",
                code="wrong_pixel",
            )
        return output.hex()

    async def finish(self, client: ChainClient) -> None:
        """Write the picture and print its providers. Raise CallFailedError if tiles are missing."""
        order, output = self.order, self.session.output
        state = PictureState.read(self.postings, order, client.genesis_hash, self.buyer.name)
        if len(state.outputs) < len(order.places):
            said = "; ".join(f"tile {tile}: {why}" for tile, why in sorted(state.problems.items())[:PROBLEMS_SHOWN])
            raise CallFailedError(
                f"{len(state.outputs)} of {len(order.places)} tiles are right, so there is no picture yet. "
                f"{said}. Repeat the same command: it posts only the missing tiles again",
                code="tiles_missing",
            )
        data = order.png(state.outputs)
        written = self.place.write(DEFAULT_NAME, data)
        ids = [state.units[tile] for tile in range(len(order.places))]
        units = await market_reads.units(client, ids, await client.finalized())
        rows = [self._row(tile, *each) for tile, each in enumerate(zip(ids, units, strict=True))]
        facts = {
            "picture": str(written),
            "width": order.width,
            "height": order.height,
            "bytes": len(data),
            "cost": None if None in [row["cost"] for row in rows] else Grains(sum(row["cost"] for row in rows)),
            "providers": len({row["provider"] for row in rows}),
        }
        if output.as_json:
            output.facts({**facts, "tiles": rows})
            return
        short = [
            row | {"unit": row["unit"][:ID_BYTES_SHOWN], "device": row["device"] and row["device"][:ID_BYTES_SHOWN]}
            for row in rows
        ]
        output.rows("Tiles and their providers", SHOWN, short)
        output.facts(facts)

    def _row(self, tile: int, unit_id: bytes, unit: Unit | None) -> dict[str, Any]:
        """Return a tile and its provider, which is None after the chain forgot the unit."""
        place, winner = self.order.places[tile], None if unit is None else winner_of(unit)
        return {
            "tile": f"{place.left} {place.top} {place.columns} {place.rows}",
            "unit": unit_id,
            "provider": None if winner is None else Account(winner.owner),
            "device": None if winner is None else winner.device,
            "block": None if unit is None else unit.ended_at or None,
            "cost": Grains(unit.paid) if unit is not None and unit.ended_at else None,
            "pixels_checked": 0 if self.check.workload is None else min(self.check.count, place.columns * place.rows),
        }
