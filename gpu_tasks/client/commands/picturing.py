"""`picture`: a scene's picture bought as tiles from several providers, checked, and written as one file."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.progress import Progress as ProgressBar

from gpu_tasks.client.class_choice import USUAL, ClassWish
from gpu_tasks.client.commands.posting.once import Selling, post_once, postings_option, show_and_ask
from gpu_tasks.client.commands.sending import key_option, this_command, told_nothing_was_sent, told_when_interrupted
from gpu_tasks.client.commands.task_runs import force_option
from gpu_tasks.client.commands.units import STAYS, counted
from gpu_tasks.client.funds import require
from gpu_tasks.client.output_files import OutputFile
from gpu_tasks.client.picture_plan import PicturePlan, TileWish, picture_plan, require_takers, selling_service
from gpu_tasks.client.picture_record import PictureRecord
from gpu_tasks.client.picture_tiles import PictureSaleError, PictureTile, PixelCheck, TileCollector
from gpu_tasks.client.posting import Prompt
from gpu_tasks.client.posting_record import PostingRecord
from gpu_tasks.client.task_files import load, load_input
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.inference.units import RACERS_MAX
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.pictures import (
    PICTURE_WORKLOAD,
    PictureOrder,
    PictureOrderError,
    picture_order,
    spot_checked,
)
from wallet.client import ChainClient
from wallet.commands.options import AMOUNT, dry_run_option, tip_option, yes_option
from wallet.keypair import Keypair
from wallet.output import Account, Grains, Output, harmless
from wallet.session import CallFailedError, WalletSession

PRICE = 5_000_000
TILES = 4
PIXELS_CHECKED = 256
PIXELS_CHECKED_MAX = 65_536
SCENE_BYTES_MAX = 64 * 1024
"""With remarks; what is asked for is shorter."""
SHOWN = ("tile", "unit", "provider", "device", "block", "cost", "pixels_checked")
DEFAULT_NAME = "picture.png"
PROBLEMS_SHOWN = 8
ID_BYTES_SHOWN = 4


class PictureSize(click.ParamType[tuple[int, int]]):
    """`WxH` in pixels; the limits are the scene's."""

    name = "WxH"

    def convert(
        self, value: str | tuple[int, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Width and height."""
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"([0-9]{1,5})x([0-9]{1,5})", value)
        if found is None:
            self.fail(f"{value!r} is not WxH, as 320x200", param, ctx)
        return int(found[1]), int(found[2])


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--scene", type=click.Path(path_type=Path, dir_okay=False), help="A scene, instead of a task file.")
@key_option
@click.option("--size", type=PictureSize(), help="Of the picture in pixels.  [default: as the scene says]")
@click.option("--tiles", default=TILES, show_default=True, type=click.IntRange(1), help="Units that it is bought as.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path(DEFAULT_NAME), show_default=True,
    help="Where the picture goes, as PNG: a new file.",
)  # fmt: skip
@force_option
@click.option("--service", type=int, help="Number of the service.  [default: the one that sells pictures]")
@click.option(
    "--racers", default=2, show_default=True, type=click.IntRange(1, RACERS_MAX), help="Providers for each tile."
)
@click.option(
    "--price", type=AMOUNT, help="oGPU for a tile at most.  [default: maxPrice of FILE over all tiles, or 0.05]"
)
@click.option(
    "--check", "pixels", default=PIXELS_CHECKED, show_default=True, type=click.IntRange(0, PIXELS_CHECKED_MAX),
    help="Drawn pixels of each tile that are computed here again; 0 for none.",
)  # fmt: skip
@click.option("--backend", default="numpy", show_default=True, help="For --check: numpy, reference, or torch-<device>.")
@click.option("--anyway", is_flag=True, help="Even if too few owners can race for it now.")
@postings_option
@click.option("--again", is_flag=True, help="Forget the tiles of earlier tries, and post all of them anew.")
@tip_option
@yes_option
@dry_run_option
@click.pass_obj
def picture(
    session: WalletSession, file: Path | None, scene: Path | None, key_text: str, size: tuple[int, int] | None,
    tiles: int, out: Path, force: bool, service: int | None, racers: int, price: int | None, pixels: int,
    backend: str, anyway: bool, postings: Path, again: bool, tip: int, yes: bool, dry_run: bool,
) -> None:  # fmt: skip
    """Buy the picture of FILE (a task file that renders one) or of a --scene as tiles, and put them together.

    Several providers work on it side by side. A purchase that broke off is taken up by the same command: no tile is
    posted twice, but for one that ended without a result or is found wrong, once that has been agreed to again.
    """
    if (file is None) == (scene is None):
        raise click.UsageError("name a task file, or a scene with --scene")
    place = OutputFile(out, is_forced=force)
    plans: list[PicturePlan] = []
    found: list[tuple[PictureOrder, PixelCheck]] = []

    async def look(client: ChainClient) -> None:
        place.place(DEFAULT_NAME)
        text, file_price = _scene_of(file, scene)
        order, check = _ordered(text, tiles, size), _pixel_check(pixels, backend)
        found.append((order, check))
        number, sold = await selling_service(client, service)
        per_tile = price if price is not None else PRICE if file_price is None else file_price // tiles
        wish = TileWish(number, racers, per_tile)
        price_from = "--price" if price is not None or file_price is None else f"maxPrice of {file} over {tiles} tiles"
        payer = session.payer(key_text)
        plan = await picture_plan(client, payer, order, sold, wish, postings, tip, is_anew=again, price_from=price_from)
        await require_takers(client, payer, plan, is_anyway=anyway)
        if not dry_run:
            require(plan.available, plan.cost.needed, f"posting {counted(plan.cost.units)}")
        plans.append(plan)

    async def buy(client: ChainClient) -> None:
        (plan,), ((order, check),), key = plans, found, session.key(key_text)
        with PictureRecord.open(postings, plan.identity) as record:
            if again:
                record.rounds.clear()
            if len(record.rounds) - (record.begun is not None) != plan.earlier_rounds:
                raise PictureSaleError("tiles were posted meanwhile: give the same command again")
            await _post(session.output, client, key, order, plan, record, postings, tip, is_anew=again)
            collector = await _collected(session, client, key, order, record, check)
        _finish(session.output, order, collector, place)

    with told_nothing_was_sent():
        session.run(look)
    (plan,) = plans
    show_and_ask(session.output, plan.cost, plan.available, is_asked=not (yes or dry_run), is_shown=dry_run)
    if not dry_run:
        with told_when_interrupted(lambda: f"{STAYS}. Go on with the same command, which buys no tile twice: "
                                           f"`{this_command()}`"):  # fmt: skip
            session.run(buy)


def _scene_of(file: Path | None, scene: Path | None) -> tuple[str, int | None]:
    """The text, and what its task file would pay for the whole picture. WalletError."""
    if file is not None:
        found = load(file)
        if found.task.workload != PICTURE_WORKLOAD:
            raise PictureSaleError(
                f"{file} asks for {found.task.workload}, and pictures are {PICTURE_WORKLOAD}: see examples/picture.yaml"
            )
        data, price = load_input(file, found), found.task.price_max
    else:
        assert scene is not None, "one of the two was named"
        try:
            with scene.open("rb") as stream:
                data, price = stream.read(SCENE_BYTES_MAX + 1), None
        except OSError as error:
            raise PictureSaleError(
                f"the scene {scene} cannot be read: {error.strerror}; give the path of one"
            ) from None
    if len(data) > SCENE_BYTES_MAX:
        raise PictureSaleError(f"the scene has more than {SCENE_BYTES_MAX:,} bytes: give a shorter one")
    try:
        return data.decode("utf-8"), price
    except UnicodeDecodeError as error:
        raise PictureSaleError(f"the scene is not UTF-8 at byte {error.start}: save it as UTF-8") from None


def _ordered(text: str, tiles: int, size: tuple[int, int] | None) -> PictureOrder:
    try:
        return picture_order(text, tiles, size)
    except PictureOrderError as error:
        raise PictureSaleError(str(error)) from None


def _pixel_check(count: int, backend: str) -> PixelCheck:
    """The check of drawn pixels, ready before anything is paid."""
    if not count:
        return PixelCheck(None, 0)
    try:
        return PixelCheck(spot_checked(registry.open_workload(PICTURE_WORKLOAD, backend)), count)
    except (LookupError, ImportError) as error:
        raise PictureSaleError(
            f"pixels cannot be computed here: {error}; name another --backend, or leave the check out with --check 0"
        ) from None


def _finish(output: Output, order: PictureOrder, collector: TileCollector, place: OutputFile) -> None:
    """Write the picture and say who made what of it; CallFailedError where tiles are missing."""
    count = len(order.places)
    if collector.problems:
        said = "; ".join(f"tile {tile}: {why}" for tile, why in sorted(collector.problems.items())[:PROBLEMS_SHOWN])
        raise CallFailedError(
            f"{len(collector.came)} of {count} tiles are right, and there is no picture yet. {said}. "
            "The same command goes on with these, and posts no other tile again"
        )
    data = order.png({tile: each.output for tile, each in collector.came.items()})
    written = place.write(DEFAULT_NAME, data)
    rows = [_row(order, each) for _, each in sorted(collector.came.items())]
    facts = {
        "picture": str(written),
        "width": order.width,
        "height": order.height,
        "bytes": len(data),
        "cost": Grains(sum(each.cost for each in collector.came.values())),
        "providers": len({each.provider for each in collector.came.values()}),
    }
    if output.as_json:
        output.facts({**facts, "tiles": rows})
        return
    short = [row | {"unit": row["unit"][:ID_BYTES_SHOWN], "device": row["device"][:ID_BYTES_SHOWN]} for row in rows]
    output.rows("Tiles, and who was paid for each", SHOWN, short)
    output.facts(facts)


def _row(order: PictureOrder, tile: PictureTile) -> dict[str, Any]:
    place = order.places[tile.number]
    return {
        "tile": f"{place.left} {place.top} {place.columns} {place.rows}",
        "unit": tile.unit,
        "provider": Account(tile.provider),
        "device": tile.device,
        "block": tile.block,
        "cost": Grains(tile.cost),
        "pixels_checked": tile.pixels_checked,
    }


async def _post(
    output: Output, client: ChainClient, key: Keypair, order: PictureOrder, plan: PicturePlan, record: PictureRecord,
    postings: Path, tip: int, *, is_anew: bool,
) -> None:  # fmt: skip
    """Post the tiles of the plan, each once; their units are in the record when this returns."""
    part = plan.part
    if not part.tiles:
        return
    if record.begun is None:
        record.rounds.append(part)
        record.save()  # which tiles a round has is known whatever happens next
    lines = order.lines
    prompts = [Prompt(tile + 1, lines[tile]) for tile in part.tiles]
    units = [part.unit(plan.requests[tile]) for tile in part.tiles]
    selling = Selling(part.service, part.racers, tip, ClassWish(USUAL, part.rate_max))
    with PostingRecord.open(postings, *plan.posting_identity) as posting:
        if is_anew:
            posting.forget()
        posted = await post_once(output, client, posting, key, selling, units, prompts)
        record.rounds[-1].units = [each.unit.hex() for each in posted]
        record.save()
        posting.forget()


async def _collected(
    session: WalletSession,
    client: ChainClient,
    key: Keypair,
    order: PictureOrder,
    record: PictureRecord,
    check: PixelCheck,
) -> TileCollector:
    """Wait for the tiles, with a progress bar at a terminal and sentences elsewhere."""
    count = len(order.places)
    with _bar(session, count) as tell:
        async with BlobClient(private=market_reads.is_development(client)) as blobs:
            collector = TileCollector(client, blobs, key, order, record, check, tell)
            await collector.run()
    return collector


@contextlib.contextmanager
def _bar(session: WalletSession, count: int) -> Iterator[Callable[[int, str], None]]:
    """How many of the tiles are there, and what the others wait for."""
    output, said = session.output, ["waiting for tiles"]
    is_bar_seen = output.console.is_terminal and not output.as_json
    with (
        ProgressBar(console=output.console, disable=output.as_json, transient=True) as bar,
        session.doing(None if is_bar_seen else lambda: said[-1]),
    ):
        row = bar.add_task("waiting for tiles", total=count)

        def tell(came: int, why: str) -> None:
            text = f"{came} of {counted(count).replace('unit', 'tile')}" + (f"; {why}" if why else "")
            said[:] = [text]
            bar.update(row, completed=came, description=escape(harmless(text)))

        yield tell
