"""Attestations: what the author of a block puts into it about executed work, as an inherent.

An attestation of a unit opens its provider's commitment, so attaching it is the reveal; that of a task states a
milestone or a result. Always: a block whose attestations break a rule of form is invalid; whether the work is right is
never judged here; one `problem` decides for authors and importers, and its conditions for the signed fallbacks:
`reveal`, and of tasks the calls `checkpoint` and `finish` of their market.
"""

from itertools import pairwise

from gpu_tasks.batches.sum_tree import batch_root
from gpu_tasks.market.attestations.kinds import (
    ATTESTATION_BYTES_PER_BLOCK_MAX,
    ATTESTATIONS_PER_BLOCK_MAX,
    AnyAttestation,
    AttestationList,
    attestation_hash,
    order_key,
    size,
    subject_of,
)
from gpu_tasks.market.attestations.statement import (
    BAD_SIGNATURE,
    VERSION,
    Attestation,
    ProofKind,
    SignedAttestation,
    signing_payload,
    usage_problem,
)
from gpu_tasks.market.attestations.task_forms import attach_to_task, task_problem
from gpu_tasks.market.attestations.task_statement import SignedTaskAttestation, StatedMilestone, TaskAttestation
from gpu_tasks.market.ids import TaskId, UnitId
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.schedules import ATTESTATIONS_MAX
from gpu_tasks.market.inference.units import OpenUnit, Racer, Reveal, Unit, result_commitment
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.market.weights import WEIGHTS
from runtime.cryptography.signatures import verify_ed25519
from runtime.encoding.codec import U8, U32
from runtime.encoding.types import AccountId, Hash, Weight
from runtime.frame.errors import InvalidBlock
from runtime.frame.measured import times
from runtime.frame.pallet import (
    DispatchError,
    Pallet,
    PostDispatch,
    Signed,
    StorageValue,
    Unsigned,
    call,
    ensure,
    event,
)
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System


def _attach_weight(attestations: tuple[AnyAttestation, ...]) -> Weight:
    """Without what they settle, which only the state knows."""
    return WEIGHTS["Attestations.attach"] + times(len(attestations), WEIGHTS["Attestations.attach attestation"])


@event
class Attested:
    """A provider's attestation is part of the chain."""

    unit: UnitId
    provider: AccountId
    device: Hash
    output_root: Hash
    attestation_hash: Hash


@event
class TaskAttested:
    """A provider's attestation of a milestone or a result is part of the chain."""

    task: TaskId
    place: U8
    provider: AccountId
    device: Hash
    attestation_hash: Hash


class NotAdmissible(DispatchError):
    """The attestation breaks a rule of form: assignment, window, opening, usage or signature."""


class Attestations(Pallet, index=11):
    """The inherent, and the signed fallback for a provider that authors leave out."""

    system: System
    stake: TrustStake
    market: InferenceMarket
    tasks: TrainingMarket

    attested: StorageValue[U32] = StorageValue(default=0, doc="Attestations in the chain so far.")

    events = (Attested, TaskAttested)
    errors = (NotAdmissible,)

    @call(index=0, weight=_attach_weight)
    def attach(self, origin: Unsigned, attestations: AttestationList) -> PostDispatch:
        """Put the attestations that the author has into the block. InvalidBlock if one is not admissible."""
        if not 0 < len(attestations) <= ATTESTATIONS_PER_BLOCK_MAX:
            raise InvalidBlock("no attestations, or too many")
        if sum(size(signed) for signed in attestations) > ATTESTATION_BYTES_PER_BLOCK_MAX:
            raise InvalidBlock("attestations take too many bytes")
        keys = [order_key(signed) for signed in attestations]
        if any(low >= high for low, high in pairwise(keys)):
            raise InvalidBlock("attestations are out of order, or one is there twice")
        spent, room = WEIGHTS["Attestations.attach"], self.room()
        for signed in attestations:
            problem = self.problem(signed)  # only now: the one before may have settled this unit
            if problem:
                raise InvalidBlock(f"attestation of {subject_of(signed).hex()}: {problem}")
            spent += self.weight_of(signed)
            if not spent.fits(room):
                raise InvalidBlock("attestations weigh more than the block has room for")
            self._put_in(signed)
        return PostDispatch(actual_weight=spent)

    @call(index=1, weight=WEIGHTS["Attestations.reveal"])
    def reveal(self, origin: Signed, attestation: SignedAttestation) -> PostDispatch:
        """Attach that of a unit by transaction, where authors leave it out. Free when it succeeds."""
        ensure(not self.problem(attestation), NotAdmissible)
        weight = self.weight_of(attestation)
        self._put_in(attestation)
        return PostDispatch(pays_fee=False, actual_weight=weight)

    def room(self) -> Weight:
        """What the attestations of the block under construction may weigh."""
        return Weight(min(ATTESTATIONS_MAX.ref_time, max(0, self.context.mandatory_left)), 0)

    def weight_of(self, signed: AnyAttestation) -> Weight:
        """What attaching one that is admissible weighs: the last of a race settles it, a result looks at all slots."""
        if isinstance(signed, SignedTaskAttestation):
            return WEIGHTS["Attestations.attach attestation"] + self._stating_weight(signed.statement)
        unit = self.market.open_unit(signed.statement.unit)
        racers = unit.record.racers
        each = WEIGHTS["Attestations.attach attestation"]
        if sum(racer.commitment is not None and racer.reveal is None for racer in racers) > 1:
            return each
        return each + WEIGHTS["Attestations.attach settled"] + times(len(racers), WEIGHTS["Attestations.attach racer"])

    def problem(self, signed: AnyAttestation) -> str:
        """Why this attestation may not be attached now; empty if it may. Cheap checks come before the signature."""
        if isinstance(signed, SignedTaskAttestation):
            return task_problem(self.tasks, signed)
        statement, genesis = signed.statement, self.system.block_hash[0]
        unit = self.market.units[statement.unit]
        if unit is None or unit.attempt != statement.attempt or statement.replica >= len(unit.racers):
            return "no such race"
        racer = unit.racers[statement.replica]
        if self.stake.stash_of(statement.provider_key) != racer.owner or statement.device != racer.device:
            return "not the racer's key or device"
        try:
            self.market.racing.ensure_may_reveal(unit, racer)
        except DispatchError as error:
            return f"not now: {type(error).__name__}"
        return (
            self._contents_problem(statement, unit)
            or _opening_problem(genesis, statement, racer)
            or _signature_problem(genesis, signed)
        )

    def _contents_problem(self, statement: Attestation, unit: Unit) -> str:
        service = self.market.catalogue.service(unit.service).terms
        if (statement.workload, statement.model) != (service.workload, service.model):
            return "another workload or model than the service's"
        if statement.version != VERSION or statement.input_root != unit.terms.input_root:
            return "another version or input"
        if statement.proof_kind is not ProofKind.EXACT_HASH or statement.proof_inline:
            return "this kind of proof is not permitted here"
        if statement.proof_hash != statement.output_root:
            return "the proof of an exact workload is its output root"
        drawn_at = unit.round.drawn_at if unit.round else 0
        height = self.system.number.get()
        return _totals_problem(statement, unit) or usage_problem(statement, drawn_at=drawn_at, height=height)

    def _stating_weight(self, statement: TaskAttestation) -> Weight:
        """What the call weighs that states the same."""
        task = self.tasks.open_task(statement.task)
        return self.tasks.stating_weight(task, is_result=not isinstance(statement.stated, StatedMilestone))

    def _put_in(self, signed: AnyAttestation) -> None:
        self.attested.set(self.attested.get() + 1)
        if isinstance(signed, SignedTaskAttestation):
            self._state(signed)
        else:
            self._reveal(signed)

    def _state(self, signed: SignedTaskAttestation) -> None:
        statement = signed.statement
        provider = self.tasks.open_task(statement.task).slots[statement.place].provider
        self.emit(TaskAttested(statement.task, statement.place, provider, statement.device, attestation_hash(signed)))
        attach_to_task(self.tasks, statement)

    def _reveal(self, signed: SignedAttestation) -> None:
        statement = signed.statement
        record = self.market.units[statement.unit]
        assert record is not None, "an admissible attestation is of a unit"
        unit, racer = OpenUnit(statement.unit, record), record.racers[statement.replica]
        opened = Reveal(
            output_root=statement.output_root,
            output_blob=statement.output_blob,
            output_tokens=statement.totals.tokens_out,
            revealed_at=self.system.number.get(),
            input_tokens=statement.totals.tokens_in,
        )
        self.emit(
            Attested(statement.unit, racer.owner, statement.device, statement.output_root, attestation_hash(signed))
        )
        self.market.racing.reveal(unit, racer, opened, statement.salt)


def _totals_problem(statement: Attestation, unit: Unit) -> str:
    """Why these cannot be the totals of the unit's result; empty if they can."""
    totals, terms = statement.totals, unit.terms
    if totals.requests != terms.requests:
        return "another number of requests than the unit has"
    if totals.tokens_in > terms.tokens_in or totals.tokens_out > terms.tokens_max:
        return "more tokens than the unit allows"
    return "" if batch_root(totals) == statement.output_root else "the root does not commit to these totals"


def _opening_problem(genesis: bytes, statement: Attestation, racer: Racer) -> str:
    opened = result_commitment(
        genesis, statement.unit, statement.attempt, racer.owner, statement.output_root, statement.salt
    )
    return "" if opened == racer.commitment else "does not open the commitment"


def _signature_problem(genesis: bytes, signed: SignedAttestation) -> str:
    payload = signing_payload(genesis, signed.statement)
    return "" if verify_ed25519(signed.statement.provider_key, payload, signed.signature) else BAD_SIGNATURE
