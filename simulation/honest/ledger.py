"""The simulated chain and network of one case: records that calls change, and blobs without connections.

Nothing here decides: a claim's checks are compared, and votes decided, by the pure rules of the pallets.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from gpu_tasks.batches.item_draws import BEACONS
from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.sealing import SealKey, address_of
from gpu_tasks.market.attestations.kinds import AnyAttestation
from gpu_tasks.market.attestations.statement import SignedAttestation
from gpu_tasks.market.claims.claims import Check, CheckEnd, ClaimStage, ClaimTerms, ResultClaim
from gpu_tasks.market.claims.claims_api import ClaimStatus
from gpu_tasks.market.claims.collateral import PPM, item_rate
from gpu_tasks.market.claims.disputes import Dispute, VotingSeat
from gpu_tasks.market.claims.disputes_api import BallotStatus, DisputeStatus
from gpu_tasks.market.claims.draws import draw_items
from gpu_tasks.market.claims.findings import Verdict, finding_commitment
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.inference.gpu_tasks_api import DutyStatus, InputReader, UnitStatus
from gpu_tasks.market.inference.services import Service, ServiceTerms
from gpu_tasks.market.inference.units import Reveal, Unit
from gpu_tasks.market.rounds import Round
from gpu_tasks.market.training.task_statement import SignedTaskAttestation, Stated, StatedMilestone, StatedResult
from gpu_tasks.market.training.tasks import Task, TaskState
from gpu_tasks.provider.blobs.deliveries import RefusedDeliveryError
from gpu_tasks.provider.chain.port import View
from gpu_tasks.provider.duties.sent_steps import RESEND_BLOCKS
from gpu_tasks.workloads.form import WorkloadForm
from runtime.frame.call import Call
from simulation.chains.named_keys import NamedKeys
from simulation.honest.machines import GENESIS, Machine

CUSTOMER = NamedKeys("customer").stash
REPLY = SealKey.from_seed(b"reply key of honest parties".ljust(32, b"."))
FAR = 1_000_000
"""A height that no case reaches: nothing is late."""
FULL_RATE = PPM


class NotAChainCall(Exception):
    """A machine sent a call that has no place in the case: an honest party makes none."""


@dataclass
class Ledger:
    """The records of one case, and its parties."""

    machines: Sequence[Machine]
    form: WorkloadForm
    height: int = 10
    unit_id: bytes = b""
    unit: Unit | None = None
    task_id: bytes = b""
    task: Task | None = None
    claim_id: bytes = b""
    claim: ResultClaim | None = None
    dispute_id: bytes = b""
    dispute: Dispute | None = None
    blobs: dict[bytes, bytes] = field(default_factory=dict)
    """The blobs of the customer."""
    stated: Any = None
    """The provider's statement of its result."""

    def next_block(self) -> int:
        """Return the next height at which a lost call is sent again."""
        self.height += RESEND_BLOCKS
        return self.height

    def put(self, blob: bytes) -> bytes:
        """Keep a blob of the customer's, and return its address."""
        self.blobs[address_of(blob)] = blob
        return address_of(blob)

    def machine(self, stash: bytes) -> Machine:
        """Return the machine of a stash."""
        return next(machine for machine in self.machines if machine.identity.stash == stash)

    # ----------------------------------------------------------------------------------------------------------- calls

    def take(self, stash: bytes, call: Call) -> None:
        """Apply a call as the chain would. A repeated one changes nothing."""
        given = call.named_arguments
        match call.name:
            case "InferenceMarket.commit_result":
                self._commit_result(given["commitment"])
            case "Attestations.reveal":
                self.state(given["attestation"])
            case "TrainingMarket.report_milestone":
                self._state_step(StatedMilestone(given["milestone"]))
            case "TrainingMarket.finish":
                self._state_step(StatedResult(given["result"]))
            case "ResultClaims.commit_finding":
                self._change_check(ClaimStage.COMMITTING, ClaimStage.SHOWING, commitment=given["commitment"])
            case "ResultClaims.show_samples":
                self._change_check(ClaimStage.SHOWING, ClaimStage.OPENING, shown=given["samples"])
            case "ResultClaims.open_finding":
                self._open_finding(stash, given["finding"], given["salt"])
            case "Disputes.commit_vote":
                pass  # the vote is in the voter's journal
            case _:
                raise NotAChainCall(call.name)

    def state(self, attestation: AnyAttestation) -> None:
        """Take the statement of a result."""
        if isinstance(attestation, SignedTaskAttestation):
            self._state_step(attestation.statement.stated)
        elif isinstance(attestation, SignedAttestation) and self.stated is None:
            statement = attestation.statement
            self.stated, totals = statement, statement.totals
            reveal = Reveal(statement.output_root, statement.output_blob, totals.tokens_out, self.height,
                            totals.tokens_in)  # fmt: skip
            self._change_racer(reveal=reveal)

    def _commit_result(self, commitment: bytes) -> None:
        assert self.unit is not None
        if self.unit.racers[0].commitment is None:
            self._change_racer(commitment=commitment, committed_at=self.height)
            closed = Round(1, commits_from=2, first_commit=self.height, closed_at=self.height, reveals_from=self.height)
            self.unit = replace(self.unit, round=closed)

    def _change_racer(self, **changed: Any) -> None:
        assert self.unit is not None
        self.unit = replace(self.unit, racers=(replace(self.unit.racers[0], **changed),))

    def _state_step(self, stated: Stated) -> None:
        task = self.task
        assert task is not None
        slot = task.slots[0]
        if isinstance(stated, StatedResult):
            if slot.result is None:
                self.stated = stated.result
                slot = replace(slot, result=stated.result)
                self.task = replace(task, slots=(slot,), state=TaskState.CLAIMED)
        elif stated.milestone.number == slot.reported + 1:
            slot = replace(slot, reported=slot.reported + 1, milestone=stated.milestone)
            # The customer signs each milestone at once.
            self.task = replace(task, slots=(slot,), reported_at=self.height, done=slot.reported)

    def _change_check(self, before: ClaimStage, after: ClaimStage, **changed: Any) -> None:
        assert self.claim is not None
        if self.claim.stage is before:
            check = replace(self.claim.checks[-1], **changed)
            self.claim = replace(self.claim, stage=after, checks=(*self.claim.checks[:-1], check))

    def _open_finding(self, stash: bytes, finding: Any, salt: bytes) -> None:
        assert self.claim is not None
        check = self.claim.checks[-1]
        number = len(self.claim.checks) - 1
        if check.finding is None:
            commitment = finding_commitment(GENESIS, self.claim_id, number, stash, finding, salt)
            assert commitment == check.commitment, "a finding opens its own commitment"
            self._change_check(ClaimStage.OPENING, ClaimStage.OPENING, finding=finding)

    # ---------------------------------------------------------------------------------------------------------- claims

    def open_claim(self, claim_id: bytes, terms: ClaimTerms, chance: Random) -> None:
        """Open a claim and draw its points from random beacons. Each item is drawn, as far as a claim has points."""
        terms = replace(terms, rate_ppm=item_rate(terms.items, FULL_RATE))
        beacons = [chance.randbytes(32) for _ in range(BEACONS)]
        drawn = draw_items(beacons, claim_id, items=terms.items, weight=terms.weight, rate_ppm=terms.rate_ppm)
        self.claim_id = claim_id
        points = () if drawn is None else drawn.points
        self.claim = ResultClaim(terms, 30, ClaimStage.COMMITTING, self.height, points=points)

    def call_checker(self, stash: bytes, seed: bytes) -> None:
        """Let a machine check the drawn points. An earlier check has passed."""
        assert self.claim is not None
        earlier = tuple(replace(check, end=CheckEnd.PASSED) for check in self.claim.checks)
        check = Check(stash, seed, is_second=bool(earlier), held=1)
        self.claim = replace(self.claim, stage=ClaimStage.COMMITTING, checks=(*earlier, check), deadline=FAR)

    def agrees(self) -> bool:
        """Return True if the newest check passed: the chain's comparison of finding and samples."""
        assert self.claim is not None
        check = self.claim.checks[-1]
        assert check.finding is not None
        return check.finding.verdict is Verdict.RIGHT and check.finding.samples == check.shown

    # ------------------------------------------------------------------------------------------------------- the views

    def race_view(self) -> View:
        """Return the provider's view of its race."""
        status = self.unit_status()
        return View(self.next_block(), (DutyStatus(self.unit_id, status, 0, status.commits_until),))

    def unit_status(self) -> UnitStatus:
        """Return the unit with its clocks, which are never late."""
        assert self.unit is not None
        reveals = 0 if self.unit.round is None else self.unit.round.reveals_from
        return UnitStatus(self.unit, self.claim, None, FAR, reveals, FAR if reveals else 0)

    def claim_view(self) -> View:
        """Return the view of the open claim, as provider or checker."""
        assert self.claim is not None
        status = ClaimStatus(self.claim_id, self.claim, None, FAR)
        return View(self.next_block(), (), claims=(status,))

    def ballot_view(self) -> View:
        """Return a voter's view of the open dispute."""
        assert self.dispute is not None
        seat = VotingSeat(round=0, weight=1, held=1)
        ballot = BallotStatus(self.dispute_id, seat, DisputeStatus(self.dispute, FAR, 0, 0))
        return View(self.next_block(), (), ballots=(ballot,))


class LedgerPort:
    """`TaskPort` of one machine. Final and best are the same."""

    def __init__(self, ledger: Ledger, machine: Machine) -> None:
        """All reads are of the ledger."""
        self._ledger = ledger
        self._machine = machine

    async def slot_ms(self) -> int:
        """See `NetworkPort`."""
        return 2_000

    async def providers(self) -> dict[bytes, Provider]:
        """See `NetworkPort`."""
        return {machine.identity.stash: _record(machine) for machine in self._ledger.machines}

    async def provider(self, stash: bytes) -> Provider | None:
        """See `NetworkPort`."""
        return (await self.providers()).get(stash)

    async def stash_of(self, provider_key: bytes) -> bytes | None:
        """See `NetworkPort`."""
        owners = (machine.identity for machine in self._ledger.machines)
        return next((owner.stash for owner in owners if owner.key.public_key == provider_key), None)

    async def checking_readers(self) -> tuple[InputReader, ...]:
        """See `NetworkPort`."""
        return tuple(
            InputReader(machine.identity.stash, machine.identity.seal_key.public, 0)
            for machine in self._ledger.machines
        )

    async def unit(self, _unit: bytes) -> UnitStatus | None:
        """See `RacePort`."""
        return self._ledger.unit_status()

    async def final_unit(self, _unit: bytes) -> UnitStatus | None:
        """See `RacePort`."""
        return self._ledger.unit_status()

    async def service(self, _number: int) -> Service:
        """See `RacePort`."""
        form = self._ledger.form
        terms = ServiceTerms(b"service", form.workload_id, form.model_id, 1, 1, 1, 600, 1_000_000)
        return Service(CUSTOMER, terms, 0)

    async def claim(self, claim: bytes, *, final: bool = False) -> ResultClaim | None:
        """See `ClaimPort`."""
        return self._ledger.claim if claim == self._ledger.claim_id else None

    async def item_dispute(self, dispute: bytes, *, final: bool = False) -> Dispute | None:
        """See `ClaimPort`."""
        return self._ledger.dispute if dispute == self._ledger.dispute_id else None

    async def final_ballots(self) -> tuple[BallotStatus, ...]:
        """See `ClaimPort`."""
        return ()

    async def tasks(self, _ids: Sequence[bytes], *, final: bool = False) -> dict[bytes, Task]:
        """See `TaskPort`."""
        return {} if self._ledger.task is None else {self._ledger.task_id: self._ledger.task}

    async def bids(self, _bids: object, *, final: bool = False) -> dict[Any, Any]:
        """See `TaskPort`. Bids are over."""
        return {}

    async def task_of_claim(self, claim: bytes) -> bytes | None:
        """See `TaskPort`."""
        return self._ledger.task_id if claim == self._ledger.claim_id and self._ledger.task is not None else None

    async def submit(self, call: Call) -> None:
        """See `SendPort`. A kill comes before or after the call has reached the chain."""
        self._point()
        self._ledger.take(self._machine.identity.stash, call)
        self._point()

    async def attest(self, attestation: AnyAttestation) -> None:
        """See `SendPort`."""
        self._point()
        self._ledger.state(attestation)
        self._point()

    def _point(self) -> None:
        assert self._machine.process is not None
        self._machine.process.kill.point()


class LedgerBlobs:
    """The blob stores of the customer and of all machines with a process, without connections."""

    def __init__(self, ledger: Ledger) -> None:
        """Stores are reached by their endpoints."""
        self._ledger = ledger

    async def get(self, address: bytes, _endpoints: Iterable[str]) -> bytes:
        """Return a blob. Raise BlobError if nobody has it."""
        stores = (machine.process.parts.store for machine in self._ledger.machines if machine.process is not None)
        found = self._ledger.blobs.get(address) or next(
            (blob for store in stores if (blob := store.get(address)) is not None), None
        )
        if found is None:
            raise BlobError("no store has it", code="blob_not_found")
        return found

    async def put(self, _blob: bytes, _endpoints: Iterable[str], copies: int = 1) -> list[str]:
        """Take no copy: a lost one must not matter."""
        return []

    async def ask(self, endpoint: str, _path: str, question: bytes) -> bytes:
        """Return a provider's answer to a question for a delivery. Raise BlobError without one."""
        machine = next(machine for machine in self._ledger.machines if machine.endpoint == endpoint)
        if machine.process is None:
            raise BlobError("it has no process", code="store_unreachable")
        try:
            return await machine.process.deliverer.answer(question)
        except RefusedDeliveryError as error:
            raise BlobError(str(error), code="store_refused") from None


def _record(machine: Machine) -> Provider:
    return Provider(machine.identity.seal_key.public, machine.endpoint.encode(), 0)
