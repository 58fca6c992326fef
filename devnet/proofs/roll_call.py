"""`python -m devnet.proofs.roll_call`: a roll call over real nodes and daemons; exit 1 if a bar fails.

Four providers enrol, answer, are given work or none, withdraw; one daemon is killed after its commit, one lies, one
proves less than its class claims. Always: everything is done by the programs that people run; what is judged was read
from final blocks; a device is judged by its part alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, TypeVar

from devnet.launcher import programs
from devnet.launcher.errors import DevnetError
from devnet.launcher.layout import Devnet
from devnet.stage.actors import purchase
from devnet.stage.network import Follower, FreshDevnet, Stage
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
COUNTED: Mapping[type[Any], str] = {
    ev.DeviceEnrolled: "enrolled",
    ev.CapacityCommitted: "committed",
    ev.RowsOpened: "opened",
    ev.RowsObjected: "objections",
    ev.DeviceUnenrolled: "left",
    DeviceAssigned: "assigned",
}
"""Events of a device, each with the counter of `RollCallTrace` that counts them."""


class RollCallPart(Enum):
    """What a provider does at the roll call."""

    HONEST = "answers"
    KILLED = "is killed with -9 after its commit, and comes back"
    LIAR = "commits to rows that nobody computed"
    WEAK = "proves less than its class claims"

    @property
    def may_work(self) -> bool:
        """Whether the device is given work after it."""
        return self in {RollCallPart.HONEST, RollCallPart.KILLED}


@dataclass(slots=True)
class RollCallTrace:
    """What final blocks say of the devices at a roll call."""

    is_called: bool = False
    enrolled: Counter[bytes] = field(default_factory=Counter)
    committed: Counter[bytes] = field(default_factory=Counter)
    rates: dict[bytes, int] = field(default_factory=dict)
    opened: Counter[bytes] = field(default_factory=Counter)
    objections: Counter[bytes] = field(default_factory=Counter)
    lost: Counter[bytes] = field(default_factory=Counter)
    """Grains of roll-call bonds."""
    left: Counter[bytes] = field(default_factory=Counter)
    assigned: Counter[bytes] = field(default_factory=Counter)
    """To units, by device."""
    failed: int = 0
    """Extrinsics that cost their fee, and did nothing."""

    def take(self, events: Iterable[object]) -> None:
        """What happened in one more block."""
        for event in events:
            for kind, name in COUNTED.items():
                if isinstance(event, kind):
                    getattr(self, name)[event.device] += 1
            self._take(event)

    def _take(self, event: object) -> None:
        match event:
            case ev.RollCalled():
                self.is_called = True
            case ev.CapacityCommitted(device, _, rate):
                self.rates[device] = rate
            case ev.RollCallBondLost(device, _, amount):
                self.lost[device] += amount
            case ExtrinsicFailed():
                self.failed += 1
            case _:
                pass


@dataclass(frozen=True, slots=True)
class CalledProvider:
    """One provider at the roll call, and what its programs said after it."""

    name: str
    part: RollCallPart
    device: bytes
    begun: int
    """How often its daemon began to compute the chain of this roll call."""
    why_no_work: str | None
    """As `ogpu-provider status` says it."""
    diagnosis: str | None
    """Of `ogpu-provider doctor` about its device at roll calls; None where it was not asked, or has nothing to say."""


@dataclass(frozen=True, slots=True)
class DeviceFigures:
    """What became of one device, for the report."""

    name: str
    part: RollCallPart
    rate: int
    objections: int
    units: int
    bond_lost_grains: int
    status: str | None
    doctor: str | None

    @classmethod
    def of(cls, trace: RollCallTrace, each: CalledProvider) -> DeviceFigures:
        """Return the figures of a provider's device."""
        rate, objections = trace.rates.get(each.device, 0), trace.objections[each.device]
        units, lost = trace.assigned[each.device], trace.lost[each.device]
        return cls(each.name, each.part, rate, objections, units, lost, each.why_no_work, each.diagnosis)


@dataclass(frozen=True, slots=True)
class CalledDevices:
    """What came of the roll call."""

    providers: list[DeviceFigures]
    failures: list[str]


def judge(trace: RollCallTrace, providers: Iterable[CalledProvider], bonds: Mapping[bytes, int]) -> list[str]:
    """What is not as it must be; `bonds` are the grains that were held for each device."""
    found = [] if trace.is_called else ["there was no roll call"]
    if trace.failed:
        found.append(f"{trace.failed} calls cost their fee, and did nothing")
    for provider in providers:
        found += [f"{provider.name}: {words}" for words in _of(trace, provider, bonds.get(provider.device, 0))]
    return found


def _of(trace: RollCallTrace, provider: CalledProvider, bond: int) -> list[str]:
    device, part = provider.device, provider.part
    times = {"enrolled": trace.enrolled, "committed": trace.committed, "shown": trace.opened, "withdrawn": trace.left}
    found = [f"{word} {counter[device]} times, not once" for word, counter in times.items() if counter[device] != 1]
    if provider.begun != 1:
        found.append(f"its chain was computed {provider.begun} times, not once")
    objections = trace.objections[device]
    if (objections >= OBJECTIONS_LEAST) != (part is RollCallPart.LIAR) or (objections and part.may_work):
        found.append(f"{objections} inspectors object")
    wanted = bond if part is RollCallPart.LIAR else 0
    if not bond or trace.lost[device] != wanted:
        found.append(f"it lost {trace.lost[device]} of {bond} grains, not {wanted}")
    if bool(trace.assigned[device]) != part.may_work:
        found.append(f"it was drawn for {trace.assigned[device]} units")
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
"""Some 32 and half a thousand million operations: the first is enough in up to 32 slots, the second never."""
FIRST_CALL, PERIOD = 90, 1_200
"""The specification plans a roll call early, which the first period would not have; the next is far away."""
NUMBERS = {"Capacity.roll_calls": 1, "Capacity.period": PERIOD, "Capacity.cpu_rate_min": 1}
UNITS = 4
"""Each with as many racers as have proven enough: one that has not would be among them."""
BLOCKS_MAX = 2 * FIRST_CALL


@dataclass(slots=True)
class HeldRollCall:
    """The devices, and what final blocks have said so far."""

    stage: Stage
    devices: dict[str, bytes] = field(default_factory=dict)
    trace: RollCallTrace = field(default_factory=RollCallTrace)
    bonds: dict[bytes, int] = field(default_factory=dict)
    providers: list[CalledProvider] = field(default_factory=list)
    blocks: Follower = field(init=False)

    def __post_init__(self) -> None:
        """Read from the first block on."""
        self.blocks = Follower(self.stage, self._take)

    def play(self) -> CalledDevices:
        """Play the whole roll call; return what is to be judged."""
        tell = self.stage.tell
        self.stage.ask(self._know_devices)
        self.stage.restart({name: "made-up-rows" for name, part in CAST.items() if part is RollCallPart.LIAR})
        tell.line("Enrol: four devices, each with a bond")
        _all(self._enrol)
        self.blocks.read_on()
        if self.trace.is_called:
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

    async def _take(self, _: ChainClient, __: int, ___: bytes, event: object) -> None:
        self.trace.take([event])

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
        self.blocks.until("a roll call", lambda: trace.is_called, BLOCKS_MAX)
        for name in (name for name, part in CAST.items() if part is RollCallPart.KILLED):
            self.blocks.until(f"the commit of {name}", lambda name=name: self._told(name, "roll_call_commit") > 0, 30)  # type: ignore[misc]
            self.stage.kill_and_restart(name, "after its commit")
        everybody = set(self.devices.values())
        self.blocks.until("that all have shown their rows", lambda: set(trace.opened) == everybody, times.CALL_BLOCKS)
        tell.line(
            f"all have shown their rows at final block {self.blocks.next_height - 1}; inspectors compute them again"
        )
        called = self.stage.ask(lambda chain: chain.read(Capacity.current))
        if called is None:
            raise DevnetError("the chain knows of no roll call")
        over = times.over_at(called)
        self.blocks.until("the end of the roll call", lambda: self.blocks.next_height > over, times.CALL_BLOCKS)

    def _told(self, name: str, event: str) -> int:
        """Return how often a daemon told an event."""
        return sum(line["event"] == event for line in self.stage.telemetry(name))

    def _asked(self, name: str) -> CalledProvider:
        """Return what a provider's own programs say of its device."""
        device, hexed = self.devices[name], f"0x{self.devices[name].hex()}"
        rows = json.loads(self.stage.provider(name, "status", is_shown=False))["devices"]
        (row,) = (row for row in rows if row["device"] == hexed)
        says: list[str] = []
        if not CAST[name].may_work:  # it takes long, and ends with 1 where something is wrong
            words = (*self.stage.provider_words(name), "doctor", "--sandbox", "none")
            _, said = programs.tried("ogpu-provider", *words, keyring=self.stage.net.keyring)
            says = [each["says"] for each in json.loads(said or "[]") if each["check"].endswith("at roll calls")]
        begun = self._told(name, "roll_call")
        return CalledProvider(name, CAST[name], device, begun, row["why_no_work"], says[0] if says else None)

    def _named(self, name: str) -> str:
        return f"0x{self.devices[name].hex()[:12]}"

    def _sent(self, name: str, *words: str) -> None:
        """Give a command of the stash, which waits until its calls are final."""
        self.stage.provider(name, *words, "--stash", f"//{name}")


def _all(do: Callable[[str], T]) -> list[T]:
    """Do it for everybody at once, as people would."""
    with ThreadPoolExecutor(len(CAST)) as pool:
        return list(pool.map(do, CAST))


def call_early(run: ProofRun, net: Devnet) -> None:
    """Have the chain's specification say when its first roll call is; nothing of it runs yet."""
    spec = load_spec(net.chain_spec.read_bytes())
    planned = {storage_prefix("Capacity", "Planned"): codec(U32).encode(run.options.first_call)}
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
