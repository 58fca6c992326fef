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
from devnet.stage.report import REPORT_FOLDER
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
MILESTONE_COUNT = 6
SHORT_STEPS = 6_000
LONG_STEPS = 20_000
FAULT_SECONDS = 6.0
DELAY_SECONDS = 0.5
HEARD_OUT_SECONDS = 90.0
INPUT_FILE = "verses.txt"
UNDISTURBED_TASK = "honest"
PART_BYTES = 4_096


@dataclass(slots=True)
class BrokerRelay:
    """A relay on a loopback port in front of another port; use `async with`."""

    port: int
    target: int
    delay_seconds: float = 0.0
    """The delay of each part, in both directions, in sequence."""
    passing_on: asyncio.Event = field(default_factory=asyncio.Event)
    """While it is not set, data from the target is withheld and connections stay open."""
    _server: asyncio.Server | None = None
    _open_writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _serving_tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        """Listen."""
        self.passing_on.set()
        # A relay can fail in ways that a stopped broker cannot: slowly, or with open connections.
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening, and abort all connections."""
        assert self._server is not None
        self._server.close()
        self.abort_connections()
        for running in list(self._serving_tasks):
            running.cancel()
        await asyncio.gather(*self._serving_tasks, return_exceptions=True)

    def abort_connections(self) -> None:
        """Abort all connections."""
        for writer in list(self._open_writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving_task = asyncio.current_task()
        assert serving_task is not None
        self._serving_tasks.add(serving_task)
        try:
            with contextlib.suppress(OSError):
                target_reader, target_writer = await asyncio.open_connection("127.0.0.1", self.target)
                self._open_writers |= {writer, target_writer}
                await asyncio.gather(
                    self._copy(reader, target_writer, may_withhold=False),
                    self._copy(target_reader, writer, may_withhold=True),
                )
        finally:
            self._open_writers.discard(writer)
            writer.transport.abort()
            self._serving_tasks.discard(serving_task)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, may_withhold: bool) -> None:
        """Copy until either side ends, and then end the other. With `kept`, the data may be withheld."""
        try:
            while chunk := await reader.read(PART_BYTES):
                if self.delay_seconds:
                    await asyncio.sleep(self.delay_seconds)
                if may_withhold:
                    await self.passing_on.wait()
                writer.write(chunk)
                await writer.drain()
        finally:
            writer.transport.abort()
            self._open_writers.discard(writer)


FORGED_EVENT = "computed_by_a_stranger"
FORGERY_COUNT = 30
REPLAY_COUNT = 5
FLOOD_SECONDS = 6.0
PUBLISH_PAUSE_SECONDS = 0.2


async def publish_forgeries(stage: BrokerStage, task_id: bytes) -> None:
    """Publish forgeries: noise, a stranger's signature, and a true message with another number or topic."""
    broker_url, genesis_hash, customer = (
        stage.broker_url,
        stage.genesis_hash,
        keypair_from_suri(CUSTOMER_KEY, Scheme.SR25519),
    )
    topics, stranger_keypair = TelemetryTopics(genesis_hash), Keypair.from_seed(Scheme.ED25519, os.urandom(32))
    task_subject = TaskSubject(task_id, 0)
    forged_note = EventNote(FORGED_EVENT, (NoteField("milestone", "999"),))
    forged_payload = payload_of(forged_note, SealKey.of(customer).public)
    async with broker_connection(parse_broker(broker_url, is_private_allowed=True), private=True) as broker:
        await broker.subscribe(topics.task(task_id), 1)
        true_payload = bytes((await anext(broker.messages)).payload)
        for forgery_number in range(FORGERY_COUNT):
            true_message = _read_message(true_payload, topics, task_id)
            stranger_message = replace(
                true_message,
                provider_key=stranger_keypair.public_key,
                payload=forged_payload,
                number=true_message.number + 1,
            )
            bent_message = replace(true_message, payload=forged_payload, number=true_message.number + 1)
            await broker.publish(topics.of(task_subject, Channel.STATUS), os.urandom(200), 1)
            await broker.publish(
                topics.of(task_subject, Channel.STATUS),
                sign_message(stranger_message, genesis_hash, stranger_keypair.sign),
                1,
            )
            await broker.publish(
                topics.of(task_subject, Channel.STATUS),
                sign_message(bent_message, genesis_hash, stranger_keypair.sign),
                1,
            )
            await broker.publish(topics.of(TaskSubject(task_id, forgery_number % 4), Channel.LOG), true_payload, 1)
            await asyncio.sleep(PUBLISH_PAUSE_SECONDS)


async def publish_replays(stage: BrokerStage, task_id: bytes) -> None:
    """Publish some true messages of a task repeatedly."""
    topics, true_messages = TelemetryTopics(stage.genesis_hash), []
    async with broker_connection(parse_broker(stage.broker_url, is_private_allowed=True), private=True) as broker:
        await broker.subscribe(topics.task(task_id), 1)
        for _ in range(6):
            message = await anext(broker.messages)
            true_messages.append((str(message.topic), bytes(message.payload)))
        for _ in range(REPLAY_COUNT):
            for topic, payload in true_messages:
                await broker.publish(topic, payload, 1)
            await asyncio.sleep(PUBLISH_PAUSE_SECONDS)


async def publish_flood(stage: BrokerStage, task_id: bytes) -> None:
    """Publish as much noise as the broker accepts for a while."""
    status_topic = TelemetryTopics(stage.genesis_hash).of(TaskSubject(task_id, 0), Channel.STATUS)
    loop = asyncio.get_running_loop()
    flood_deadline = loop.time() + FLOOD_SECONDS
    async with broker_connection(parse_broker(stage.broker_url, is_private_allowed=True), private=True) as broker:
        while loop.time() < flood_deadline:
            await asyncio.gather(*(broker.publish(status_topic, os.urandom(1_000), 0) for _ in range(100)))


def _read_message(message: bytes, topics: TelemetryTopics, task_id: bytes) -> TelemetryMessage:
    """Return a message of a task, of any channel."""
    for telemetry_channel in Channel:
        topic = topics.of(TaskSubject(task_id, 0), telemetry_channel)
        try:
            return replace(read_message(message, topic, topics), channel=Channel.STATUS)
        except ValueError:
            continue
    raise AssertionError("each message of the provider belongs to a topic")


@dataclass(slots=True)
class BrokerStage(Stage):
    """A devnet with its broker behind a relay, which runs in its own thread."""

    relay: BrokerRelay = field(kw_only=True)
    event_loop: asyncio.AbstractEventLoop = field(kw_only=True)
    faults: list[Future[None]] = field(default_factory=list)
    undisturbed_blocks: int = 0
    """The blocks at work of a short task without any fault, or 0 if none was run."""

    @property
    def genesis_hash(self) -> bytes:
        """The id of its chain's block 0."""
        return layout.genesis_hash(self.devnet)

    @property
    def broker_url(self) -> str:
        """The address of the broker itself: strangers bypass the relay."""
        return f"mqtt://127.0.0.1:{self.devnet.broker_port}"

    def start_fault(self, fault: Coroutine[Any, Any, None]) -> None:
        """Start a coroutine beside the task."""
        self.faults.append(asyncio.run_coroutine_threadsafe(fault, self.event_loop))

    def wait_for_faults(self) -> None:
        """Wait until all faults are over, and raise their exceptions."""
        for fault in self.faults:
            fault.result(HEARD_OUT_SECONDS)
        self.faults.clear()


BrokerFault = Callable[[BrokerStage, bytes], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class WatchedTask:
    """One task, and its broker's fault after the first message."""

    name: str
    title: str
    says: str | None
    """A phrase that some sentence about the broker must contain. None if there must be no such sentence."""
    hears_all: bool
    """True if every milestone must be heard."""
    fault: BrokerFault | None = None
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


def sell_and_watch(task: WatchedTask, stage: BrokerStage) -> HeardTask:
    """Sell a task, listen to it, and cause the fault after the first message."""
    listener = TaskListener(stage, task.fault)
    sale = task_sale.sell_task(
        stage, _write_task_file(stage, task), on_row=lambda row: listener.listen_to(bytes.fromhex(row["task"][2:]))
    )
    record = task_sale.record(stage, sale.task_id)
    listener.wait_for_end()
    stage.wait_for_faults()
    first_slot = record.slots[0]
    outcome = "none" if record.outcome is None else record.outcome.name.lower()
    milestones = record.behind + record.done + (first_slot.result is not None)
    heard = HeardTask(listener.heard, outcome, milestones, first_slot.finished_at - record.started_at)
    if task.name == UNDISTURBED_TASK:
        stage.undisturbed_blocks = heard.blocks_at_work
    if stage.undisturbed_blocks and task.steps == SHORT_STEPS:
        # Blocks and not seconds, because a slow machine delays the chain as much as the task.
        heard.blocks_most = int(DELAY_MAX * stage.undisturbed_blocks) + BLOCKS_SPARED
    for problem in dict.fromkeys(heard.problems):
        stage.narrator.line(f"said: {problem}")
    return heard


def failures_of(task: WatchedTask, heard: HeardTask) -> Iterator[str]:
    """Yield every failed requirement."""
    computed_counts = Counter(
        row["fields"].get("milestone") for row in heard.rows if row["kind"] == "event" and row["event"] == "computed"
    )
    if heard.outcome != "on_time" or heard.milestones != MILESTONE_COUNT:
        yield f"the task ended {heard.outcome}, with {heard.milestones} milestones"
    # Everybody may publish on a task's topic, so only the provider's signature tells its notes from others.
    if any(row.get("event") == FORGED_EVENT for row in heard.rows):
        yield "a stranger's message was taken for the provider's"
    # MQTT's quality of service 1 delivers at least once, so the reader drops repeated numbers.
    if repeated_milestones := [milestone for milestone, heard_count in computed_counts.items() if heard_count > 1]:
        yield f"milestones {repeated_milestones} were heard of more than once"
    if task.hears_all and len(computed_counts) != MILESTONE_COUNT:
        yield f"of {MILESTONE_COUNT} milestones {len(computed_counts)} were heard of"
    if not heard.notes:
        yield "nothing was heard"
    problems_text = " | ".join(heard.problems)
    if task.says is None and problems_text:
        yield f"a program reported: {problems_text}"
    if task.says and task.says not in problems_text:
        yield f"no program reported that the broker {task.says}"
    if heard.blocks_most is not None and heard.blocks_at_work > heard.blocks_most:
        yield f"it took {heard.blocks_at_work} blocks, and at most {heard.blocks_most} are allowed"


class TaskListener:
    """`ogpu logs -f` of one task in a thread, which causes the fault after the first message."""

    def __init__(self, stage: BrokerStage, fault: BrokerFault | None) -> None:
        """Begin without a task."""
        self.heard: list[dict[str, Any]] = []
        self._stage, self._fault = stage, fault
        self._listener_thread: threading.Thread | None = None
        self._failure: DevnetError | None = None

    def listen_to(self, task: bytes) -> None:
        """Listen to a task, once."""
        if self._listener_thread is None:
            self._listener_thread = threading.Thread(target=self._listen, args=(task,), daemon=True)
            self._listener_thread.start()

    def wait_for_end(self) -> None:
        """Wait until the program has seen the end of the task."""
        assert self._listener_thread is not None, "it was begun with the first row"
        self._listener_thread.join(HEARD_OUT_SECONDS)
        if self._failure is not None:
            raise self._failure

    def _listen(self, task_id: bytes) -> None:
        devnet, fault = self._stage.devnet, self._fault
        arguments = ("--url", devnet.members[-1].rpc_url, "logs", "0x" + task_id.hex(), "--key", CUSTOMER_KEY, "-f")
        try:
            for row in programs.lines("ogpu", *arguments, keyring=devnet.keyring, show=self._stage.narrator.command):
                self.heard.append(row)
                if fault is not None and row["kind"] != "problem":
                    self._stage.start_fault(fault(self._stage, task_id))
                    fault = None
        except DevnetError as error:
            self._failure = error


async def kill_broker(stage: BrokerStage, _: bytes) -> None:
    """Kill the broker, and restart it after a while."""
    (broker,) = lifecycle.brokers(stage.devnet)
    await asyncio.to_thread(processes.kill, broker)
    # The relay would hold its clients' connections open to a broker that is gone.
    stage.relay.abort_connections()
    await asyncio.sleep(FAULT_SECONDS)
    await asyncio.to_thread(processes.start, broker)


async def slow_broker(stage: BrokerStage, _: bytes) -> None:
    """Delay each part for a while."""
    stage.relay.delay_seconds = DELAY_SECONDS
    await asyncio.sleep(FAULT_SECONDS)
    stage.relay.delay_seconds = 0.0


async def mute_broker(stage: BrokerStage, _: bytes) -> None:
    """Withhold all messages for a while."""
    # No connection breaks, so only the silence itself can tell the program.
    stage.relay.passing_on.clear()
    await asyncio.sleep(HEARD_OUT_SECONDS / 2)
    stage.relay.passing_on.set()


WATCHED_TASKS = (
    WatchedTask(UNDISTURBED_TASK, "Nothing goes wrong", None, hears_all=True),
    WatchedTask("down", "The broker is killed, and restarted after a while", "is unreachable", False, kill_broker),
    WatchedTask("slow", "Each packet to and from the broker takes half a second", "", True, slow_broker),
    WatchedTask("forged", "A stranger publishes messages of its own", "forged", True, publish_forgeries),
    WatchedTask("replayed", "A stranger publishes old messages again", "replayed", True, publish_replays),
    WatchedTask("flooded", "A stranger floods the task's topic", "floods", False, publish_flood),
    WatchedTask(
        "withheld", "The broker takes all, and hands nothing on", "no messages come, but the provider answers", False,
        mute_broker, LONG_STEPS,
    ),
)  # fmt: skip


@contextmanager
def behind_relay(proof_run: ProofRun) -> Iterator[BrokerStage]:
    """Open a devnet with bidding providers. Raise DevnetError without Mosquitto."""
    if broker_program() is None:
        raise DevnetError("Mosquitto is not installed: apt-get install mosquitto")
    proof_run.narrator.step(
        f"Network: {proof_run.options.validators} validators, each with a GPU provider; a broker behind a relay"
    )
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    shutil.rmtree(proof_run.folder, ignore_errors=True)
    devnet = layout.create(proof_run.folder, proof_run.options.validators, providers=True, any_ports=True)
    devnet = layout.before_broker(devnet, one_free_port())
    assert devnet.broker_port is not None, "there is a Mosquitto"
    assert devnet.relay_port is not None, "given above"
    relay = BrokerRelay(devnet.relay_port, devnet.broker_port)
    asyncio.run_coroutine_threadsafe(relay.__aenter__(), loop).result(10)
    try:
        lifecycle.up(devnet)
        stage = BrokerStage(devnet, proof_run.narrator, proof_run.options, relay=relay, event_loop=loop)
        task_sale.let_bid(stage, task_sale.LEAST_PRICES)
        yield stage
    finally:
        lifecycle.down(devnet)
        asyncio.run_coroutine_threadsafe(relay.__aexit__(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)


def _write_task_file(stage: Stage, task: WatchedTask) -> Path:
    """Write the example in six parts, with the task's number of steps, and return the file's path."""
    tasks_folder = stage.devnet.folder / "tasks"
    tasks_folder.mkdir(exist_ok=True)
    shutil.copy(task_sale.EXAMPLES / INPUT_FILE, tasks_folder / INPUT_FILE)
    file = tasks_folder / f"{task.name}.yaml"
    template = task_sale.RELAY_FILE.read_text(encoding="utf-8")
    file.write_text(template.replace("length: 300", f"length: {task.steps}"), encoding="utf-8")
    return file


def figures(facts_by_scenario: Mapping[str, HeardTask]) -> str:
    """Return the line of figures."""
    problem_count = sum(len(set(heard.problems)) for heard in facts_by_scenario.values())
    note_count = sum(heard.notes for heard in facts_by_scenario.values())
    return f"{len(facts_by_scenario)} tasks, {note_count} notes heard, {problem_count} problems of brokers named"


PROOF = LiveProof(
    "telemetry",
    "Watch tasks through brokers with faults.",
    [
        Scenario(task.name, task.title, behind_relay, partial(sell_and_watch, task), partial(failures_of, task))
        for task in WATCHED_TASKS
    ],
    figures,
    (ProofOption("--validators", 4, "of the network, each a provider too"),),
    folder=REPORT_FOLDER / "telemetry-net",
)

if __name__ == "__main__":
    run(PROOF)
