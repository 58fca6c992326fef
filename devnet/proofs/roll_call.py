"""`python -m devnet.proofs.roll_call`: a roll call over real nodes and daemons; exit 1 on a failure.

Five providers state proofs, answer the checks of their claims, and get work or none. One daemon is killed after its
proof, one lies, and one proves less than its class claims. Invariant: all actions use the production programs. The
judgement reads final blocks, and judges each device by its own part.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar, TypeVar

from devnet.launcher import programs
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet
from devnet.stage.actors import purchase
from devnet.stage.measuring.claim_money import BOND_REASONS, HoldPayment, ReckonedClaim
from devnet.stage.measuring.ledger import EventTrace
from devnet.stage.network import CHEAT, BlockFollower, FreshDevnet, Stage
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
from gpu_tasks.market.capacity.proofs import ROLL_CALL_BOND
from gpu_tasks.market.claims import claim_events, dispute_events
from gpu_tasks.market.claims.claims import ClaimOutcome, ResultClaim
from gpu_tasks.market.claims.money import Purse
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.events import DeviceAssigned
from gpu_tasks.provider.doctor.chain import PROVED_TOO_LITTLE
from runtime.encoding.codec import U32, codec
from runtime.frame.holds import HoldReason
from runtime.frame.storage import storage_prefix
from runtime.pallets.staking.trust_lock import Locked, Paid, Unlocked
from runtime.pallets.system import ExtrinsicFailed
from wallet.client import ChainClient

ResultT = TypeVar("ResultT")
CLAIM_EVENTS = (
    claim_events.PointsDrawn, claim_events.CheckerDrawn, claim_events.SamplesShown, claim_events.CheckEnded,
    claim_events.ItemDisputed, claim_events.ClaimEnded, dispute_events.VotersDrawn, dispute_events.VoteOpened,
    dispute_events.DisputeEnded, Locked, Unlocked, Paid,
)  # fmt: skip
JUDGED_EVENTS = (
    ev.RollCalled, ev.CapacityStated, ev.CapacityRefuted, DeviceAssigned, ExtrinsicFailed, *CLAIM_EVENTS,
)  # fmt: skip
"""Events that are judged."""


class RollCallPart(Enum):
    """The part of a provider at the roll call."""

    HONEST = "answers"
    KILLED = "is killed with -9 after its proof, and answers its checks"
    LIAR = "states rows that nobody computed"
    WEAK = "proves less than its class claims"

    @property
    def may_work(self) -> bool:
        """True if the device gets work after it."""
        return self in {RollCallPart.HONEST, RollCallPart.KILLED}


def stated_proofs(trace: EventTrace, device_id: bytes) -> list[ev.CapacityStated]:
    """Return the stated proofs of a device."""
    return [event for event in trace.events(ev.CapacityStated) if event.device == device_id]


def proof_trace(trace: EventTrace, claim_id: bytes) -> EventTrace:
    """Return the events of a proof's claim, of its disputes and of their holds."""
    disputes = (event.dispute for event in trace.events(claim_events.ItemDisputed) if event.claim == claim_id)
    cases = {claim_id, *disputes}
    subjects = ("claim", "dispute", "case")
    return EventTrace(
        [
            (height, event)
            for height, event in trace.happened
            if isinstance(event, CLAIM_EVENTS) and any(getattr(event, name, None) in cases for name in subjects)
        ]
    )


@dataclass
class ReckonedProof(ReckonedClaim):
    """The payments that the table of claims states for a proof. The owner pays its checks."""

    reasons: ClassVar[Mapping[Purse, HoldReason]] = {
        **BOND_REASONS, Purse.CUSTOMER: ROLL_CALL_BOND, Purse.PROVIDER: ROLL_CALL_BOND,
    }  # fmt: skip

    is_lie: bool = field(kw_only=True)

    def is_false(self, provider: bytes) -> bool:
        """See `ReckonedClaim`."""
        return self.is_lie

    def is_deaf(self, checker: bytes) -> bool:
        """See `ReckonedClaim`."""
        return False


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
    checks: int
    disputes: int
    outcome: str | None
    units: int
    lost_grains: int
    """The lost part of the proof's hold: fees of checks, or the collateral."""
    status: str | None
    doctor: str | None

    @classmethod
    def of(cls, trace: EventTrace, provider: CalledProvider) -> DeviceFigures:
        """Return the figures of a provider's device."""
        stated = stated_proofs(trace, provider.device)
        claim = proof_trace(trace, stated[0].claim) if stated else EventTrace()
        ended = claim.events(claim_events.ClaimEnded)
        return cls(
            provider.name,
            provider.role,
            stated[0].rate if stated else 0,
            len(claim.events(claim_events.CheckerDrawn)),
            len(claim.events(claim_events.ItemDisputed)),
            ended[-1].outcome.name if ended else None,
            _assigned_count(trace, provider.device),
            _lost_grains(claim),
            provider.why_no_work,
            provider.diagnosis,
        )


@dataclass(frozen=True, slots=True)
class CalledDevices:
    """The outcome of the roll call."""

    providers: list[DeviceFigures]
    failures: list[str]


def judge_roll_call(
    trace: EventTrace, providers: Iterable[CalledProvider], claims: Mapping[bytes, ResultClaim]
) -> list[str]:
    """Return a sentence for each failed requirement. `claims` are the proofs' claims when they opened."""
    failures = [] if trace.all(ev.RollCalled) else ["there was no roll call"]
    if failed_calls := len(trace.all(ExtrinsicFailed)):
        failures.append(f"{failed_calls} calls cost their fee, and did nothing")
    for provider in providers:
        failures += [f"{provider.name}: {failure}" for failure in _failures_of_provider(trace, provider, claims)]
    return failures


def _failures_of_provider(
    trace: EventTrace, provider: CalledProvider, claims: Mapping[bytes, ResultClaim]
) -> Iterator[str]:
    stated, role = stated_proofs(trace, provider.device), provider.role
    if len(stated) != 1:
        yield f"it stated {len(stated)} proofs, not one"
    for proof in stated[:1]:
        yield from _failures_of_claim(proof_trace(trace, proof.claim), role, claims[proof.claim])
    refuted_count = sum(event.device == provider.device for event in trace.events(ev.CapacityRefuted))
    if refuted_count != (role is RollCallPart.LIAR):
        yield f"{refuted_count} of its proofs are refuted"
    # The killed daemon must answer from its record, and not compute the chain again.
    if provider.begun_count != 1:
        yield f"its chain was computed {provider.begun_count} times, not once"
    drawn_units = _assigned_count(trace, provider.device)
    if bool(drawn_units) != role.may_work:
        yield f"it was drawn for {drawn_units} units"
    # Honest devices must not be told that they have no work: operators would search a fault that is none.
    if bool(provider.why_no_work) == role.may_work:
        yield f"status says of it: {provider.why_no_work}"
    if provider.diagnosis != (None if role.may_work else PROVED_TOO_LITTLE):
        yield f"doctor says of it: {provider.diagnosis}"


def _failures_of_claim(trace: EventTrace, role: RollCallPart, opened: ResultClaim) -> Iterator[str]:
    is_lie = role is RollCallPart.LIAR
    outcomes = [event.outcome for event in trace.events(claim_events.ClaimEnded)]
    if outcomes != [ClaimOutcome.REFUTED if is_lie else ClaimOutcome.PASSED]:
        yield f"its claim ended as {', '.join(outcome.name for outcome in outcomes) or 'nothing'}"
    if not is_lie and not trace.all(claim_events.SamplesShown):
        yield "it showed no samples"
    if is_lie and _lost_grains(trace) != opened.terms.collateral:
        yield f"it lost {_lost_grains(trace)} of {opened.terms.collateral} grains"
    expected = ReckonedProof(opened, is_lie=is_lie)
    for height, event in trace.happened:
        expected.take(height, event)
    paid: Counter[HoldPayment] = Counter()
    locked: Counter[tuple[bytes, str]] = Counter()
    for _, event in trace.happened:
        if isinstance(event, Paid):
            paid[event.who, event.reason.name, event.payee] += event.amount
        if isinstance(event, Locked | Unlocked | Paid):
            locked[event.who, event.reason.name] += event.amount if isinstance(event, Locked) else -event.amount
    if paid != expected.payments:
        yield f"{len({*paid.items()} ^ {*expected.payments.items()})} payments are not those of the money table"
    for reason in sorted({reason for (_, reason), grains in locked.items() if grains}):
        yield f"grains are left in {reason}"


def _assigned_count(trace: EventTrace, device_id: bytes) -> int:
    return sum(event.device == device_id for event in trace.events(DeviceAssigned))


def _lost_grains(claim: EventTrace) -> int:
    """Return the grains that the owner of a proof paid out of its hold."""
    return sum(event.amount for event in claim.events(Paid) if event.reason == ROLL_CALL_BOND)


KILLED = "Alice"
ROLES_BY_PROVIDER = {
    KILLED: RollCallPart.KILLED,
    "Bob": RollCallPart.HONEST,
    "Charlie": RollCallPart.HONEST,
    "Dave": RollCallPart.WEAK,
    # No validator: four validators leave three voters beside the checker, and a vote needs as many.
    CHEAT: RollCallPart.LIAR,
}
VALIDATOR_COUNT = len(ROLES_BY_PROVIDER) - 1
LIAR_MODE = "made-up-rows"
# Some 32 and 0.5 billion operations. The first suffices for up to 32 slots, the second never does.
FULL_WORK, LITTLE_WORK = "256x4096x60", "256x4096x1"
# The chain specification plans an early roll call, which the default period would delay. The next one is far away.
FIRST_CALL, PERIOD = 150, 1_200
CHAIN_NUMBERS = {"Capacity.roll_calls_enabled": 1, "Capacity.period": PERIOD, "Capacity.cpu_rate_min": 1}
# Two racers each. Of three proven devices, one is drawn for none of them with a chance of 1 in 2,000.
UNIT_COUNT = 8
CLAIM_BLOCKS_MAX = 400
"""The most blocks until all claims are over: draws, checks, and the vote about the lie."""


@dataclass(slots=True)
class HeldRollCall:
    """The devices, and their events in final blocks."""

    stage: Stage
    devices_by_name: dict[str, bytes] = field(default_factory=dict)
    trace: EventTrace = field(default_factory=EventTrace)
    claims: dict[bytes, ResultClaim] = field(default_factory=dict)
    providers: list[CalledProvider] = field(default_factory=list)
    block_follower: BlockFollower = field(init=False)

    def __post_init__(self) -> None:
        """Read from the first block on."""
        self.block_follower = BlockFollower(self.stage, self._record_event)

    def run_roll_call(self) -> CalledDevices:
        """Play the whole roll call, and return its outcome."""
        narrator = self.stage.narrator
        for name, role in ROLES_BY_PROVIDER.items():
            work_size = LITTLE_WORK if role is RollCallPart.WEAK else FULL_WORK
            self.stage.run_options[name] = ("--roll-call-work", work_size)
        self.stage.add_cheat(LIAR_MODE)
        self.stage.restart({member.name: None for member in self.stage.devnet.members})
        self.stage.ask(self._read_devices)
        self.block_follower.read_on()
        if self.trace.all(ev.RollCalled):
            raise DevnetError("the roll call began before all were ready: name a later block with --first-call")
        narrator.line(
            f"Roll call: {len(ROLES_BY_PROVIDER)} devices compute in the same blocks; a daemon is killed after its "
            "proof"
        )
        self._follow_roll_call()
        narrator.line("After it: providers with enough proven throughput are drawn for units, the others see why not")
        purchase.buy_units(self.stage, purchase.read_prompts(purchase.DEFAULT_PROMPTS, UNIT_COUNT))
        self.block_follower.read_on()
        self.providers = _for_all_providers(self._called_provider)
        return CalledDevices(
            [DeviceFigures.of(self.trace, provider) for provider in self.providers],
            judge_roll_call(self.trace, self.providers, self.claims),
        )

    async def _record_event(self, chain: ChainClient, height: int, block_hash: bytes, event: object) -> None:
        if isinstance(event, JUDGED_EVENTS):
            self.trace.happened.append((height, event))
        if isinstance(event, ev.CapacityStated):
            claim = await chain.read(ResultClaims.claims, event.claim, at=block_hash)
            assert claim is not None, "a stated proof is an open claim"
            self.claims[event.claim] = claim

    async def _read_devices(self, chain: ChainClient) -> None:
        for name in ROLES_BY_PROVIDER:
            (status,) = await market_reads.devices_of(chain, dev_accounts.stash(name))
            self.devices_by_name[name] = status.id

    def _follow_roll_call(self) -> None:
        trace, narrator = self.trace, self.stage.narrator
        first_call = self.stage.options.first_call
        self.block_follower.until("a roll call", lambda: bool(trace.all(ev.RollCalled)), first_call)
        killed_device = self.devices_by_name[KILLED]
        self.block_follower.until(
            f"the proof of {KILLED}", lambda: bool(stated_proofs(trace, killed_device)), times.CALL_BLOCKS
        )
        # The beacons that draw its rows come up to 16 blocks later, so the daemon answers after its restart.
        self.stage.kill_and_restart(KILLED, "after its proof")
        self.block_follower.until("that all have stated their proofs", self._have_all_stated, times.CALL_BLOCKS)
        narrator.line(
            f"all have stated their proofs at final block {self.block_follower.next_height - 1}; validators check rows"
        )
        self.block_follower.until("the end of all claims", self._are_claims_over, CLAIM_BLOCKS_MAX)
        current_call = self.stage.ask(lambda chain: chain.read(Capacity.current))
        if current_call is None:
            raise DevnetError("the chain knows of no roll call")
        end_height = times.over_at(current_call)
        self.block_follower.until(
            "the end of the roll call", lambda: self.block_follower.next_height > end_height, times.CALL_BLOCKS
        )

    def _have_all_stated(self) -> bool:
        stating = {event.device for event in self.trace.events(ev.CapacityStated)}
        return stating == set(self.devices_by_name.values())

    def _are_claims_over(self) -> bool:
        ended = {event.claim for event in self.trace.events(claim_events.ClaimEnded)}
        return ended >= set(self.claims)

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
            doctor_codes = [code for code in codes if code == PROVED_TOO_LITTLE]
        begun_count = sum(row["event"] == "roll_call" for row in self.stage.telemetry(name))
        return CalledProvider(
            name,
            ROLES_BY_PROVIDER[name],
            device_id,
            begun_count,
            device_row["why_no_work"],
            doctor_codes[0] if doctor_codes else None,
        )


def _for_all_providers(provider_action: Callable[[str], ResultT]) -> list[ResultT]:
    """Do something for all providers concurrently."""
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
    refuted = [device for device in device_figures if device.outcome == ClaimOutcome.REFUTED.name]
    return (
        f"{len(device_figures)} devices, {sum(bool(device.units) for device in device_figures)} given work after it, "
        f"{sum(device.checks for device in device_figures)} checks, {len(refuted)} proofs refuted, "
        f"{sum(device.lost_grains for device in refuted)} grains lost by lies"
    )


ROLL_CALL_NETWORK = FreshDevnet(VALIDATOR_COUNT, numbers=CHAIN_NUMBERS, before_start=call_early)
PROOF = LiveProof(
    "rollcall",
    "A roll call over real nodes.",
    [
        Scenario(
            "roll-call", "Five devices at one roll call", ROLL_CALL_NETWORK.open,
            lambda stage: HeldRollCall(stage).run_roll_call(),
        ),
    ],
    figures,
    [ProofOption("--first-call", FIRST_CALL, "block of the roll call: after all providers started")],
    folder=REPORT_FOLDER / "roll-call",
)  # fmt: skip

if __name__ == "__main__":
    run(PROOF)
