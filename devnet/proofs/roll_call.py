"""`python -m devnet.proofs.roll_call`: a roll call over real nodes and daemons; exit 1 on a failure.

Four providers enrol, answer, get work or none, and withdraw. One daemon is killed after its commit, one lies, and one
proves less than its class claims. Invariant: all actions use the production programs. The judgement reads final blocks,
and judges each device by its own part.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, TypeVar

from devnet.launcher import programs
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet
from devnet.stage.actors import purchase
from devnet.stage.measuring.ledger import EventTrace
from devnet.stage.network import BlockFollower, FreshDevnet, Stage
from devnet.stage.report import FOLDER
from devnet.stage.scenario import LiveProof, ProofOption, ProofRun, Scenario, run
from genesis import dev_accounts
from genesis.chain import genesis_state
from genesis.presets import load_spec
from genesis.spec import to_json
from gpu_tasks.data import market_reads
from gpu_tasks.market.capacity import events as ev
from gpu_tasks.market.capacity import roll_call as times
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.devices.events import DeviceAssigned
from runtime.encoding.codec import U32, codec
from runtime.frame.storage import storage_prefix
from runtime.pallets.system import ExtrinsicFailed
from wallet.client import ChainClient

T = TypeVar("T")
OBJECTIONS_LEAST = 2
KINDS = (
    ev.RollCalled, ev.DeviceEnrolled, ev.CapacityCommitted, ev.RowsOpened, ev.RowsObjected, ev.RollCallBondLost,
    ev.DeviceUnenrolled, DeviceAssigned, ExtrinsicFailed,
)  # fmt: skip
"""Events that are judged."""
ONCE: Mapping[str, type[Any]] = {
    "enrolled": ev.DeviceEnrolled,
    "committed": ev.CapacityCommitted,
    "shown": ev.RowsOpened,
    "withdrawn": ev.DeviceUnenrolled,
}
"""Events that each device has exactly once."""


class RollCallPart(Enum):
    """The part of a provider at the roll call."""

    HONEST = "answers"
    KILLED = "is killed with -9 after its commit, and comes back"
    LIAR = "commits to rows that nobody computed"
    WEAK = "proves less than its class claims"

    @property
    def may_work(self) -> bool:
        """True if the device gets work after it."""
        return self in {RollCallPart.HONEST, RollCallPart.KILLED}


def times_of(trace: EventTrace, kind: type[Any], device: bytes) -> int:
    """Return the number of a device's events of a kind."""
    return sum(event.device == device for event in trace.events(kind))


def lost_by(trace: EventTrace, device: bytes) -> int:
    """Return the grains that a device has lost of its roll-call bond."""
    return sum(event.amount for event in trace.events(ev.RollCallBondLost) if event.device == device)


@dataclass(frozen=True, slots=True)
class CalledProvider:
    """One provider at the roll call, and the later output of its programs."""

    name: str
    part: RollCallPart
    device: bytes
    begun: int
    """The number of times that its daemon began to compute this roll call's chain."""
    why_no_work: str | None
    """The reason in `ogpu-provider status`."""
    diagnosis: str | None
    """The words of `ogpu-provider doctor` about roll calls. None if it was not queried, or found no problem."""


@dataclass(frozen=True, slots=True)
class DeviceFigures:
    """The figures of one device, for the report."""

    name: str
    part: RollCallPart
    rate: int
    objections: int
    units: int
    bond_lost_grains: int
    status: str | None
    doctor: str | None

    @classmethod
    def of(cls, trace: EventTrace, each: CalledProvider) -> DeviceFigures:
        """Return the figures of a provider's device."""
        device = each.device
        rate = next((event.rate for event in trace.events(ev.CapacityCommitted) if event.device == device), 0)
        objections, units = times_of(trace, ev.RowsObjected, device), times_of(trace, DeviceAssigned, device)
        lost = lost_by(trace, device)
        return cls(each.name, each.part, rate, objections, units, lost, each.why_no_work, each.diagnosis)


@dataclass(frozen=True, slots=True)
class CalledDevices:
    """The outcome of the roll call."""

    providers: list[DeviceFigures]
    failures: list[str]


def judge(trace: EventTrace, providers: Iterable[CalledProvider], bonds: Mapping[bytes, int]) -> list[str]:
    """Return a sentence for each failed requirement. `bonds` are the grains held for each device."""
    found = [] if trace.all(ev.RollCalled) else ["there was no roll call"]
    if failed := len(trace.all(ExtrinsicFailed)):
        found.append(f"{failed} calls cost their fee, and did nothing")
    for provider in providers:
        found += [f"{provider.name}: {words}" for words in _of(trace, provider, bonds.get(provider.device, 0))]
    return found


def _of(trace: EventTrace, provider: CalledProvider, bond: int) -> list[str]:
    device, part = provider.device, provider.part
    counts = {word: times_of(trace, kind, device) for word, kind in ONCE.items()}
    found = [f"{word} {count} times, not once" for word, count in counts.items() if count != 1]
    if provider.begun != 1:
        found.append(f"its chain was computed {provider.begun} times, not once")
    objections, lost, drawn = (
        times_of(trace, ev.RowsObjected, device), lost_by(trace, device), times_of(trace, DeviceAssigned, device)
    )  # fmt: skip
    if (objections >= OBJECTIONS_LEAST) != (part is RollCallPart.LIAR) or (objections and part.may_work):
        found.append(f"{objections} inspectors object")
    wanted = bond if part is RollCallPart.LIAR else 0
    if not bond or lost != wanted:
        found.append(f"it lost {lost} of {bond} grains, not {wanted}")
    if bool(drawn) != part.may_work:
        found.append(f"it was drawn for {drawn} units")
    for word, said in (("status", provider.why_no_work), ("doctor", provider.diagnosis)):
        if bool(said) == part.may_work or (said and "has proven" not in said):
            found.append(f"{word} says of it: {said}")
    return found


CAST = {
    "Alice": RollCallPart.KILLED,
    "Bob": RollCallPart.HONEST,
    "Charlie": RollCallPart.LIAR,
    "Dave": RollCallPart.WEAK,
}
WORK, LITTLE_WORK = "256x4096x60", "256x4096x1"
"""Some 32 and 0.5 billion operations. The first suffices for up to 32 slots, the second never does."""
FIRST_CALL, PERIOD = 90, 1_200
"""The chain specification plans an early roll call, which the default period would delay. The next one is far away."""
NUMBERS = {"Capacity.roll_calls_enabled": 1, "Capacity.period": PERIOD, "Capacity.cpu_rate_min": 1}
UNITS = 4
"""Each with as many racers as there are proven devices, so an unproven one would be drawn too."""
BLOCKS_MAX = 2 * FIRST_CALL


@dataclass(slots=True)
class HeldRollCall:
    """The devices, and their events in final blocks."""

    stage: Stage
    devices: dict[str, bytes] = field(default_factory=dict)
    trace: EventTrace = field(default_factory=EventTrace)
    bonds: dict[bytes, int] = field(default_factory=dict)
    providers: list[CalledProvider] = field(default_factory=list)
    blocks: BlockFollower = field(init=False)

    def __post_init__(self) -> None:
        """Read from the first block on."""
        self.blocks = BlockFollower(self.stage, self._take)

    def play(self) -> CalledDevices:
        """Play the whole roll call, and return its outcome."""
        tell = self.stage.tell
        self.stage.ask(self._know_devices)
        self.stage.restart({name: "made-up-rows" for name, part in CAST.items() if part is RollCallPart.LIAR})
        tell.line("Enrol: four devices, each with a bond")
        _all(self._enrol)
        self.blocks.read_on()
        if self.trace.all(ev.RollCalled):
            raise DevnetError("the roll call began before all had enrolled: name a later block with --first-call")
        tell.line(f"Roll call: {len(CAST)} devices compute in the same blocks; a daemon is killed after its commit")
        self._roll_call()
        tell.line("After it: who has proven enough is drawn for units, the others are told why not")
        purchase.buy(self.stage, purchase.read_prompts(purchase.DEFAULT_PROMPTS, UNITS))
        self.blocks.read_on()
        self.providers = _all(self._asked)
        tell.line("Withdraw: bonds come back, but for the liar's")
        _all(lambda name: self._sent(name, "withdraw", self._named(name)))
        self.blocks.read_on()
        return CalledDevices(
            [DeviceFigures.of(self.trace, each) for each in self.providers],
            judge(self.trace, self.providers, self.bonds),
        )

    async def _take(self, _: ChainClient, height: int, __: bytes, event: object) -> None:
        if isinstance(event, KINDS):
            self.trace.happened.append((height, event))

    async def _know_devices(self, chain: ChainClient) -> None:
        for name in CAST:
            (status,) = await market_reads.devices_of(chain, dev_accounts.stash(name))
            self.devices[name] = status.id

    def _enrol(self, name: str) -> None:
        work = LITTLE_WORK if CAST[name] is RollCallPart.WEAK else WORK
        self._sent(name, "enrol", self._named(name), "--work", work, "--yes")
        entry = self.stage.ask(lambda chain: chain.read(Capacity.enrolments, self.devices[name]))
        self.bonds[self.devices[name]] = 0 if entry is None else int(entry.bond)

    def _roll_call(self) -> None:
        trace, tell = self.trace, self.stage.tell
        self.blocks.until("a roll call", lambda: bool(trace.all(ev.RollCalled)), BLOCKS_MAX)
        for name in (name for name, part in CAST.items() if part is RollCallPart.KILLED):
            self.blocks.until(f"the commit of {name}", lambda name=name: self._told(name, "roll_call_commit") > 0, 30)  # type: ignore[misc]
            self.stage.kill_and_restart(name, "after its commit")
        everybody = set(self.devices.values())
        self.blocks.until(
            "that all have shown their rows",
            lambda: {event.device for event in trace.events(ev.RowsOpened)} == everybody,
            times.CALL_BLOCKS,
        )
        tell.line(
            f"all have shown their rows at final block {self.blocks.next_height - 1}; inspectors compute them again"
        )
        called = self.stage.ask(lambda chain: chain.read(Capacity.current))
        if called is None:
            raise DevnetError("the chain knows of no roll call")
        over = times.over_at(called)
        self.blocks.until("the end of the roll call", lambda: self.blocks.next_height > over, times.CALL_BLOCKS)

    def _told(self, name: str, event: str) -> int:
        """Return the number of a daemon's events of a kind."""
        return sum(line["event"] == event for line in self.stage.telemetry(name))

    def _asked(self, name: str) -> CalledProvider:
        """Return a provider with its own programs' output about its device."""
        device, hexed = self.devices[name], f"0x{self.devices[name].hex()}"
        rows = json.loads(self.stage.provider(name, "status", is_shown=False))["devices"]
        (row,) = (row for row in rows if row["device"] == hexed)
        says: list[str] = []
        if not CAST[name].may_work:  # it takes long, and exits with 1 after any problem
            words = (*self.stage.provider_words(name), "doctor", "--sandbox", "none")
            _, said = programs.tried("ogpu-provider", *words, keyring=self.stage.net.keyring)
            says = [each["says"] for each in json.loads(said or "[]") if each["check"].endswith("at roll calls")]
        begun = self._told(name, "roll_call")
        return CalledProvider(name, CAST[name], device, begun, row["why_no_work"], says[0] if says else None)

    def _named(self, name: str) -> str:
        return f"0x{self.devices[name].hex()[:12]}"

    def _sent(self, name: str, *words: str) -> None:
        """Run a command of the stash, which waits until its calls are final."""
        self.stage.provider(name, *words, "--key", f"//{name}")


def _all(do: Callable[[str], T]) -> list[T]:
    """Do something for all providers concurrently."""
    with ThreadPoolExecutor(len(CAST)) as pool:
        return list(pool.map(do, CAST))


def call_early(run: ProofRun, net: Devnet) -> None:
    """Put the first roll call's block into the chain's specification, before any process starts."""
    spec = load_spec(net.chain_spec.read_bytes())
    planned = {storage_prefix("Capacity", "NextRollCall"): codec(U32).encode(run.options.first_call)}
    # A patch cannot set a single storage entry, so the specification takes the raw form.
    early = replace(spec, patch=None, raw=genesis_state(spec) | planned)
    net.chain_spec.write_text(to_json(early), encoding="utf-8")


def figures(facts: Mapping[str, CalledDevices]) -> str:
    """Return the line of figures."""
    found = facts["roll-call"].providers
    return (
        f"{len(found)} devices, {sum(bool(each.units) for each in found)} given work after it, "
        f"{sum(each.objections for each in found)} objections, "
        f"{sum(bool(each.bond_lost_grains) for each in found)} bonds lost"
    )


NETWORK = FreshDevnet(len(CAST), numbers=NUMBERS, before_start=call_early)
PROOF = LiveProof(
    "rollcall",
    "A roll call over real nodes.",
    [
        Scenario(
            "roll-call", "Four devices at one roll call", NETWORK.open, lambda stage: HeldRollCall(stage).play(),
        ),
    ],
    figures,
    [ProofOption("--first-call", FIRST_CALL, "block of the roll call: after all enrolled")],
    folder=FOLDER / "roll-call",
)  # fmt: skip

if __name__ == "__main__":
    run(PROOF)
