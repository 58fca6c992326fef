"""Listening at a real broker, with keys looked up on a chain behind a real RPC server: each lie is named."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import aiomqtt
import pytest

from genesis import dev_accounts
from gpu_tasks.client.tasks import subscriber as listening_module
from gpu_tasks.client.tasks.subscriber import BrokerListener, HeardNote, ToldSlot
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.telemetry.broker import broker_connection, parse_broker
from gpu_tasks.telemetry.envelope import Channel, ProviderSubject, TaskSubject, TelemetryTopics
from gpu_tasks.telemetry.notes import NO_METER, BeatNote, EventNote, PresenceNote, ProgressNote
from mosquitto import Mosquitto, mosquitto
from runtime.cryptography.signatures import Scheme
from telemetry_senders import CUSTOMER, SOMETHING, TASK, Teller
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet.suri import keypair_from_suri
from wallet_runner import chain

ALICE = dev_accounts.stash("Alice")


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


def play(folder: Path, url: str, body: Callable[[Scene, Mosquitto], Awaitable[None]], key: SealKey = CUSTOMER) -> None:
    async def main(broker: Mosquitto) -> None:
        address = parse_broker(broker.url, private=True)
        async with await ChainClient.connect(url) as client, broker_connection(address, private=True) as publisher:
            scene = Scene(client, publisher)
            slots = {(TASK, 0): ToldSlot(TASK, 0, ALICE, address)}
            scene.listener = BrokerListener(address, client, key, scene.keep, slots, {})
            running = asyncio.create_task(scene.listener.run())
            await asyncio.sleep(0.3)  # it subscribes
            try:
                await body(scene, broker)
                assert not running.done()
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    with mosquitto(folder) as broker:
        asyncio.run(asyncio.wait_for(main(broker), 60))


def test_what_the_provider_tells_is_heard_and_nothing_else_is_said(tmp_path: Path, url: str) -> None:
    async def body(scene: Scene, _: Mosquitto) -> None:
        progress = ProgressNote(1, 2, 3, NO_METER)
        await scene.tell(1)
        await scene.tell(1, progress, channel=Channel.METRICS)
        await scene.tell(2, BeatNote(0, 1))
        await scene.hears(SOMETHING, progress, BeatNote(0, 1))
        assert [hearing.problem for hearing in scene.heard] == [None] * 3

    play(tmp_path, url, body)


def test_lies_are_named_and_not_heard(tmp_path: Path, url: str) -> None:
    async def body(scene: Scene, _: Mosquitto) -> None:
        stranger = Teller(Keypair.from_seed(Scheme.ED25519, b"q" * 32), genesis=scene.topics.genesis)
        topic, raw = scene.teller.told(5, EventNote("bent", ()))
        await scene.publish(topic, raw[:-1] + bytes((raw[-1] ^ 1,)))
        await scene.says("its signature is wrong")
        scene.heard.clear()
        await scene.publish(*stranger.told(6))
        await scene.says("signed by somebody whom it does not concern")
        await scene.publish(topic, b"noise")
        await scene.says("it is no message")
        await scene.tell(7)
        await scene.tell(7, subject=TaskSubject(TASK, 1))
        await scene.hears(SOMETHING)
        await scene.tell(6)
        await scene.says("replayed: number 6 was told before number 7")
        assert scene.notes == [SOMETHING]

    play(tmp_path, url, body)


def test_what_is_left_out_thrown_away_late_or_held_back_is_said(tmp_path: Path, url: str) -> None:
    async def body(scene: Scene, _: Mosquitto) -> None:
        await scene.tell(1)
        await scene.tell(1, ProgressNote(1, 2, 3, NO_METER), channel=Channel.METRICS)
        await scene.tell(4, dropped=9)
        await scene.tell(5, BeatNote(0, 2))
        await scene.tell(6, told_at_ms=time.time_ns() // 1_000_000 - 60_000)
        await scene.says(
            "2 messages before this one were not handed over",
            "9 notes before this one the provider itself threw away",
            "1 messages of the metrics are held back",
            "60 s late",
        )
        assert len(scene.notes) == 5

    play(tmp_path, url, body)


def test_a_provider_that_is_gone_is_said_by_the_broker(tmp_path: Path, url: str) -> None:
    async def body(scene: Scene, _: Mosquitto) -> None:
        gone = Teller(scene.teller.key, ALICE, scene.topics.genesis, ProviderSubject(ALICE), None)
        await scene.publish(*gone.told(1, PresenceNote(is_here=True)))
        await scene.publish(*gone.told(2, PresenceNote(is_here=False)))
        await scene.says("says that the provider's connection broke off")
        assert len(scene.heard) == 1

    play(tmp_path, url, body)


def test_another_customers_task_is_not_opened(tmp_path: Path, url: str) -> None:
    async def body(scene: Scene, _: Mosquitto) -> None:
        await scene.tell(1)
        await scene.says("not sealed to this key")
        assert scene.notes == []

    play(tmp_path, url, body, SealKey.from_seed(b"d" * 32))


def test_a_flood_is_said_and_looked_at_in_part(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening_module, "LOOKED_AT_MAX", 20)

    async def body(scene: Scene, _: Mosquitto) -> None:
        topic = scene.teller.told(1)[0]
        for _number in range(100):
            await scene.publish(topic, b"noise")
        await scene.says("floods: beyond 20 a second")
        await asyncio.sleep(1.1)
        assert scene.listener._complaints._counts["forged"] < 100
        await scene.tell(2)
        await scene.hears(SOMETHING)

    play(tmp_path, url, body)


def test_strangers_keys_keep_no_provider_out(tmp_path: Path, url: str) -> None:
    """Whoever may write to a topic has the broker keep messages of many keys: they come before any of the provider."""

    async def body(scene: Scene, _: Mosquitto) -> None:
        for number in range(70):
            key = Keypair.from_seed(Scheme.ED25519, bytes((number,)) * 32)
            await scene.publish(*Teller(key, genesis=scene.topics.genesis).told(1, channel=Channel.LOG))
        await scene.says("signed by somebody whom it does not concern")
        await scene.tell(1)
        await scene.hears(SOMETHING)
        assert list(scene.listener._owners.values()) == [ALICE]

    play(tmp_path, url, body)


def test_a_provider_that_changed_its_key_is_heard_and_its_old_key_is_not(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening_module, "KEY_SECONDS", 0.0)
    before = Keypair.from_seed(Scheme.ED25519, b"q" * 32)

    async def body(scene: Scene, _: Mosquitto) -> None:
        listener = scene.listener
        listener._owners[before.public_key], listener._keys[ALICE] = ALICE, (before.public_key, 0.0)
        old = Teller(before, ALICE, scene.topics.genesis)
        await scene.publish(*old.told(1))
        await scene.hears(SOMETHING)
        await scene.tell(1)
        await scene.hears(SOMETHING, SOMETHING)
        await scene.publish(*old.told(2))
        await scene.says("signed by somebody whom it does not concern")
        assert len(scene.notes) == 2

    play(tmp_path, url, body)


def test_a_broker_that_is_gone_is_said_and_tried_again(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening_module, "RECONNECT_SECONDS", (0.2,))

    async def body(scene: Scene, broker: Mosquitto) -> None:
        await scene.tell(1)
        await scene.hears(SOMETHING)
        broker.kill()
        await scene.says(f"the broker {broker.url} is gone")
        await asyncio.to_thread(broker.start)
        async with broker_connection(parse_broker(broker.url, private=True), private=True) as publisher:
            scene._publisher = publisher
            number = 1
            async with asyncio.timeout(20):
                while len(scene.notes) < 2:
                    number += 1
                    await scene.tell(number)
                    await asyncio.sleep(0.1)

    play(tmp_path, url, body)
