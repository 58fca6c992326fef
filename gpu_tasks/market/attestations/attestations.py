"""Attestations: what the author of a block puts into it about executed work, as an inherent.

An attestation of a unit opens its provider's commitment, so attaching it is the reveal; that of a task states a
milestone or a result. Always: a block whose attestations break a rule of form is invalid; whether the work is right is
never judged here; the market of an attestation (`work_source`) decides for authors and importers, and for the signed
fallbacks: `reveal`, and of tasks the calls `report_milestone` and `finish` of their market.
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
"""One attestation, without what it settles."""


def _attach_weight(attestations: tuple[AnyAttestation, ...]) -> Weight:
    """Without what they settle, which only the state knows."""
    return WEIGHTS["Attestations.attach"] + times(len(attestations), ATTACH_WEIGHT)


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
                raise InvalidBlock(f"attestation of {signed.subject.hex()}: {problem}")
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
        """What attaching one that is admissible weighs."""
        return self._source(signed).attaching_weight(signed)

    def problem(self, signed: AnyAttestation) -> str:
        """Why this attestation may not be attached now; empty if it may."""
        return self._source(signed).attestation_problem(signed)

    def _put_in(self, signed: AnyAttestation) -> None:
        self.attested.set(self.attested.get() + 1)
        self._source(signed).attach_work(signed)

    def _source(self, signed: AnyAttestation) -> WorkSource:
        return source_of(signed, self.context.members.values())
