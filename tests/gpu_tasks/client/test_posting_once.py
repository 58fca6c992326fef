"""Posting survives crashes and lost answers without posting twice (finding B5): a real chain and a real RPC server."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from gpu_tasks.client.units import posting_once
from gpu_tasks.client.units.posting import AskedUnit, PostError, Prompt, Sealer
from gpu_tasks.client.units.posting_once import Posted, PostingRun, Progress
from gpu_tasks.client.units.posting_record import PostingRecord, RecordError
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import UnitTerms
from played_node import PlayedNode, growing, served
from runtime.cryptography.hashing import blake2_256
from wallet.client import ERA_BLOCKS, ChainClient, Outcome
from wallet.keypair import Keypair
from wallet.rpc import NodeUnreachableError
from wallet.suri import keypair_from_suri

PRICE = 500_000
PROMPTS = [Prompt(number, f"prompt {number}") for number in range(1, 41)]  # two extrinsics
KEY: Keypair = keypair_from_suri("//Bob")


class FixedSealer(Sealer):
    """Stores nothing; the seal is of genesis, which the played chain's beacon calls final."""

    async def terms(self, requests: Sequence[AskedUnit], tell: Callable[[], None]) -> list[UnitTerms]:
        for _ in requests:
            tell()
        return [UnitTerms(unit.price_max, 1, blake2_256(unit.request), bytes(32), 0, 16) for unit in requests]


class CountingSealer(FixedSealer):
    """Seals otherwise each time that it is asked."""

    calls: ClassVar[list[list[bytes]]] = []

    async def terms(self, requests: Sequence[AskedUnit], tell: Callable[[], None]) -> list[UnitTerms]:
        self.calls.append([unit.request for unit in requests])
        number = bytes([len(self.calls)])
        terms = await FixedSealer.terms(self, requests, tell)
        return [
            replace(term, input_root=blake2_256(unit.request + number))
            for term, unit in zip(terms, requests, strict=True)
        ]


class Scene:
    """A chain that grows whenever something waits in its pool, and tries to post on it."""

    def __init__(self, folder: Path, node: PlayedNode, client: ChainClient) -> None:
        self.folder = folder
        self.node = node
        self.client = client
        self.said: list[str] = []

    async def attempt(self, salt: bytes = b"", price: int = PRICE) -> list[Posted]:
        with PostingRecord.open(self.folder / "postings", b"these") as record:
            posted = await self.run(record, salt, price).run()
            record.forget()
        return posted

    def run(self, record: PostingRecord, salt: bytes, price: int) -> PostingRun[AskedUnit]:
        units = [AskedUnit.of(salt + prompt.text.encode(), 1, 0, 16, price) for prompt in PROMPTS]
        sealer = FixedSealer(self.client, cast("Any", None), KEY, 0, 1)
        return PostingRun(sealer, record, PROMPTS, units, Progress(lambda: None, lambda: None, self.said.append))

    async def count(self) -> int:
        return int(await self.client.read(InferenceMarket.posted, KEY.account))


def play(folder: Path, story: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        async with (
            served(folder) as (node, port),
            await ChainClient.connect(f"ws://127.0.0.1:{port}") as client,
            growing(node, 0.05, lambda node: bool(node.pool)),
        ):
            await story(Scene(folder, node, client))

    asyncio.run(asyncio.wait_for(main(), 100))


def test_all_are_posted_in_order_and_the_record_is_gone(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        posted = await scene.attempt()
        assert [unit.prompt for unit in posted] == [prompt.text for prompt in PROMPTS]
        assert len({unit.unit for unit in posted}) == await scene.count() == len(PROMPTS)
        assert not list((scene.folder / "postings").glob("*.json"))
        assert len([text for text in scene.said if text.startswith("posting ")]) == 2

    play(tmp_path, story)


@pytest.mark.parametrize("was_sent", [True, False])
def test_a_lost_answer_posts_nothing_twice(tmp_path: Path, *, was_sent: bool) -> None:
    async def story(scene: Scene) -> None:
        real = scene.client.send

        async def lose(extrinsic: bytes, *, until: str = "finalized") -> Outcome:
            if was_sent:
                await real(extrinsic, until=until)
            raise NodeUnreachableError("the connection broke")

        scene.client.send = lose  # type: ignore[method-assign]  # the node submits, then is gone
        with pytest.raises(PostError, match=r"32 units, from 0x[0-9a-f]{64} on may have been sent: repeat"):
            await scene.attempt(b"first ")
        scene.client.send = real  # type: ignore[method-assign]  # it is back
        async with beating(scene.node):
            posted = await scene.attempt(b"second ")  # another try seals anew, with other salts
        assert len({unit.unit for unit in posted}) == await scene.count() == len(PROMPTS)
        assert [unit.prompt for unit in posted] == [prompt.text for prompt in PROMPTS]

    play(tmp_path, story)


def test_a_node_that_lies_about_what_was_posted_before_makes_nobody_post_twice(tmp_path: Path) -> None:
    """The record then notes a first number that the units do not have; `make liars` found it (`posted_before`)."""

    async def story(scene: Scene) -> None:
        real = scene.client.read

        async def lie(item: Any, *keys: Any, at: bytes | None = None) -> Any:
            value = await real(item, *keys, at=at)
            return value + 1_000_000 if item is InferenceMarket.posted else value

        scene.client.read = lie  # type: ignore[method-assign]  # from a node that counts a million units more
        with pytest.raises(PostError, match="ask another node"):
            await scene.attempt(b"first ")
        scene.client.read = real  # type: ignore[method-assign]  # another node
        posted = await scene.attempt(b"second ")
        assert len({unit.unit for unit in posted}) == await scene.count() == len(PROMPTS)

    play(tmp_path, story)


@pytest.mark.parametrize("was_sent", [True, False])
def test_who_wants_no_more_learns_what_was_posted_and_sends_nothing(tmp_path: Path, *, was_sent: bool) -> None:
    async def story(scene: Scene) -> None:
        real = scene.client.send

        async def lose(extrinsic: bytes, *, until: str = "finalized") -> Outcome:
            if was_sent:
                await real(extrinsic, until=until)
            raise NodeUnreachableError("the connection broke")

        scene.client.send = lose  # type: ignore[method-assign]  # the node submits or not, then is gone
        with pytest.raises(PostError, match="may have been sent"):
            await scene.attempt()
        scene.client.send = refuse  # type: ignore[method-assign]
        with PostingRecord.open(scene.folder / "postings", b"these") as record:
            if not was_sent:
                record.parts[0].expires_at = 3  # the played chain has one epoch, which is shorter
            async with beating(scene.node):
                posted = await scene.run(record, b"", PRICE).settle_alone()
            assert len(record.parts) == (1 if was_sent else 0)
        assert len(posted) == await scene.count() == (32 if was_sent else 0)
        assert "looking for it, sending nothing" in scene.said[-1]

    play(tmp_path, story)


async def refuse(extrinsic: bytes, *, until: str = "finalized") -> Outcome:
    raise AssertionError("nothing is to be sent")


def test_nothing_more_is_posted_once_it_is_over(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        answers = iter([False, True])
        with PostingRecord.open(scene.folder / "postings", b"these") as record:
            posted = await scene.run(record, b"", PRICE).run(lambda: next(answers))
        assert len(posted) == await scene.count() == 32

    play(tmp_path, story)


def beating(node: PlayedNode) -> AbstractAsyncContextManager[None]:
    """Make blocks without anything in them."""
    return growing(node, 0.3, lambda _: True)


def test_what_can_be_in_no_block_any_more_is_signed_anew(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        real = scene.client.send

        async def die(extrinsic: bytes, *, until: str = "finalized") -> Outcome:
            raise NodeUnreachableError("the connection broke")

        scene.client.send = die  # type: ignore[method-assign]  # it never reaches a node
        with pytest.raises(PostError):
            await scene.attempt()
        scene.client.send = real  # type: ignore[method-assign]
        with PostingRecord.open(scene.folder / "postings", b"these") as record:
            assert record.parts[0].expires_at == ERA_BLOCKS
        for _ in range(ERA_BLOCKS + 1):
            scene.node.author()
        async with beating(scene.node):
            await scene.attempt()
        assert await scene.count() == len(PROMPTS)

    play(tmp_path, story)


def test_a_refused_post_says_so_and_is_not_looked_for_again(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        with pytest.raises(PostError, match=r"posting failed in block .* The same command posts what is missing"):
            await scene.attempt(price=1)
        assert len(await scene.attempt()) == len(PROMPTS)

    play(tmp_path, story)


def test_inputs_that_wait_until_their_seal_is_old_are_sealed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posting_once, "SEAL_MARGIN_BLOCKS", 1_000_000)
    monkeypatch.setattr(CountingSealer, "calls", [])

    async def story(scene: Scene) -> None:
        sealer = CountingSealer(scene.client, cast("Any", None), KEY, 0, 1)
        units = [AskedUnit.of(prompt.text.encode(), 1, 0, 16, PRICE) for prompt in PROMPTS]
        progress = Progress(lambda: None, lambda: None, scene.said.append)
        with PostingRecord.open(scene.folder / "postings", b"these") as record:
            await PostingRun(sealer, record, PROMPTS, units, progress).run()
            posted = {
                place: root for part in record.parts for place, root in zip(part.places, part.input_roots, strict=True)
            }
            starts = [part.places[0] for part in record.parts]
            record.forget()
        assert len(starts) == 2
        sealed = [[unit.request for unit in units[start:]] for start in (0, *starts)]
        assert sealer.calls == sealed, "at first all, then those that are left when each part is posted"
        for place, unit in enumerate(units):
            newest = 1 + sum(start <= place for start in starts)
            assert posted[place] == blake2_256(unit.request + bytes([newest])).hex()

    play(tmp_path, story)


def test_a_record_is_one_process_s_and_holds_no_prompt(tmp_path: Path) -> None:
    with PostingRecord.open(tmp_path, b"a", b"b"):
        with pytest.raises(RecordError, match="another `ogpu post`"):
            PostingRecord.open(tmp_path, b"a", b"b")
        with PostingRecord.open(tmp_path, b"ab"):
            pass
    with PostingRecord.open(tmp_path, b"a", b"b") as record:
        record.save()
        assert record.path.stat().st_mode & 0o777 == 0o600
        record.path.write_text("{")
    with pytest.raises(RecordError, match="cannot be read"):
        PostingRecord.open(tmp_path, b"a", b"b")
