"""Brokers of providers' notes: who tells where, and each lie of a broker is named."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import aiomqtt
import pytest

from blob_servers import serving
from genesis import dev_accounts
from gpu_tasks.client.tasks import subscriber as listening_module
from gpu_tasks.client.tasks.streams import TaskHearings
from gpu_tasks.client.tasks.subscriber import BrokerBook, BrokerListener, BrokerTrouble, HeardNote, ToldSlot
from gpu_tasks.data.blob_client import BlobClient, BlobError
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.training.tasks import Slot, Task, TaskState
from gpu_tasks.telemetry.broker import BrokerAddress, broker_connection, parse_broker
from gpu_tasks.telemetry.envelope import Channel, ProviderSubject, TaskSubject, TelemetryTopics
from gpu_tasks.telemetry.ledger import NOT_ITS
from gpu_tasks.telemetry.notes import NO_METER, BeatNote, EventNote, PresenceNote, ProgressNote
from mosquitto import Mosquitto, mosquitto
from planted_state import chain_with
from priced_tasks import a_task
from runtime.cryptography.signatures import Scheme
from runtime.frame.runtime import Bound
from telemetry_senders import CUSTOMER, SOMETHING, TASK, Teller
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet.suri import keypair_from_suri
from wallet_runner import chain

# Who tells of a slot and where: by the chain, and by the provider's own word, which is a stranger's.


ALICE, BOB = dev_accounts.stash("Alice"), dev_accounts.stash("Bob")
TOLD_TASK = b"t" * 32


def told(state: TaskState, *stashes: bytes) -> Task:
    slots = tuple(Slot(stash, b"d" * 32, 1, 1, 1) for stash in stashes)
    return a_task(state=state, slots=slots)


@asynccontextmanager
async def with_endpoint(folder: Path, endpoint: str) -> AsyncIterator[BrokerBook]:
    """On a chain where Alice's blob store is there."""

    def plant(bound: Bound) -> None:
        devices = bound[Devices]
        record = devices.providers[ALICE]
        assert record is not None
        devices.providers[ALICE] = replace(record, endpoint=endpoint.encode())

    folder.mkdir()
    with chain_with(folder, plant) as url:
        async with await ChainClient.connect(url) as client, BlobClient(private=True) as blobs:
            yield BrokerBook(client, blobs)


@pytest.mark.parametrize("state", TaskState)
def test_who_is_heard_of_has_a_slot_by_now_and_has_it_still(state: TaskState) -> None:
    address, nobody = BrokerAddress("mqtt", "127.0.0.1", 1884), cast("Any", None)
    slots = asyncio.run(BrokerBook(nobody, nobody, address).slots({TOLD_TASK: told(state, ALICE, BOB)}))
    over = {TaskState.ENDED, TaskState.ASKING, TaskState.VOLUNTEERING}
    before = {TaskState.COMMITTING, TaskState.REVEALING, TaskState.AWARDING}
    expected = [ToldSlot(TOLD_TASK, 0, ALICE, address), ToldSlot(TOLD_TASK, 1, BOB, address)]
    assert slots == ([] if state in over | before else expected)


def test_a_trouble_that_comes_again_is_said_again_and_one_that_lasts_once() -> None:
    async def main() -> list[str | None]:
        hearings = TaskHearings(cast("Any", None), cast("Any", None), (TOLD_TASK,))
        slot, found = ToldSlot(TOLD_TASK, 0, ALICE, None), []
        for problem in ("none", "none", None, "none", "another"):
            await hearings._say_if_new(slot, problem, BrokerTrouble.NO_BROKER)
        while not hearings._queue.empty():
            heard = hearings._queue.get_nowait()
            assert heard is not None
            found.append(heard.problem)
        return found

    assert asyncio.run(main()) == ["none", "none", "another"]


async def test_the_provider_names_its_broker(tmp_path: Path) -> None:
    with serving(tmp_path / "blobs", "mqtt://127.0.0.1:1884") as endpoint:
        async with with_endpoint(tmp_path / "chain", endpoint) as book:
            address = BrokerAddress("mqtt", "127.0.0.1", 1884)
            assert await book.slots({TOLD_TASK: told(TaskState.RUNNING, ALICE)}) == [
                ToldSlot(TOLD_TASK, 0, ALICE, address)
            ]
            assert await book.answers(ALICE)


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        (None, "names no broker"),
        ("http://127.0.0.1:1884", "invalid broker address"),
        ("", "invalid broker address"),
    ],
)
async def test_a_provider_without_a_broker_is_said(tmp_path: Path, named: str | None, problem: str) -> None:
    with serving(tmp_path / "blobs", named) as endpoint:
        async with with_endpoint(tmp_path / "chain", endpoint) as book:
            (slot,) = await book.slots({TOLD_TASK: told(TaskState.RUNNING, ALICE)})
            assert slot.broker is None
            assert problem in (slot.problem or "")
            assert await book.answers(ALICE)


def test_a_store_that_answers_with_an_error_is_online() -> None:
    answers = {code: BlobError("", code=code).is_answer for code in ("store_refused", "answer_too_long")}
    silent = {code: BlobError("", code=code).is_answer for code in ("store_slow", "store_unreachable", "wrong_bytes")}
    assert all(answers.values())
    assert not any(silent.values())


async def test_a_provider_that_is_away_does_not_answer(tmp_path: Path) -> None:
    async with with_endpoint(tmp_path / "chain", "http://127.0.0.1:1") as book:
        (slot,) = await book.slots({TOLD_TASK: told(TaskState.RUNNING, ALICE)})
        assert "cannot be reached" in (slot.problem or "")
        assert not await book.answers(ALICE)
        assert not await book.answers(b"n" * 32)


async def test_the_users_own_broker_comes_before_all(tmp_path: Path) -> None:
    async with with_endpoint(tmp_path / "chain", "http://127.0.0.1:1") as book:
        book.override = BrokerAddress("mqtt", "gpu.example.org", 1883)
        slots = await book.slots({TOLD_TASK: told(TaskState.RUNNING, ALICE, BOB)})
        assert slots == [ToldSlot(TOLD_TASK, place, stash, book.override) for place, stash in enumerate((ALICE, BOB))]


@pytest.mark.parametrize("state", [TaskState.COMMITTING, TaskState.REVEALING, TaskState.ASKING, TaskState.ENDED])
async def test_nobody_tells_of_a_task_that_nobody_works_on(tmp_path: Path, state: TaskState) -> None:
    async with with_endpoint(tmp_path / "chain", "http://127.0.0.1:1") as book:
        assert await book.slots({TOLD_TASK: told(state, ALICE)}) == []


async def test_a_long_answer_is_no_broker_and_is_not_shown(tmp_path: Path) -> None:
    """A quarter of a megabyte of words in a cell of the table of `ogpu top` took 6.4 seconds of CPU to be drawn."""

    with serving(tmp_path / "blobs", "x " * 300) as endpoint:
        async with with_endpoint(tmp_path / "chain", endpoint) as book:
            (slot,) = await book.slots({TOLD_TASK: told(TaskState.RUNNING, ALICE)})
            assert slot.broker is None
            assert slot.problem is not None
            assert "sent more than 512 bytes" in slot.problem
            assert len(slot.problem) < 200
            assert await book.answers(ALICE)


# Listening at a real broker, with keys looked up on a chain behind a real RPC server: each lie is named.


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with chain(tmp_path_factory.mktemp("chain")) as url:
        yield url


class Scene:
    """A listener, and a provider at the same broker."""

    listener: BrokerListener

    def __init__(self, client: ChainClient, publisher: aiomqtt.Client) -> None:
        self.heard: list[HeardNote] = []
        self._publisher = publisher
        key = keypair_from_suri("//Alice//provider", Scheme.ED25519)
        self.teller = Teller(key, ALICE, client.genesis_hash)
        self.topics = TelemetryTopics(client.genesis_hash)

    async def keep(self, hearing: HeardNote) -> None:
        self.heard.append(hearing)

    async def publish(self, topic: str, raw: bytes) -> None:
        await self._publisher.publish(topic, raw, 1)

    async def tell(self, number: int, *arguments: object, **other: object) -> None:
        told_at = {"told_at_ms": time.time_ns() // 1_000_000}
        await self.publish(*self.teller.told(number, *arguments, **{**told_at, **other}))  # type: ignore[arg-type]

    @property
    def notes(self) -> list[object]:
        return [hearing.note for hearing in self.heard if hearing.note is not None]

    async def says(self, *parts: str) -> None:
        """Until all of these were said."""
        async with asyncio.timeout(20):
            while not all(any(part in (each.problem or "") for each in self.heard) for part in parts):
                await asyncio.sleep(0.02)

    async def hears(self, *notes: object) -> None:
        async with asyncio.timeout(20):
            while self.notes != list(notes):
                await asyncio.sleep(0.02)


@asynccontextmanager
async def played(folder: Path, url: str, key: SealKey = CUSTOMER) -> AsyncIterator[tuple[Scene, Mosquitto]]:
    with mosquitto(folder) as broker:
        address = parse_broker(broker.url, is_private_allowed=True)
        async with await ChainClient.connect(url) as client, broker_connection(address, private=True) as publisher:
            scene = Scene(client, publisher)
            slots = {(TASK, 0): ToldSlot(TASK, 0, ALICE, address)}
            scene.listener = BrokerListener(address, client, key, scene.keep, slots, {})
            running = asyncio.create_task(scene.listener.run())
            await asyncio.sleep(0.3)  # it subscribes
            try:
                yield scene, broker
                assert not running.done()
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)


async def test_what_the_provider_tells_is_heard_and_nothing_else_is_said(tmp_path: Path, url: str) -> None:
    async with played(tmp_path, url) as (scene, _):
        progress = ProgressNote(1, 2, 3, NO_METER)
        await scene.tell(1)
        await scene.tell(1, progress, channel=Channel.METRICS)
        await scene.tell(2, BeatNote(0, 1))
        await scene.hears(SOMETHING, progress, BeatNote(0, 1))
        assert [hearing.problem for hearing in scene.heard] == [None] * 3


async def test_lies_are_named_and_not_heard(tmp_path: Path, url: str) -> None:
    async with played(tmp_path, url) as (scene, _):
        stranger = Teller(Keypair.from_seed(Scheme.ED25519, b"q" * 32), genesis=scene.topics.genesis)
        topic, raw = scene.teller.told(5, EventNote("bent", ()))
        await scene.publish(topic, raw[:-1] + bytes((raw[-1] ^ 1,)))
        await scene.says("wrong signature")
        scene.heard.clear()
        await scene.publish(*stranger.told(6))
        await scene.says(str(NOT_ITS.problem))
        await scene.publish(topic, b"noise")
        await scene.says("not a message")
        await scene.tell(7)
        await scene.tell(7, subject=TaskSubject(TASK, 1))
        await scene.hears(SOMETHING)
        await scene.tell(6)
        await scene.says("replayed: number 6 came after number 7")
        assert scene.notes == [SOMETHING]


async def test_what_is_left_out_thrown_away_late_or_held_back_is_said(tmp_path: Path, url: str) -> None:
    async with played(tmp_path, url) as (scene, _):
        await scene.tell(1)
        await scene.tell(1, ProgressNote(1, 2, 3, NO_METER), channel=Channel.METRICS)
        await scene.tell(4, dropped=9)
        await scene.tell(5, BeatNote(0, 2))
        await scene.tell(6, told_at_ms=time.time_ns() // 1_000_000 - 60_000)
        await scene.says(
            "2 messages ",
            "dropped 9 notes ",
            "1 messages of the metrics ",
            "60 s late",
        )
        assert len(scene.notes) == 5


async def test_a_provider_that_is_gone_is_said_by_the_broker(tmp_path: Path, url: str) -> None:
    async with played(tmp_path, url) as (scene, _):
        gone = Teller(scene.teller.key, ALICE, scene.topics.genesis, ProviderSubject(ALICE), None)
        await scene.publish(*gone.told(1, PresenceNote(is_here=True)))
        await scene.publish(*gone.told(2, PresenceNote(is_here=False)))
        await scene.says("reports that the provider disconnected")
        assert len(scene.heard) == 1


async def test_another_customers_task_is_not_opened(tmp_path: Path, url: str) -> None:
    async with played(tmp_path, url, SealKey.from_seed(b"d" * 32)) as (scene, _):
        await scene.tell(1)
        await scene.says("not sealed to this key")
        assert scene.notes == []


async def test_a_flood_is_said_and_looked_at_in_part(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening_module, "LOOKED_AT_MAX", 20)

    async with played(tmp_path, url) as (scene, _):
        topic = scene.teller.told(1)[0]
        for _number in range(100):
            await scene.publish(topic, b"noise")
        await scene.says("beyond 20 messages a second")
        await asyncio.sleep(1.1)
        assert scene.listener._complaints._counts["forged"] < 100
        await scene.tell(2)
        await scene.hears(SOMETHING)


async def test_strangers_keys_keep_no_provider_out(tmp_path: Path, url: str) -> None:
    """A writer of a topic can make the broker keep messages of many keys, which arrive before the provider's."""

    async with played(tmp_path, url) as (scene, _):
        for number in range(70):
            key = Keypair.from_seed(Scheme.ED25519, bytes((number,)) * 32)
            await scene.publish(*Teller(key, genesis=scene.topics.genesis).told(1, channel=Channel.LOG))
        await scene.says(str(NOT_ITS.problem))
        await scene.tell(1)
        await scene.hears(SOMETHING)
        assert list(scene.listener._owners.values()) == [ALICE]


async def test_a_provider_that_changed_its_key_is_heard_and_its_old_key_is_not(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening_module, "KEY_SECONDS", 0.0)
    before = Keypair.from_seed(Scheme.ED25519, b"q" * 32)

    async with played(tmp_path, url) as (scene, _):
        listener = scene.listener
        listener._owners[before.public_key], listener._keys[ALICE] = ALICE, (before.public_key, 0.0)
        old = Teller(before, ALICE, scene.topics.genesis)
        await scene.publish(*old.told(1))
        await scene.hears(SOMETHING)
        await scene.tell(1)
        await scene.hears(SOMETHING, SOMETHING)
        await scene.publish(*old.told(2))
        await scene.says(str(NOT_ITS.problem))
        assert len(scene.notes) == 2


async def test_a_broker_that_is_gone_is_said_and_tried_again(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening_module, "RECONNECT_SECONDS", (0.2,))

    async with played(tmp_path, url) as (scene, broker):
        await scene.tell(1)
        await scene.hears(SOMETHING)
        broker.kill()
        await scene.says(f"the broker {broker.url} is unreachable")
        await asyncio.to_thread(broker.start)
        async with broker_connection(parse_broker(broker.url, is_private_allowed=True), private=True) as publisher:
            scene._publisher = publisher
            number = 1
            async with asyncio.timeout(20):
                while len(scene.notes) < 2:
                    number += 1
                    await scene.tell(number)
                    await asyncio.sleep(0.1)
