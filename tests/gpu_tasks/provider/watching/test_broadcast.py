"""A provider's notes through a real broker: their content, their readers, and an absent broker."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiomqtt
import pytest

from devnet.launcher.free_ports import one_free_port
from devnet.proofs.telemetry import BrokerRelay
from gpu_tasks.data.program_left import LogLine
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.provider.chain.port import Identity
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.worker_pool import WorkerPool
from gpu_tasks.provider.execution.worker_start import workers_with
from gpu_tasks.provider.execution.workloads import Workloads
from gpu_tasks.provider.watching import broadcast as broadcast_module
from gpu_tasks.provider.watching import sender as sender_module
from gpu_tasks.provider.watching.broadcast import TaskBroadcast
from gpu_tasks.provider.watching.outbox import NoteOutbox
from gpu_tasks.provider.watching.sender import BrokerSender
from gpu_tasks.telemetry.broker import broker_connection, parse_broker
from gpu_tasks.telemetry.envelope import (
    Channel,
    DeviceSubject,
    ProviderSubject,
    TaskSubject,
    TelemetryMessage,
    read_message,
)
from gpu_tasks.telemetry.notes import (
    NOTE,
    BeatNote,
    DeviceNote,
    EventNote,
    LogNote,
    NoteField,
    PresenceNote,
    ProgressNote,
    TelemetryNote,
)
from mosquitto import Mosquitto, mosquitto
from runtime.cryptography.signatures import Scheme
from staged import staged
from wallet.keypair import Keypair

KEY = Keypair.from_seed(Scheme.ED25519, b"p" * 32)
IDENTITY = Identity.of(b"s" * 32, KEY, b"g" * 32)
CPU = Hardware("CPU", "CPU-1", DeviceClass.CPU, 0, None)
DEVICE, TASK = b"d" * 32, b"t" * 32
CUSTOMER = SealKey.from_seed(b"c" * 32)


class Scene:
    """A provider at a broker, and a reader of all the broker's messages."""

    def __init__(self, broker: Mosquitto, reader: aiomqtt.Client | None) -> None:
        self.broker = broker
        self.said: list[str] = []
        workers = WorkerPool([CPU], Workloads(), workers_with("numpy"))
        workers.serve({DEVICE: CPU})
        self.outbox = NoteOutbox()
        address = parse_broker(broker.url, is_private_allowed=True)
        self.sender = BrokerSender(address, IDENTITY, self.outbox, self.said.append, is_private=True)
        self.broadcast = TaskBroadcast(self.sender, self.outbox, workers)
        self._reader = reader

    async def next(self) -> tuple[TelemetryMessage, TelemetryNote]:
        assert self._reader is not None
        message = await asyncio.wait_for(anext(self._reader.messages), 20)
        told = read_message(bytes(message.payload), str(message.topic), self.sender.topics)
        is_sealed = isinstance(told.subject, TaskSubject)
        return told, NOTE.decode(CUSTOMER.open_note(told.payload) if is_sealed else told.payload)

    async def of_task(self) -> tuple[TelemetryMessage, TelemetryNote]:
        while True:
            told, note = await self.next()
            if isinstance(told.subject, TaskSubject) and not isinstance(note, BeatNote):
                return told, note


@contextlib.asynccontextmanager
async def at_a_broker(folder: Path) -> AsyncIterator[Scene]:
    with mosquitto(folder) as broker:
        async with broker_connection(parse_broker(broker.url, is_private_allowed=True), private=True) as reader:
            await reader.subscribe("ogpu/#", 1)
            scene = Scene(broker, reader)
            async with scene.broadcast:
                yield scene


@staged(at_a_broker)
async def test_a_provider_says_that_it_is_there_and_what_its_devices_are_at(scene: Scene) -> None:
    heard = [await scene.next() for _ in range(2)]
    notes = {type(told.subject): note for told, note in heard}
    assert notes[ProviderSubject] == PresenceNote(is_here=True)
    device = notes[DeviceSubject]
    assert isinstance(device, DeviceNote)
    assert (device.name, device.is_working) == ("CPU", False)


@staged(at_a_broker)
async def test_of_a_task_its_customer_hears_while_it_is_worked_on(scene: Scene) -> None:
    broadcast = scene.broadcast
    broadcast.tell("bid", task=TASK, price=7)  # without any reader
    broadcast.begin(TASK, 3, DEVICE, CUSTOMER.public)
    broadcast.tell("computed", task=TASK, milestone=1, device=DEVICE)
    broadcast.tell("computed", task=b"o" * 32, milestone=9)
    broadcast.tell("serving", device=DEVICE)
    told, note = await scene.of_task()
    assert told.subject == TaskSubject(TASK, 3)
    fields = (NoteField("milestone", "1"), NoteField("device", "0x64646464.."))
    assert note == EventNote("computed", fields)
    broadcast.end(TASK)
    broadcast.tell("computed", task=TASK, milestone=2)
    broadcast.begin(TASK, 4, DEVICE, CUSTOMER.public)
    broadcast.tell("computed", task=TASK, milestone=3)
    while True:  # the broker's kept message of place 3 is taken back first, with an empty one
        message = await asyncio.wait_for(anext(scene._reader.messages), 20)  # type: ignore[union-attr]
        if not message.payload:
            assert str(message.topic).endswith("/3/status")
            break
    told, note = await scene.of_task()
    assert (told.subject, told.number) == (TaskSubject(TASK, 4), 1)


@staged(at_a_broker)
async def test_what_a_program_says_is_kept_until_the_task_is_over(scene: Scene) -> None:
    said = (LogLine(1, is_error=False, text="one"), LogLine(2, is_error=True, text="two"))

    scene.broadcast.lines(TASK, said, 3)  # no one works on it, so it has no reader
    scene.broadcast.begin(TASK, 0, DEVICE, CUSTOMER.public)
    scene.broadcast.lines(TASK, said, 3)
    assert (await scene.of_task())[1] == LogNote(said, 3)
    topic = scene.sender.topics.of(TaskSubject(TASK, 0), Channel.LOG)
    assert await kept(scene.broker, topic)
    scene.broadcast.end(TASK)
    while len(scene.outbox):
        await asyncio.sleep(0.05)
    assert not await kept(scene.broker, topic)


async def kept(broker: Mosquitto, topic: str) -> bool:
    """Return True if a new subscriber receives a kept message."""
    async with broker_connection(parse_broker(broker.url, is_private_allowed=True), private=True) as late:
        await late.subscribe(topic, 1)
        try:
            return bool((await asyncio.wait_for(anext(late.messages), 0.5)).payload)
        except TimeoutError:
            return False


@staged(at_a_broker)
async def test_progress_is_told_once_a_second_and_at_the_end(scene: Scene) -> None:
    scene.broadcast.begin(TASK, 0, DEVICE, CUSTOMER.public)
    for done in range(1, 101):
        scene.broadcast.progress(TASK, done, 100, 5)
    notes = [(await scene.of_task())[1] for _ in range(2)]
    assert [note.done for note in notes if isinstance(note, ProgressNote)] == [1, 100]


@staged(at_a_broker)
async def test_a_reader_that_is_none_hears_nothing_and_harms_nothing(scene: Scene) -> None:
    scene.broadcast.begin(b"n" * 32, 0, DEVICE, bytes(32))
    scene.broadcast.tell("computed", task=b"n" * 32)
    scene.broadcast.begin(TASK, 0, DEVICE, CUSTOMER.public)
    scene.broadcast.tell("computed", task=TASK)
    assert (await scene.of_task())[0].subject == TaskSubject(TASK, 0)


@staged(at_a_broker)
async def test_a_beat_says_how_much_was_told(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast_module, "SAMPLE_SECONDS", 0.05)
    scene.broadcast.begin(TASK, 0, DEVICE, CUSTOMER.public)
    scene.broadcast.progress(TASK, 1, 1, 0)
    scene.broadcast.progress(TASK, 1, 1, 0)
    while True:
        _, note = await scene.next()
        if isinstance(note, BeatNote) and note.progress:
            assert note == BeatNote(0, 2)
            return


def test_what_is_told_while_the_broker_is_away_is_told_later_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_module, "RECONNECT_SECONDS", (0.1,))

    async def main(broker: Mosquitto) -> None:
        scene = Scene(broker, None)
        async with scene.broadcast:
            scene.broadcast.begin(TASK, 0, DEVICE, CUSTOMER.public)
            scene.broadcast.tell("computed", task=TASK, milestone=1)
            while len(scene.outbox):
                await asyncio.sleep(0.05)
            broker.kill()
            for number in range(2, 5):
                scene.broadcast.tell("computed", task=TASK, milestone=number)
            await asyncio.sleep(0.5)
            assert scene.said
            assert broker.url in scene.said[0]
            await asyncio.to_thread(broker.start)
            async with broker_connection(parse_broker(broker.url, is_private_allowed=True), private=True) as reader:
                await reader.subscribe("ogpu/#", 1)
                scene._reader = reader
                heard = [await scene.of_task()]
                while heard[-1][0].number < 4:
                    heard.append(await scene.of_task())
                numbers = [told.number for told, _ in heard]
                assert numbers == sorted(set(numbers))

    with mosquitto(tmp_path) as broker:
        asyncio.run(asyncio.wait_for(main(broker), 60))


@pytest.mark.parametrize("is_cut", [True, False])
def test_a_provider_that_is_gone_is_said_to_be(tmp_path: Path, *, is_cut: bool) -> None:
    """The broker says so with words that the provider has signed before, or the provider itself if it has the time."""

    async def main(broker: Mosquitto) -> None:
        relay = BrokerRelay(one_free_port(), broker.port)
        async with relay, broker_connection(parse_broker(broker.url, is_private_allowed=True), private=True) as reader:
            await reader.subscribe("ogpu/+/providers/#", 1)
            scene = Scene(replace(broker, port=relay.port), reader)
            async with scene.broadcast:
                told, note = await scene.next()
                assert (told.number, note) == (1, PresenceNote(is_here=True))
                if is_cut:
                    relay.abort_connections()
                    told, note = await scene.next()
            if not is_cut:
                told, note = await scene.next()
            assert (told.number, note) == (2, PresenceNote(is_here=False))

    with mosquitto(tmp_path) as broker:
        asyncio.run(asyncio.wait_for(main(broker), 60))


async def test_so_many_tasks_are_watched_and_one_that_is_goes_on_from_another_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(broadcast_module, "WATCHED_MAX", 1)
    outbox, nobody = NoteOutbox(), cast("Any", None)
    broadcast = TaskBroadcast(nobody, outbox, nobody)
    for task, place in ((TASK, 3), (b"o" * 32, 0), (TASK, 1), (TASK, 1)):
        broadcast.begin(task, place, DEVICE, CUSTOMER.public)
        broadcast.tell("computed", task=task)
    told = []
    while len(outbox):
        told.append((await outbox.first()).subject)
        outbox.sent(await outbox.first())
    assert told == [TaskSubject(TASK, 3), TaskSubject(TASK, 1), TaskSubject(TASK, 1)]


async def test_a_broker_that_is_gone_at_the_farewell_does_not_keep_the_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop of the whole machine ends daemon and broker together, and the disconnection fails then."""
    is_connected = asyncio.Event()

    async def publish(*_: object, **__: object) -> None:
        is_connected.set()

    @contextlib.asynccontextmanager
    async def connection(*_: object, **__: object) -> AsyncIterator[Any]:
        is_first = not is_connected.is_set()
        try:
            yield SimpleNamespace(publish=publish, _disconnected=asyncio.get_running_loop().create_future())
        finally:
            # Only once, so that a sender that goes on can be ended.
            if is_first:
                raise aiomqtt.MqttError("the disconnection timed out")

    monkeypatch.setattr(sender_module, "broker_connection", connection)
    monkeypatch.setattr(sender_module, "RECONNECT_SECONDS", (0.0,))
    address = parse_broker("mqtt://127.0.0.1:1883", is_private_allowed=True)
    sender = BrokerSender(address, IDENTITY, NoteOutbox(), list[str]().append, is_private=True)
    sending = asyncio.create_task(sender.run())
    await is_connected.wait()
    sending.cancel()
    done, _ = await asyncio.wait({sending}, timeout=20)
    assert done == {sending}
    assert sending.cancelled()
