"""`python -m devnet.proofs.telemetry`: customers watch tasks through a failing broker, on a live devnet of four.

The requirements under every broker fault: the task ends with a result, and the same milestones count. It takes at most
`DELAY_MAX` times the blocks of an undisturbed one, plus BLOCKS_SPARED. No stranger's message is accepted as the
provider's, no message is heard twice, and the program names the broker's fault.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from devnet.launcher import layout, lifecycle, processes, programs
from devnet.launcher.broker import broker_program
from devnet.launcher.folder import DevnetError
from devnet.launcher.free_ports import one_free_port
from devnet.stage.actors import task_sale
from devnet.stage.network import CUSTOMER_KEY, Stage
from devnet.stage.report import FOLDER
from devnet.stage.scenario import LiveProof, ProofOption, ProofRun, Scenario, run
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.telemetry.broker import broker_connection, parse_broker
from gpu_tasks.telemetry.envelope import (
    Channel,
    TaskSubject,
    TelemetryMessage,
    TelemetryTopics,
    payload_of,
    read_message,
    sign_message,
)
from gpu_tasks.telemetry.notes import EventNote, NoteField
from runtime.cryptography.signatures import Scheme
from wallet.keypair import Keypair
from wallet.suri import keypair_from_suri

DELAY_MAX = 1.5
BLOCKS_SPARED = 8
MILESTONES = 6
SHORT_STEPS = 6_000
LONG_STEPS = 20_000
AWAY_SECONDS = 6.0
SLOW_SECONDS = 0.5
HEARD_OUT_SECONDS = 90.0
INPUT = "verses.txt"
HONEST = "honest"
PART_BYTES = 4_096


@dataclass(slots=True)
class BrokerRelay:
    """A relay on a loopback port in front of another port; use `async with`."""

    port: int
    target: int
    delay_seconds: float = 0.0
    """The delay of each part, in both directions, in sequence."""
    hands_on: asyncio.Event = field(default_factory=asyncio.Event)
    """While it is not set, data from the target is withheld and connections stay open."""
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _running: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        """Listen."""
        self.hands_on.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening, and abort all connections."""
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def cut(self) -> None:
        """Abort all connections."""
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            with contextlib.suppress(OSError):
                inner, outer = await asyncio.open_connection("127.0.0.1", self.target)
                self._open |= {writer, outer}
                await asyncio.gather(self._pass(reader, outer, kept=False), self._pass(inner, writer, kept=True))
        finally:
            self._open.discard(writer)
            writer.transport.abort()
            self._running.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, kept: bool) -> None:
        """Copy until either side ends, and then end the other. With `kept`, the data may be withheld."""
        try:
            while part := await reader.read(PART_BYTES):
                if self.delay_seconds:
                    await asyncio.sleep(self.delay_seconds)
                if kept:
                    await self.hands_on.wait()
                writer.write(part)
                await writer.drain()
        finally:
            writer.transport.abort()
            self._open.discard(writer)


FORGED_EVENT = "computed_by_a_stranger"
FORGERIES = 30
REPLAYS = 5
FLOOD_SECONDS = 6.0
APART_SECONDS = 0.2


async def forge(stage: BrokerStage, task: bytes) -> None:
    """Publish forgeries: noise, a stranger's signature, and a true message with another number or topic."""
    url, genesis, customer = stage.broker, stage.genesis, keypair_from_suri(CUSTOMER_KEY, Scheme.SR25519)
    topics, key = TelemetryTopics(genesis), Keypair.from_seed(Scheme.ED25519, os.urandom(32))
    here = TaskSubject(task, 0)
    note = EventNote(FORGED_EVENT, (NoteField("milestone", "999"),))
    payload = payload_of(note, SealKey.of(customer).public)
    async with broker_connection(parse_broker(url, private=True), private=True) as client:
        await client.subscribe(topics.task(task), 1)
        true = bytes((await anext(client.messages)).payload)
        for number in range(FORGERIES):
            told = _some(true, topics, task)
            mine = replace(told, provider_key=key.public_key, payload=payload, number=told.number + 1)
            bent = replace(told, payload=payload, number=told.number + 1)
            await client.publish(topics.of(here, Channel.STATUS), os.urandom(200), 1)
            await client.publish(topics.of(here, Channel.STATUS), sign_message(mine, genesis, key.sign), 1)
            await client.publish(topics.of(here, Channel.STATUS), sign_message(bent, genesis, key.sign), 1)
            await client.publish(topics.of(TaskSubject(task, number % 4), Channel.LOG), true, 1)
            await asyncio.sleep(APART_SECONDS)


async def replay(stage: BrokerStage, task: bytes) -> None:
    """Publish some true messages of a task repeatedly."""
    topics, kept = TelemetryTopics(stage.genesis), []
    async with broker_connection(parse_broker(stage.broker, private=True), private=True) as client:
        await client.subscribe(topics.task(task), 1)
        for _ in range(6):
            message = await anext(client.messages)
            kept.append((str(message.topic), bytes(message.payload)))
        for _ in range(REPLAYS):
            for topic, payload in kept:
                await client.publish(topic, payload, 1)
            await asyncio.sleep(APART_SECONDS)


async def flood(stage: BrokerStage, task: bytes) -> None:
    """Publish as much noise as the broker accepts for a while."""
    topic = TelemetryTopics(stage.genesis).of(TaskSubject(task, 0), Channel.STATUS)
    loop = asyncio.get_running_loop()
    end = loop.time() + FLOOD_SECONDS
    async with broker_connection(parse_broker(stage.broker, private=True), private=True) as client:
        while loop.time() < end:
            await asyncio.gather(*(client.publish(topic, os.urandom(1_000), 0) for _ in range(100)))


def _some(raw: bytes, topics: TelemetryTopics, task: bytes) -> TelemetryMessage:
    """Return a message of a task, of any channel."""
    for channel in Channel:
        topic = topics.of(TaskSubject(task, 0), channel)
        try:
            return replace(read_message(raw, topic, topics), channel=Channel.STATUS)
        except ValueError:
            continue
    raise AssertionError("what the provider told belongs somewhere")


@dataclass(slots=True)
class BrokerStage(Stage):
    """A devnet with its broker behind a relay, which runs in its own thread."""

    relay: BrokerRelay = field(kw_only=True)
    loop: asyncio.AbstractEventLoop = field(kw_only=True)
    troubles: list[Future[None]] = field(default_factory=list)
    undisturbed_blocks: int = 0
    """The blocks at work of a short task without any fault, or 0 if none was run."""

    @property
    def genesis(self) -> bytes:
        """The id of its chain's block 0."""
        return layout.genesis_hash(self.net)

    @property
    def broker(self) -> str:
        """The address of the broker itself: strangers bypass the relay."""
        return f"mqtt://127.0.0.1:{self.net.broker_port}"

    def soon(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a coroutine beside the task."""
        self.troubles.append(asyncio.run_coroutine_threadsafe(work, self.loop))

    def calm(self) -> None:
        """Wait until all faults are over, and raise their exceptions."""
        for trouble in self.troubles:
            trouble.result(HEARD_OUT_SECONDS)
        self.troubles.clear()


Trouble = Callable[[BrokerStage, bytes], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class WatchedTask:
    """One task, and its broker's fault after the first message."""

    name: str
    title: str
    says: str | None
    """A phrase that some sentence about the broker must contain. None if there must be no such sentence."""
    hears_all: bool
    """True if every milestone must be heard."""
    trouble: Trouble | None = None
    steps: int = SHORT_STEPS


@dataclass(slots=True)
class HeardTask:
    """The messages heard about a task: the rows of `ogpu logs -f`."""

    rows: list[dict[str, Any]]
    outcome: str
    milestones: int
    blocks_at_work: int
    blocks_most: int | None = None
    """The limit on `blocks_at_work`."""
    notes: int = field(init=False)
    problems: list[str] = field(init=False)
    """The sentences about the broker."""

    def __post_init__(self) -> None:
        """Count messages and problems."""
        self.notes = sum(row["kind"] != "problem" for row in self.rows)
        self.problems = [row["says"] for row in self.rows if row["kind"] == "problem"]


def watched(task: WatchedTask, stage: BrokerStage) -> HeardTask:
    """Sell a task, listen to it, and cause the fault after the first message."""
    listener = TaskListener(stage, task.trouble)
    sale = task_sale.sell(stage, _file(stage, task), on_row=lambda row: listener.begin(bytes.fromhex(row["task"][2:])))
    record = task_sale.record(stage, sale.task_id)
    listener.end()
    stage.calm()
    slot = record.slots[0]
    outcome = "none" if record.outcome is None else record.outcome.name.lower()
    milestones = record.behind + record.done + (slot.result is not None)
    heard = HeardTask(listener.heard, outcome, milestones, slot.finished_at - record.started_at)
    if task.name == HONEST:
        stage.undisturbed_blocks = heard.blocks_at_work
    if stage.undisturbed_blocks and task.steps == SHORT_STEPS:
        heard.blocks_most = int(DELAY_MAX * stage.undisturbed_blocks) + BLOCKS_SPARED
    for text in dict.fromkeys(heard.problems):
        stage.tell.line(f"said: {text}")
    return heard


def failures_of(task: WatchedTask, heard: HeardTask) -> Iterator[str]:
    """Yield every failed requirement."""
    computed = Counter(
        row["fields"].get("milestone") for row in heard.rows if row["kind"] == "event" and row["event"] == "computed"
    )
    if heard.outcome != "on_time" or heard.milestones != MILESTONES:
        yield f"the task ended {heard.outcome}, with {heard.milestones} milestones"
    if any(row.get("event") == FORGED_EVENT for row in heard.rows):
        yield "what a stranger told was taken for the provider's"
    if twice := [number for number, count in computed.items() if count > 1]:
        yield f"milestones {twice} were heard of more than once"
    if task.hears_all and len(computed) != MILESTONES:
        yield f"of {MILESTONES} milestones {len(computed)} were heard of"
    if not heard.notes:
        yield "nothing was heard"
    said = " | ".join(heard.problems)
    if task.says is None and said:
        yield f"it was said: {said}"
    if task.says and task.says not in said:
        yield f"it was not said that the broker {task.says}"
    if heard.blocks_most is not None and heard.blocks_at_work > heard.blocks_most:
        yield f"it took {heard.blocks_at_work} blocks, and at most {heard.blocks_most} are allowed"


class TaskListener:
    """`ogpu logs -f` of one task in a thread, which causes the fault after the first message."""

    def __init__(self, stage: BrokerStage, trouble: Trouble | None) -> None:
        """Begin without a task."""
        self.heard: list[dict[str, Any]] = []
        self._stage, self._trouble = stage, trouble
        self._thread: threading.Thread | None = None
        self._failure: DevnetError | None = None

    def begin(self, task: bytes) -> None:
        """Listen to a task, once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._listen, args=(task,), daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Wait until the program has seen the end of the task."""
        assert self._thread is not None, "it was begun with the first row"
        self._thread.join(HEARD_OUT_SECONDS)
        if self._failure is not None:
            raise self._failure

    def _listen(self, task: bytes) -> None:
        net, trouble = self._stage.net, self._trouble
        words = ("--url", net.members[-1].rpc_url, "logs", "0x" + task.hex(), "--key", CUSTOMER_KEY, "-f")
        try:
            for row in programs.lines("ogpu", *words, keyring=net.keyring, show=self._stage.tell.command):
                self.heard.append(row)
                if trouble is not None and row["kind"] != "problem":
                    self._stage.soon(trouble(self._stage, task))
                    trouble = None
        except DevnetError as error:
            self._failure = error


async def broker_killed(stage: BrokerStage, _: bytes) -> None:
    """Kill the broker, and restart it after a while."""
    (broker,) = lifecycle.brokers(stage.net)
    await asyncio.to_thread(processes.kill, broker)
    stage.relay.cut()
    await asyncio.sleep(AWAY_SECONDS)
    await asyncio.to_thread(processes.start, broker)


async def broker_slow(stage: BrokerStage, _: bytes) -> None:
    """Delay each part for a while."""
    stage.relay.delay_seconds = SLOW_SECONDS
    await asyncio.sleep(AWAY_SECONDS)
    stage.relay.delay_seconds = 0.0


async def broker_mute(stage: BrokerStage, _: bytes) -> None:
    """Withhold all messages for a while."""
    stage.relay.hands_on.clear()
    await asyncio.sleep(HEARD_OUT_SECONDS / 2)
    stage.relay.hands_on.set()


TASKS = (
    WatchedTask(HONEST, "Nothing goes wrong", None, hears_all=True),
    WatchedTask("down", "The broker is killed, and restarted after a while", "is unreachable", False, broker_killed),
    WatchedTask("slow", "Each part of what goes to and from the broker takes half a second", "", True, broker_slow),
    WatchedTask("forged", "A stranger publishes what no provider told", "forged", True, forge),
    WatchedTask("replayed", "A stranger publishes again what was told", "replayed", True, replay),
    WatchedTask("flooded", "A stranger floods the task's topic", "floods", False, flood),
    WatchedTask(
        "withheld", "The broker takes all, and hands nothing on", "no messages come, but the provider answers", False,
        broker_mute, LONG_STEPS,
    ),
)  # fmt: skip


@contextmanager
def behind_relay(run: ProofRun) -> Iterator[BrokerStage]:
    """Open a devnet with bidding providers. Raise DevnetError without Mosquitto."""
    if broker_program() is None:
        raise DevnetError("Mosquitto is not installed: apt-get install mosquitto")
    run.tell.step(f"Network: {run.options.validators} validators, each with a GPU provider; a broker behind a relay")
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    shutil.rmtree(run.folder, ignore_errors=True)
    net = layout.create(run.folder, run.options.validators, providers=True, any_ports=True)
    net = layout.before_broker(net, one_free_port())
    assert net.broker_port is not None, "there is a Mosquitto"
    assert net.relay_port is not None, "given above"
    relay = BrokerRelay(net.relay_port, net.broker_port)
    asyncio.run_coroutine_threadsafe(relay.__aenter__(), loop).result(10)
    try:
        lifecycle.up(net)
        stage = BrokerStage(net, run.tell, run.options, relay=relay, loop=loop)
        task_sale.let_bid(stage, task_sale.ASKS)
        yield stage
    finally:
        lifecycle.down(net)
        asyncio.run_coroutine_threadsafe(relay.__aexit__(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)


def _file(stage: Stage, task: WatchedTask) -> Path:
    """Write the example in six parts, with the task's number of steps, and return the file's path."""
    folder = stage.net.folder / "tasks"
    folder.mkdir(exist_ok=True)
    shutil.copy(task_sale.EXAMPLES / INPUT, folder / INPUT)
    file = folder / f"{task.name}.yaml"
    text = task_sale.RELAY.read_text(encoding="utf-8")
    file.write_text(text.replace("length: 300", f"length: {task.steps}"), encoding="utf-8")
    return file


def figures(facts: Mapping[str, HeardTask]) -> str:
    """Return the line of figures."""
    said = sum(len(set(each.problems)) for each in facts.values())
    notes = sum(each.notes for each in facts.values())
    return f"{len(facts)} tasks, {notes} notes heard, {said} problems of brokers named"


PROOF = LiveProof(
    "telemetry",
    "Tasks are watched, whatever brokers do.",
    [
        Scenario(task.name, task.title, behind_relay, partial(watched, task), partial(failures_of, task))
        for task in TASKS
    ],
    figures,
    (ProofOption("--validators", 4, "of the network, each a provider too"),),
    folder=FOLDER / "telemetry-net",
)

if __name__ == "__main__":
    run(PROOF)
