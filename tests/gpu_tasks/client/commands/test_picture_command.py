"""`ogpu unit picture`: tiles are posted once, whatever breaks off, checked and put together; mistakes are named."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from between import lose_after_submit, spoiled
from error_codes import ended_code
from genesis import dev_accounts
from gpu_tasks.client.cli import main
from gpu_tasks.client.commands.picture import PictureSaleError, PixelCheck
from gpu_tasks.client.offers.listing import USUAL, ClassWish
from gpu_tasks.client.units import answers, posting
from gpu_tasks.client.units.posting_once import PostingRun
from gpu_tasks.client.units.results import ResultError
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Refund, Unit, UnitState
from gpu_tasks.workloads.model_forms import open_workload
from gpu_tasks.workloads.pictures import picture_form, picture_order, tile_requests
from gpu_tasks.workloads.workload import OutputCheck
from painted_tiles import PaintedReads, Painter, honestly
from planted_state import chain_with
from runtime.cryptography import ss58
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.frame.runtime import Bound
from runtime.pallets.beacon import Beacon
from wallet.client import ChainClient
from wallet.suri import keypair_from_suri
from wallet_runner import answer

BOB = keypair_from_suri("//Bob")
SCENE = "picture 12 9; samples 1; bounces 1; camera 0 1 -5 0 1 0 1; sky #406080 #ffffff 1; sphere 0 1 0 1 matte #c04030"
TASK = """\
apiVersion: ogpu/v1
kind: TrainingTask
metadata: {name: picture}
spec:
  run: {workload: render-tile, input: scene.txt, length: 100}
  market: {maxPrice: 2 oGPU}
"""


@pytest.fixture
def reads(blobs: dict[bytes, bytes], monkeypatch: pytest.MonkeyPatch) -> PaintedReads:
    found = PaintedReads(BOB, blobs)
    found.plant(monkeypatch)
    return found


@pytest.fixture
def url(tmp_path: Path, reads: PaintedReads, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    # headers of the played chain name no final block, and inputs are sealed as of one that the chain knows
    monkeypatch.setattr(Beacon, "final_height", lambda beacon: max(0, beacon.system.number.get() - 1))

    with tile_market(tmp_path, 10 * GRAINS_PER_OGPU, 1_000 * GRAINS_PER_OGPU) as url:  # a tile is a bundle
        yield url


@contextmanager
def tile_market(folder: Path, price_min: int, price_max: int) -> Iterator[str]:
    """Yield the address of a node whose service 0 sells tiles at these prices."""

    def plant(bound: Bound) -> None:
        sold, form = bound[InferenceMarket].services[0], picture_form()
        assert sold is not None
        terms = replace(sold.terms, workload=form.workload_id, model=form.model_id)
        bound[InferenceMarket].services[0] = replace(
            sold, terms=replace(terms, price_min=price_min, price_max=price_max)
        )

    (folder / "scene.txt").write_text(SCENE)
    (folder / "picture.yaml").write_text(TASK)
    with chain_with(folder, plant, beat_seconds=0.2) as url:
        yield url


def picture(url: str, folder: Path, *words: str, scene: bool = True) -> Result:
    options = ["--url", url, "--keyring", str(folder / "keys"), "--trust-node", "--json", "unit", "picture"]
    asked = ["--scene", str(folder / "scene.txt")] if scene else [str(folder / "picture.yaml")]
    known = ["--key", "//Bob", "--postings", str(folder / "postings"), "--anyway", "--yes"]
    known += ["--out", str(folder / "out.png")]
    return CliRunner().invoke(main, [*options, *asked, *known, *words])


def posted(url: str) -> int:
    """Return the number of units that Bob has ever posted."""

    async def read() -> int:
        async with await ChainClient.connect(url) as client:
            found: int = await client.read(InferenceMarket.post_counts, BOB.account)
            return found

    return asyncio.run(read())


def right_png(tiles: int = 4, size: tuple[int, int] | None = None) -> bytes:
    order = picture_order(SCENE, tiles, size)
    workload = open_workload("render-tile", "numpy")
    return order.png({number: workload.run(each) for number, each in enumerate(tile_requests(order, 1_000))})


def test_a_picture_is_bought_checked_and_put_together_once(tmp_path: Path, url: str) -> None:
    shown = answer(picture(url, tmp_path))
    assert (tmp_path / "out.png").read_bytes() == right_png()
    assert (shown["picture"], shown["width"], shown["height"], shown["providers"]) == (
        str(tmp_path / "out.png"), 12, 9, 1,
    )  # fmt: skip
    tiles: list[dict[str, Any]] = shown["tiles"]
    assert [tile["tile"] for tile in tiles] == ["0 0 6 4", "6 0 6 4", "0 4 6 5", "6 4 6 5"]
    assert {tile["provider"] for tile in tiles} == {ss58.encode(dev_accounts.stash("Alice"))}
    assert [tile["pixels_checked"] for tile in tiles] == [24, 24, 30, 30]
    assert shown["cost"]["grains"] == str(sum(int(tile["cost"]["grains"]) for tile in tiles))

    refused = picture(url, tmp_path)
    assert (refused.exit_code, "--force" in refused.stderr) == (2, True)
    (tmp_path / "out.png").unlink()
    again = answer(picture(url, tmp_path))
    assert [tile["unit"] for tile in again["tiles"]] == [tile["unit"] for tile in tiles], "nothing is posted twice"
    assert posted(url) == 4
    answer(picture(url, tmp_path, "--again", "--force"))
    assert posted(url) == 8


def test_who_interrupts_goes_on_with_the_same_tiles(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(answers.FileAnswers, "follow", interrupted)
        broken = picture(url, tmp_path)
    assert broken.exit_code == 1
    assert "same command" in broken.stderr
    assert len(answer(picture(url, tmp_path))["tiles"]) == posted(url) == 4


def test_tiles_are_posted_for_devices_of_a_usual_class(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wishes: list[ClassWish] = []

    async def classes(_client: ChainClient, *asked: Any) -> Callable[[], None]:
        wishes.append(asked[3])
        return lambda: None

    monkeypatch.setattr(posting, "classes_for", classes)
    answer(picture(url, tmp_path))
    assert [wish.named for wish in wishes] == [USUAL]
    assert wishes[0].rate_max > 0


def test_what_it_costs_is_shown_and_nothing_sent(tmp_path: Path, url: str) -> None:
    cost = answer(picture(url, tmp_path, "--dry-run", "--tiles", "6", "--size", "24x18"))
    assert (cost["units"], cost["sent"], posted(url)) == (6, False, 0)
    assert list((tmp_path).glob("postings/*")) == []


def test_a_task_file_says_scene_and_price(tmp_path: Path, url: str) -> None:
    cost = answer(picture(url, tmp_path, "--dry-run", "--racers", "1", scene=False))
    by_price = answer(picture(url, tmp_path, "--dry-run", "--racers", "1", "--price", "0.5"))
    assert cost["locked"] == by_price["locked"], "the greatest price is for all four tiles"


def test_a_posting_that_broke_off_is_taken_up(tmp_path: Path, url: str) -> None:
    with spoiled(url, lose_after_submit) as (lossy, _):
        lost = picture(lossy, tmp_path)
    assert lost.exit_code == 2, lost.output
    # other terms do not make it another posting: what began goes on as it began
    shown = answer(picture(url, tmp_path, "--price", "0.06"))
    assert (len(shown["tiles"]), posted(url)) == (4, 4)


def test_a_wait_that_broke_off_is_taken_up(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def cut(*_: Any) -> None:
        raise PictureSaleError("the power is gone")

    with monkeypatch.context() as patch:
        patch.setattr(answers.FileAnswers, "follow", cut)
        assert "the power is gone" in picture(url, tmp_path).stderr
    assert not (tmp_path / "out.png").exists()
    answer(picture(url, tmp_path))
    assert ((tmp_path / "out.png").read_bytes(), posted(url)) == (right_png(), 4)


def test_a_crash_between_posting_and_its_record_posts_nothing_twice(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = PostingRun.run

    async def cut(self: PostingRun[Any], *given: Any) -> Any:
        await honest(self, *given)
        raise PictureSaleError("the power is gone")

    with monkeypatch.context() as patch:
        patch.setattr(PostingRun, "run", cut)
        assert "the power is gone" in picture(url, tmp_path).stderr
    answer(picture(url, tmp_path))
    assert posted(url) == 4


def second(changed: Painter) -> Callable[[bytes], Painter]:
    """A provider that answers the second of four tiles so, and the others right."""
    asked = picture_order(SCENE, 4)
    target = tile_requests(asked, 1_000)[1]
    return lambda request: changed if request == target else honestly


@pytest.mark.parametrize(
    ("paint", "why"),
    [
        (lambda _, output: output[:-60] + bytes(60), "tile 1: its pixel at column "),
        (lambda _, output: output[:-1], "tile 1: "),
        (lambda _, output: output[:36] + b"\x00\x00" + output[38:], "tile 1: "),
    ],
)
def test_a_tile_that_is_wrong_is_named_and_bought_again(
    tmp_path: Path, url: str, reads: PaintedReads, paint: Painter, why: str
) -> None:
    reads.paint = second(paint)
    lied = picture(url, tmp_path)
    assert lied.exit_code == 1, lied.output
    assert "3 of 4 tiles" in lied.stderr
    assert why in lied.stderr
    assert not (tmp_path / "out.png").exists()
    reads.paint = lambda _: honestly
    assert answer(picture(url, tmp_path, "--dry-run"))["units"] == 1
    answer(picture(url, tmp_path))
    assert ((tmp_path / "out.png").read_bytes(), posted(url)) == (right_png(), 5)


def test_a_tile_without_a_result_is_posted_again_and_no_other(
    tmp_path: Path, url: str, reads: PaintedReads, monkeypatch: pytest.MonkeyPatch
) -> None:
    refunded: list[bytes] = []
    seen = market_reads.units

    async def units(client: Any, ids: Any, at: bytes | None = None) -> list[Unit | None]:
        found = await seen(client, ids, at)
        if len(ids) == 4 and not refunded:
            refunded.append(ids[2])
        return [
            replace(unit, state=UnitState.REFUNDED, refund=Refund.EXPIRED, output_root=None)
            if unit is not None and name in refunded
            else unit
            for name, unit in zip(ids, found, strict=True)
        ]

    monkeypatch.setattr(market_reads, "units", units)
    lost = picture(url, tmp_path)
    assert (lost.exit_code, "tile 2: " in lost.stderr) == (1, True), lost.output
    answer(picture(url, tmp_path))
    assert ((tmp_path / "out.png").read_bytes(), posted(url)) == (right_png(), 5)


def test_a_tile_that_nobody_serves_is_not_posted_again(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "TRIES", 2)

    async def nothing(*_: Any) -> Any:
        raise ResultError("no provider serves it")

    with monkeypatch.context() as patch:
        patch.setattr(answers, "outcomes_served", nothing)
        lost = picture(url, tmp_path)
    assert (lost.exit_code, (tmp_path / "out.png").exists()) == (1, False)
    answer(picture(url, tmp_path))
    assert posted(url) == 4


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--size", "12"], "is not WxH"),
        (["--tiles", "0"], "0 is not in the range"),
        (["--tiles", "500"], "1 to 108 here, not 500"),
        (["--size", "4000x4000"], "at least 245"),
        (["--service", "7"], "--service. Open services: 0"),
        (["--price", "0.000001"], "--price is 10 to 1000 oGPU per thousand bundles"),
        (["--backend", "abacus"], "--backend"),
        (["--out", "/no/such/folder/x.png"], "there is no folder /no/such/folder"),
    ],
)
def test_what_cannot_be_bought_is_said_before_anything_is_sent(
    tmp_path: Path, url: str, words: list[str], why: str
) -> None:
    refused = picture(url, tmp_path, *words)
    assert refused.exit_code == 2, refused.output
    assert why in refused.stderr
    assert posted(url) == 0


def test_a_dry_run_refuses_a_folder_that_takes_no_file(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda _path, wanted: not wanted & os.W_OK)
    assert ended_code(picture(url, tmp_path, "--dry-run")) == "file_unwritable"


def test_one_of_file_and_scene_is_named(tmp_path: Path, url: str) -> None:
    both = picture(url, tmp_path, str(tmp_path / "picture.yaml"))
    assert (both.exit_code, "--scene" in both.stderr) == (2, True)
    (tmp_path / "picture.yaml").write_text(TASK.replace("render-tile", "train-int8"))
    other = picture(url, tmp_path, scene=False)
    assert (other.exit_code, "train-int8" in other.stderr) == (2, True)


def test_a_price_of_the_file_is_refused_as_the_files(tmp_path: Path, url: str) -> None:
    path = tmp_path / "picture.yaml"
    (tmp_path / "scene.txt").write_text(SCENE)
    path.write_text(TASK.replace("2 oGPU", "0.02 oGPU"))
    refused = picture(url, tmp_path, scene=False)
    assert refused.exit_code == 2
    said = refused.stderr.replace("\n", " ")
    assert f"maxPrice of {path} over 4 tiles is 10 to 1000 oGPU per thousand bundles" in said
    assert "not 5" in said


def without_its_end(data: bytes) -> bytes:
    return data[:-80] + b"\n"


def half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def without_its_last_line(data: bytes) -> bytes:
    return b"".join(data.splitlines(keepends=True)[:-1])


@pytest.mark.parametrize(
    ("pattern", "damaged"),
    [
        ("outbox.db", half),
        ("picture-*/*.txt", without_its_end),
        ("picture-*/*.results", without_its_end),
        ("picture-*/*.results", without_its_last_line),
    ],
)
def test_a_record_that_cannot_be_read_buys_nothing(
    tmp_path: Path, url: str, pattern: str, damaged: Callable[[bytes], bytes]
) -> None:
    answer(picture(url, tmp_path))
    (record,) = (tmp_path / "postings").glob(pattern)
    record.write_bytes(damaged(record.read_bytes()))
    (tmp_path / "out.png").unlink()
    refused = picture(url, tmp_path)
    assert (refused.exit_code, (tmp_path / "out.png").exists(), posted(url)) == (2, False, 4), refused.output


def test_nobody_foresees_which_pixels_are_looked_at() -> None:
    class Noting:
        def __init__(self) -> None:
            self.seeds: list[bytes] = []

        def spot_check(self, request: bytes, output: bytes, seed: bytes, count: int) -> OutputCheck:
            self.seeds.append(seed)
            return OutputCheck(valid=True, recomputed=count, first_wrong=None)

    noting = Noting()
    check = PixelCheck(noting, 9)
    assert [check.wrong(b"request", b"output") for _ in range(2)] == [None, None]
    first, second = noting.seeds
    assert first != second
    assert bytes(32) not in noting.seeds


def test_where_nobody_sells_tiles_it_says_how_that_is_begun(tmp_path: Path) -> None:
    (tmp_path / "scene.txt").write_text(SCENE)
    with chain_with(tmp_path, lambda _: None) as url:
        refused = picture(url, tmp_path)
    assert refused.exit_code == 2, refused.output
    assert "`ogpu offer create-service --workload render-tile`" in refused.stderr


def test_the_default_price_is_within_what_the_service_may_ask(
    tmp_path: Path, reads: PaintedReads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Beacon, "final_height", lambda beacon: max(0, beacon.system.number.get() - 1))
    with tile_market(tmp_path, GRAINS_PER_OGPU // 1_000, GRAINS_PER_OGPU // 10) as url:
        assert picture(url, tmp_path, "--dry-run").exit_code == 0
        assert ended_code(picture(url, tmp_path, "--dry-run", "--price", "0.05")) == "price_not_sold"
