"""One scene after the other: a task is sold, its customer listens, the broker is bad, and what came of it is judged."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devnet.demo import stage, task_sale
from devnet.demo.task_sale import EXAMPLES, SaleRow
from devnet.demo.telling import Narrator
from devnet.launcher import layout, lifecycle, processes, programs
from devnet.launcher.broker import broker_program
from devnet.launcher.errors import DevnetError
from devnet.launcher.free_ports import one_free_port
from devnet.launcher.layout import Devnet
from devnet.proofs.telemetry import scenes, stranger
from devnet.proofs.telemetry.judging import TelemetryFinding, judge
from devnet.proofs.telemetry.relay import BrokerRelay
from devnet.proofs.telemetry.scenes import TelemetryScene
from runtime.cryptography.signatures import Scheme
from wallet.suri import keypair_from_suri

CUSTOMER_KEY = f"//{stage.CUSTOMER}"
AWAY_SECONDS = 6.0
SLOW_SECONDS = 0.5
HEARD_OUT_SECONDS = 90.0
INPUT = "verses.txt"


@dataclass(slots=True)
class Stage:
    """A devnet whose broker stands behind a relay, which runs in a thread of its own."""

    net: Devnet
    relay: BrokerRelay
    loop: asyncio.AbstractEventLoop
    tell: Narrator
    troubles: list[Future[None]] = field(default_factory=list)

    @property
    def genesis(self) -> bytes:
        """Of its chain."""
        return layout.genesis_hash(self.net)

    @property
    def url(self) -> str:
        """Of the broker itself: strangers need no relay."""
        return f"mqtt://127.0.0.1:{self.net.broker_port}"

    def soon(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin something beside the task."""
        self.troubles.append(asyncio.run_coroutine_threadsafe(work, self.loop))

    def calm(self) -> None:
        """All is well again; what went wrong while making trouble is raised."""
        for trouble in self.troubles:
            trouble.result(HEARD_OUT_SECONDS)
        self.troubles.clear()


@contextmanager
def open_stage(folder: Path, validators: int, tell: Narrator) -> Iterator[Stage]:
    """A devnet of validators with a provider each, which bid; DevnetError where there is no Mosquitto."""
    if broker_program() is None:
        raise DevnetError("Mosquitto is not installed: apt-get install mosquitto")
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    shutil.rmtree(folder, ignore_errors=True)
    net = layout.create(folder, validators, providers=True, any_ports=True)
    net = layout.before_broker(net, one_free_port())
    assert net.broker_port is not None, "there is a Mosquitto"
    assert net.relay_port is not None, "given above"
    relay = BrokerRelay(net.relay_port, net.broker_port)
    asyncio.run_coroutine_threadsafe(relay.__aenter__(), loop).result(10)
    try:
        lifecycle.up(net)
        for name, asked in task_sale.ASKS.items():
            task_sale.let_bid(net, name, asked, tell)
        yield Stage(net, relay, loop, tell)
    finally:
        lifecycle.down(net)
        asyncio.run_coroutine_threadsafe(relay.__aexit__(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)


def play(stage_: Stage, scene: TelemetryScene, undisturbed: TelemetryFinding | None) -> TelemetryFinding:
    """Sell a task, listen to it, make the scene's trouble once it is heard of, and judge."""
    listener = _Listener(stage_, scene)

    def on_row(row: SaleRow) -> None:
        listener.begin(bytes.fromhex(row["task"][2:]))

    sale = task_sale.sell(stage_.net, _file(stage_.net, scene), CUSTOMER_KEY, stage_.tell, on_row)
    record = task_sale.record(stage_.net, sale)
    listener.end()
    stage_.calm()
    slot = record.slots[0]
    finding = TelemetryFinding(
        scene,
        listener.heard,
        "none" if record.outcome is None else record.outcome.name.lower(),
        record.behind + record.done + (slot.result is not None),
        slot.finished_at - record.started_at,
    )
    judge(finding, undisturbed)
    stage_.tell.line(f"{scene.name}: {finding.notes} notes, {finding.blocks_at_work} blocks at work")
    for text in dict.fromkeys(finding.problems):
        stage_.tell.line(f"said: {text}")
    for failure in finding.failures:
        stage_.tell.line(f"FAILED: {failure}")
    return finding


class _Listener:
    """`ogpu logs -f` of one task, in a thread; makes the trouble once something is heard."""

    def __init__(self, stage_: Stage, scene: TelemetryScene) -> None:
        self.heard: list[dict[str, Any]] = []
        self._stage, self._scene = stage_, scene
        self._thread: threading.Thread | None = None
        self._failure: DevnetError | None = None

    def begin(self, task: bytes) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._listen, args=(task,), daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Until the program has seen that the task ended."""
        assert self._thread is not None, "it was begun with the first row"
        self._thread.join(HEARD_OUT_SECONDS)
        if self._failure is not None:
            raise self._failure

    def _listen(self, task: bytes) -> None:
        net = self._stage.net
        words = ("--url", net.members[-1].rpc_url, "logs", "0x" + task.hex(), "--key", CUSTOMER_KEY, "-f")
        is_calm = True
        try:
            for row in programs.lines("ogpu", *words, keyring=net.keyring, show=self._stage.tell.command):
                self.heard.append(row)
                if is_calm and row["kind"] != "problem":
                    is_calm = False
                    trouble = _trouble(self._stage, self._scene, task)
                    if trouble is not None:
                        self._stage.soon(trouble)
        except DevnetError as error:
            self._failure = error


def _trouble(stage_: Stage, scene: TelemetryScene, task: bytes) -> Coroutine[Any, Any, None] | None:
    """What befalls the broker."""
    customer = keypair_from_suri(CUSTOMER_KEY, Scheme.SR25519)
    troubles: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
        scenes.DOWN.name: lambda: _down(stage_),
        scenes.SLOW.name: lambda: _slow(stage_),
        scenes.FORGED.name: lambda: stranger.forge(stage_.url, stage_.genesis, task, customer),
        scenes.REPLAYED.name: lambda: stranger.replay(stage_.url, stage_.genesis, task),
        scenes.FLOODED.name: lambda: stranger.flood(stage_.url, stage_.genesis, task),
        scenes.WITHHELD.name: lambda: _withheld(stage_),
    }
    make = troubles.get(scene.name)
    return None if make is None else make()


async def _down(stage_: Stage) -> None:
    (broker,) = lifecycle.brokers(stage_.net)
    await asyncio.to_thread(processes.kill, broker)
    stage_.relay.cut()
    await asyncio.sleep(AWAY_SECONDS)
    await asyncio.to_thread(processes.start, broker)


async def _slow(stage_: Stage) -> None:
    stage_.relay.delay_seconds = SLOW_SECONDS
    await asyncio.sleep(AWAY_SECONDS)
    stage_.relay.delay_seconds = 0.0


async def _withheld(stage_: Stage) -> None:
    stage_.relay.hands_on.clear()
    await asyncio.sleep(HEARD_OUT_SECONDS / 2)
    stage_.relay.hands_on.set()


def _file(net: Devnet, scene: TelemetryScene) -> Path:
    """The example in six parts, of as many steps as the scene needs."""
    folder = net.folder / "tasks"
    folder.mkdir(exist_ok=True)
    shutil.copy(EXAMPLES / INPUT, folder / INPUT)
    file = folder / f"{scene.name}.yaml"
    text = task_sale.RELAY.read_text(encoding="utf-8")
    file.write_text(text.replace("length: 300", f"length: {scene.steps}"), encoding="utf-8")
    return file
