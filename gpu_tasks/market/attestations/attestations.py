"""The pallet Attestations: a block's author attaches attestations of executed work, as an inherent.

An attestation of a unit opens its provider's commitment, so attaching it is the reveal. An attestation of a task states
a milestone or a result.

Invariants: an attestation that breaks a rule of form makes its block invalid; this pallet never checks the work itself.
The attestation's market (`work_source`) decides for authors and importers alike. It also decides for the signed
fallbacks: `reveal` here, and `report_milestone` and `finish` of TrainingMarket.
"""

from itertools import pairwise

from gpu_tasks.market.attestations.kinds import (
    ATTESTATION_BYTES_PER_BLOCK_MAX,
    ATTESTATIONS_MAX,
    ATTESTATIONS_PER_BLOCK_MAX,
    AnyAttestation,
    AttestationList,
    order_key,
    size,
)
from gpu_tasks.market.attestations.statement import SignedAttestation
from gpu_tasks.market.attestations.work_source import WorkSource, source_of
from gpu_tasks.market.ids import TaskId, UnitId
from gpu_tasks.market.weights import WEIGHTS
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

ATTACH_WEIGHT = WEIGHTS["Attestations.attach attestation"]
"""The weight of one attestation, without the settlement that it causes."""


def _attach_weight(attestations: tuple[AnyAttestation, ...]) -> Weight:
    """Return the declared weight, without the settlements: only the state knows them."""
    return WEIGHTS["Attestations.attach"] + times(len(attestations), ATTACH_WEIGHT)


@event
class Attested:
    """A block took in a provider's attestation of a unit."""

    unit: UnitId
    provider: AccountId
    device: Hash
    output_root: Hash
    attestation_hash: Hash


@event
class TaskAttested:
    """A block took in a provider's attestation of a milestone or a result."""

    task: TaskId
    place: U8
    provider: AccountId
    device: Hash
    attestation_hash: Hash


class NotAdmissible(DispatchError):
    """The attestation breaks a rule of form: assignment, window, opening, usage or signature."""


class Attestations(Pallet, index=11):
    """The inherent, and a signed fallback for providers whose attestations authors omit."""

    attested: StorageValue[U32] = StorageValue(default=0, doc="Attestations in the chain so far.")

    events = (Attested, TaskAttested)
    errors = (NotAdmissible,)

    @call(index=0, weight=_attach_weight)
    def attach(self, origin: Unsigned, attestations: AttestationList) -> PostDispatch:
        """Attach the attestations that the block's author holds.

        Raise InvalidBlock if one is not admissible, or if they exceed the limits of number, bytes or weight.
        """
        # The limits come first, because each check below may verify a signature.
        if not 0 < len(attestations) <= ATTESTATIONS_PER_BLOCK_MAX:
            raise InvalidBlock("number of attestations out of bounds")
        if sum(size(attestation) for attestation in attestations) > ATTESTATION_BYTES_PER_BLOCK_MAX:
            raise InvalidBlock("attestations above the limit of bytes")
        # Strict order excludes duplicates, and leaves an author no choice of order.
        keys = [order_key(attestation) for attestation in attestations]
        if any(before >= after for before, after in pairwise(keys)):
            raise InvalidBlock("attestations out of order, or a duplicate")
        spent_weight, room_weight = WEIGHTS["Attestations.attach"], self.room()
        for attestation in attestations:
            problem = self.problem(attestation)  # Checked in turn: an earlier one may have settled the unit.
            if problem:
                raise InvalidBlock(f"attestation of {attestation.subject.hex()}: {problem}")
            spent_weight += self.weight_of(attestation)
            # Importers weigh the same, so an author cannot overfill its block.
            if not spent_weight.fits(room_weight):
                raise InvalidBlock("attestations heavier than the room in the block")
            self._put_in(attestation)
        return PostDispatch(actual_weight=spent_weight)

    @call(index=1, weight=WEIGHTS["Attestations.reveal"])
    def reveal(self, origin: Signed, attestation: SignedAttestation) -> PostDispatch:
        """Attach your attestation of a unit by transaction, if authors omit it. The call is free if it succeeds."""
        ensure(not self.problem(attestation), NotAdmissible)
        attach_weight = self.weight_of(attestation)
        self._put_in(attestation)
        # Free like an attestation: otherwise an author could impose a fee by omitting it.
        return PostDispatch(pays_fee=False, actual_weight=attach_weight)

    def room(self) -> Weight:
        """Return the weight that is left for attestations in the block under construction."""
        # If hooks have used up the mandatory weight of a block, attestations wait for a later one.
        return Weight(min(ATTESTATIONS_MAX.ref_time, max(0, self.context.mandatory_left)), 0)

    def weight_of(self, signed: AnyAttestation) -> Weight:
        """Return the weight of attaching an admissible attestation."""
        return self._source(signed).attaching_weight(signed)

    def problem(self, signed: AnyAttestation) -> str:
        """Return the reason why this attestation may not be attached now, or "" if it may."""
        return self._source(signed).attestation_problem(signed)

    def _put_in(self, attestation: AnyAttestation) -> None:
        self.attested.set(self.attested.get() + 1)
        self._source(attestation).attach_work(attestation)

    def _source(self, attestation: AnyAttestation) -> WorkSource:
        return source_of(attestation, self.context.members.values())
