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
from functools import partial
from typing import Any, TypeVar

from devnet.launcher import programs
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet
from devnet.stage.actors import purchase
from devnet.stage.measuring.ledger import EventTrace
from devnet.stage.network import BlockFollower, FreshDevnet, Stage
from devnet.stage.report import REPORT_FOLDER
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
from gpu_tasks.provider.doctor.chain import NOT_ENROLLED, PROVED_TOO_LITTLE
from runtime.encoding.codec import U32, codec
from runtime.frame.storage import storage_prefix
from runtime.pallets.system import ExtrinsicFailed
from wallet.client import ChainClient

ResultT = TypeVar("ResultT")
OBJECTION_COUNT_MIN = 2
JUDGED_EVENTS = (
    ev.RollCalled, ev.DeviceEnrolled, ev.CapacityCommitted, ev.RowsOpened, ev.RowsObjected, ev.RollCallBondLost,
    ev.DeviceUnenrolled, DeviceAssigned, ExtrinsicFailed,
)  # fmt: skip
"""Events that are judged."""
EVENTS_ONCE: Mapping[str, type[Any]] = {
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
    LIAR = "commits to rows that were not computed"
    WEAK = "proves less than its class claims"

    @property
    def may_work(self) -> bool:
        """True if the device gets work after it."""
        return self in {RollCallPart.HONEST, RollCallPart.KILLED}


def event_count_of(trace: EventTrace, event_type: type[Any], device_id: bytes) -> int:
    """Return the number of a device's events of a kind."""
    return sum(event.device == device_id for event in trace.events(event_type))


def grains_lost_by(trace: EventTrace, device_id: bytes) -> int:
    """Return the grains that a device has lost of its roll-call bond."""
    return sum(event.amount for event in trace.events(ev.RollCallBondLost) if event.device == device_id)


@dataclass(frozen=True, slots=True)
class CalledProvider:
    """One provider at the roll call, and the later output of its programs."""

    name: str
    role: RollCallPart
    device: bytes
    begun_count: int
    """The number of times that its daemon began to compute this roll call's chain."""
    why_no_work: str | None
    """The reason in `ogpu-provider status`."""
    diagnosis: str | None
    """The code of `ogpu-provider doctor` about roll calls. None if it was not queried, or found no problem."""


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
    def of(cls, trace: EventTrace, provider: CalledProvider) -> DeviceFigures:
        """Return the figures of a provider's device."""
        device_id = provider.device
        committed_rate = next(
            (event.rate for event in trace.events(ev.CapacityCommitted) if event.device == device_id), 0
        )
        objections, assigned_units = (
            event_count_of(trace, ev.RowsObjected, device_id),
            event_count_of(trace, DeviceAssigned, device_id),
        )
        lost_grains = grains_lost_by(trace, device_id)
        return cls(
            provider.name,
            provider.role,
            committed_rate,
            objections,
            assigned_units,
            lost_grains,
            provider.why_no_work,
            provider.diagnosis,
        )


@dataclass(frozen=True, slots=True)
class CalledDevices:
    """The outcome of the roll call."""

    providers: list[DeviceFigures]
    failures: list[str]


def judge_roll_call(
    trace: EventTrace, providers: Iterable[CalledProvider], bonds_by_device: Mapping[bytes, int]
) -> list[str]:
    """Return a sentence for each failed requirement. `bonds` are the grains held for each device."""
    failures = [] if trace.all(ev.RollCalled) else ["there was no roll call"]
    if failed_calls := len(trace.all(ExtrinsicFailed)):
        failures.append(f"{failed_calls} calls cost their fee, and did nothing")
    for provider in providers:
        failures += [
            f"{provider.name}: {failure}"
            for failure in _failures_of_provider(trace, provider, bonds_by_device.get(provider.device, 0))
        ]
    return failures


def _failures_of_provider(trace: EventTrace, provider: CalledProvider, bond_grains: int) -> list[str]:
    device_id, role = provider.device, provider.role
    event_counts = {fact: event_count_of(trace, event_type, device_id) for fact, event_type in EVENTS_ONCE.items()}
    failures = [f"{fact} {events} times, not once" for fact, events in event_counts.items() if events != 1]
    # The killed daemon must resume from its record, and not compute the chain again.
    if provider.begun_count != 1:
        failures.append(f"its chain was computed {provider.begun_count} times, not once")
    objections, lost_grains, drawn_units = (
        event_count_of(trace, ev.RowsObjected, device_id),
        grains_lost_by(trace, device_id),
        event_count_of(trace, DeviceAssigned, device_id),
    )
    if (objections >= OBJECTION_COUNT_MIN) != (role is RollCallPart.LIAR) or (objections and role.may_work):
        failures.append(f"{objections} inspectors object")
    expected_loss = bond_grains if role is RollCallPart.LIAR else 0
    # A bond of 0 would make the comparison hold without any bond.
    if not bond_grains or lost_grains != expected_loss:
        failures.append(f"it lost {lost_grains} of {bond_grains} grains, not {expected_loss}")
    if bool(drawn_units) != role.may_work:
        failures.append(f"it was drawn for {drawn_units} units")
    # Honest devices must not be told that they have no work: operators would search a fault that is none.
    if bool(provider.why_no_work) == role.may_work:
        failures.append(f"status says of it: {provider.why_no_work}")
    if provider.diagnosis != (None if role.may_work else PROVED_TOO_LITTLE):
        failures.append(f"doctor says of it: {provider.diagnosis}")
    return failures


ROLES_BY_PROVIDER = {
    "Alice": RollCallPart.KILLED,
    "Bob": RollCallPart.HONEST,
    "Charlie": RollCallPart.LIAR,
    "Dave": RollCallPart.WEAK,
}
# Some 32 and 0.5 billion operations. The first suffices for up to 32 slots, the second never does.
FULL_WORK, LITTLE_WORK = "256x4096x60", "256x4096x1"
# The chain specification plans an early roll call, which the default period would delay. The next one is far away.
FIRST_CALL, PERIOD = 90, 1_200
CHAIN_NUMBERS = {"Capacity.roll_calls_enabled": 1, "Capacity.period": PERIOD, "Capacity.cpu_rate_min": 1}
# Each with as many racers as there are proven devices, so an unproven one would be drawn too.
UNIT_COUNT = 4
BLOCKS_MAX = 2 * FIRST_CALL
COMMIT_BLOCKS_MAX = 30


@dataclass(slots=True)
class HeldRollCall:
    """The devices, and their events in final blocks."""

    stage: Stage
    devices_by_name: dict[str, bytes] = field(default_factory=dict)
    trace: EventTrace = field(default_factory=EventTrace)
    bonds_by_device: dict[bytes, int] = field(default_factory=dict)
    providers: list[CalledProvider] = field(default_factory=list)
    block_follower: BlockFollower = field(init=False)

    def __post_init__(self) -> None:
        """Read from the first block on."""
        self.block_follower = BlockFollower(self.stage, self._record_event)

    def run_roll_call(self) -> CalledDevices:
        """Play the whole roll call, and return its outcome."""
        narrator = self.stage.narrator
        self.stage.ask(self._read_devices)
        self.stage.restart(
            {name: "made-up-rows" for name, role in ROLES_BY_PROVIDER.items() if role is RollCallPart.LIAR}
        )
        narrator.line("Enrol: four devices, each with a bond")
        _for_all_providers(self._enrol_device)
        self.block_follower.read_on()
        if self.trace.all(ev.RollCalled):
            raise DevnetError("the roll call began before all had enrolled: name a later block with --first-call")
        narrator.line(
            f"Roll call: {len(ROLES_BY_PROVIDER)} devices compute in the same blocks; a daemon is killed after its "
            "commit"
        )
        self._run_roll_call()
        narrator.line("After it: providers with enough proven throughput are drawn for units, the others see why not")
        purchase.buy_units(self.stage, purchase.read_prompts(purchase.DEFAULT_PROMPTS, UNIT_COUNT))
        self.block_follower.read_on()
        self.providers = _for_all_providers(self._called_provider)
        narrator.line("Withdraw: bonds come back, but for the liar's")
        _for_all_providers(lambda name: self._run_as_stash(name, "withdraw", self._device_prefix(name)))
        self.block_follower.read_on()
        return CalledDevices(
            [DeviceFigures.of(self.trace, provider) for provider in self.providers],
            judge_roll_call(self.trace, self.providers, self.bonds_by_device),
        )

    async def _record_event(self, _: ChainClient, height: int, __: bytes, event: object) -> None:
        if isinstance(event, JUDGED_EVENTS):
            self.trace.happened.append((height, event))

    async def _read_devices(self, chain: ChainClient) -> None:
        for name in ROLES_BY_PROVIDER:
            (status,) = await market_reads.devices_of(chain, dev_accounts.stash(name))
            self.devices_by_name[name] = status.id

    def _enrol_device(self, name: str) -> None:
        work_size = LITTLE_WORK if ROLES_BY_PROVIDER[name] is RollCallPart.WEAK else FULL_WORK
        self._run_as_stash(name, "enrol", self._device_prefix(name), "--work", work_size, "--yes")
        enrolment = self.stage.ask(lambda chain: chain.read(Capacity.enrolments, self.devices_by_name[name]))
        self.bonds_by_device[self.devices_by_name[name]] = 0 if enrolment is None else int(enrolment.bond)

    def _run_roll_call(self) -> None:
        trace, narrator = self.trace, self.stage.narrator
        self.block_follower.until("a roll call", lambda: bool(trace.all(ev.RollCalled)), BLOCKS_MAX)
        for name in (name for name, role in ROLES_BY_PROVIDER.items() if role is RollCallPart.KILLED):
            self.block_follower.until(f"the commit of {name}", partial(self._has_committed, name), COMMIT_BLOCKS_MAX)
            self.stage.kill_and_restart(name, "after its commit")
        all_devices = set(self.devices_by_name.values())
        self.block_follower.until(
            "that all have shown their rows",
            lambda: {event.device for event in trace.events(ev.RowsOpened)} == all_devices,
            times.CALL_BLOCKS,
        )
        narrator.line(
            f"all have shown their rows at final block {self.block_follower.next_height - 1}; inspectors compute "
            "them again"
        )
        current_call = self.stage.ask(lambda chain: chain.read(Capacity.current))
        if current_call is None:
            raise DevnetError("the chain knows of no roll call")
        end_height = times.over_at(current_call)
        self.block_follower.until(
            "the end of the roll call", lambda: self.block_follower.next_height > end_height, times.CALL_BLOCKS
        )

    def _telemetry_count(self, name: str, event_name: str) -> int:
        """Return the number of a daemon's events of a kind."""
        return sum(row["event"] == event_name for row in self.stage.telemetry(name))

    def _has_committed(self, name: str) -> bool:
        return self._telemetry_count(name, "roll_call_commit") > 0

    def _called_provider(self, name: str) -> CalledProvider:
        """Return a provider with its own programs' output about its device."""
        device_id, device_hex = self.devices_by_name[name], f"0x{self.devices_by_name[name].hex()}"
        rows = json.loads(self.stage.provider(name, "status", is_shown=False))["devices"]
        (device_row,) = (device_row for device_row in rows if device_row["device"] == device_hex)
        doctor_codes: list[str] = []
        if not ROLES_BY_PROVIDER[name].may_work:  # it takes long, and exits with 1 after any problem
            arguments = (*self.stage.provider_words(name), "doctor", "--sandbox", "none")
            _, output = programs.tried("ogpu-provider", *arguments, keyring=self.stage.devnet.keyring)
            codes = [row["code"] for row in json.loads(output or "[]")]
            doctor_codes = [code for code in codes if code in {NOT_ENROLLED, PROVED_TOO_LITTLE}]
        begun_count = self._telemetry_count(name, "roll_call")
        return CalledProvider(
            name,
            ROLES_BY_PROVIDER[name],
            device_id,
            begun_count,
            device_row["why_no_work"],
            doctor_codes[0] if doctor_codes else None,
        )

    def _device_prefix(self, name: str) -> str:
        return f"0x{self.devices_by_name[name].hex()[:12]}"

    def _run_as_stash(self, name: str, *arguments: str) -> None:
        """Run a command of the stash, which waits until its calls are final."""
        self.stage.provider(name, *arguments, "--key", f"//{name}")


def _for_all_providers(provider_action: Callable[[str], ResultT]) -> list[ResultT]:
    """Do something for all providers concurrently."""
    # Concurrent, because each command waits until its calls are final.
    with ThreadPoolExecutor(len(ROLES_BY_PROVIDER)) as thread_pool:
        return list(thread_pool.map(provider_action, ROLES_BY_PROVIDER))


def call_early(proof_run: ProofRun, devnet: Devnet) -> None:
    """Put the first roll call's block into the chain's specification, before any process starts."""
    spec = load_spec(devnet.chain_spec.read_bytes())
    planned_entry = {storage_prefix("Capacity", "NextRollCall"): codec(U32).encode(proof_run.options.first_call)}
    # A patch cannot set a single storage entry, so the specification takes the raw form.
    early_spec = replace(spec, patch=None, raw=genesis_state(spec) | planned_entry)
    devnet.chain_spec.write_text(to_json(early_spec), encoding="utf-8")


def figures(facts_by_scenario: Mapping[str, CalledDevices]) -> str:
    """Return the line of figures."""
    device_figures = facts_by_scenario["roll-call"].providers
    return (
        f"{len(device_figures)} devices, {sum(bool(device.units) for device in device_figures)} given work after it, "
        f"{sum(device.objections for device in device_figures)} objections, "
        f"{sum(bool(device.bond_lost_grains) for device in device_figures)} bonds lost"
    )


ROLL_CALL_NETWORK = FreshDevnet(len(ROLES_BY_PROVIDER), numbers=CHAIN_NUMBERS, before_start=call_early)
PROOF = LiveProof(
    "rollcall",
    "A roll call over real nodes.",
    [
        Scenario(
            "roll-call", "Four devices at one roll call", ROLL_CALL_NETWORK.open,
            lambda stage: HeldRollCall(stage).run_roll_call(),
        ),
    ],
    figures,
    [ProofOption("--first-call", FIRST_CALL, "block of the roll call: after all enrolled")],
    folder=REPORT_FOLDER / "roll-call",
)  # fmt: skip

if __name__ == "__main__":
    run(PROOF)
