"""The room left in the block under execution, and the check of an extrinsic against it (the extension CheckWeight)."""

from runtime.encoding.types import DispatchClass, Weight
from runtime.frame.errors import InvalidReason, InvalidTransaction
from runtime.frame.weights import (
    BLOCK_BASE,
    BLOCK_MAX,
    EXTRINSIC_BASE,
    EXTRINSICS_PER_BLOCK_MAX,
    class_limit,
    length_limit,
)
from runtime.pallets.system import ConsumedWeight

# Tuples by the number of the class: a dictionary look-up by an enumeration's member costs Python a call.
_LIMITS = tuple((limit.ref_time, limit.proof_size) if (limit := class_limit(kind)) else None for kind in DispatchClass)
_LENGTHS = tuple(length_limit(kind) for kind in DispatchClass)
_BASE_TIME = EXTRINSIC_BASE.ref_time


class BlockFullness:
    """The weight, bytes and number of the extrinsics so far. Outside the state, so a failed call does not undo it."""

    def __init__(self) -> None:
        self.count = 0
        self.length = 0
        # The work of an empty block counts as mandatory.
        self._time = [0, 0, BLOCK_BASE.ref_time]
        self._proof = [0, 0, BLOCK_BASE.proof_size]
        self._total_time = BLOCK_BASE.ref_time
        self._total_proof = BLOCK_BASE.proof_size

    def check(self, dispatch_class: DispatchClass, weight: Weight, length: int) -> None:
        """Raise InvalidTransaction if an extrinsic of this weight does not fit. Inherents have their own limit."""
        limits = _LIMITS[dispatch_class]
        if limits is None:
            return
        time_added, proof_added = weight.ref_time + _BASE_TIME, weight.proof_size
        time_max, proof_max = limits
        if (
            self._time[dispatch_class] + time_added > time_max
            or self._total_time + time_added > BLOCK_MAX.ref_time
            or self._proof[dispatch_class] + proof_added > proof_max
            or self._total_proof + proof_added > BLOCK_MAX.proof_size
            or self.length + length > _LENGTHS[dispatch_class]
            or self.count >= EXTRINSICS_PER_BLOCK_MAX
        ):
            raise InvalidTransaction(InvalidReason.EXHAUSTS_RESOURCES)

    def add_hook(self, weight: Weight) -> None:
        """Count a pallet's work before the first extrinsic."""
        self._time[DispatchClass.Mandatory] += weight.ref_time
        self._proof[DispatchClass.Mandatory] += weight.proof_size
        self._total_time += weight.ref_time
        self._total_proof += weight.proof_size

    def add(self, dispatch_class: DispatchClass, weight: Weight, length: int) -> None:
        """Count an extrinsic that was applied."""
        time_added, proof_added = weight.ref_time + _BASE_TIME, weight.proof_size
        self.count += 1
        self.length += length
        self._time[dispatch_class] += time_added
        self._total_time += time_added
        self._proof[dispatch_class] += proof_added
        self._total_proof += proof_added

    def consumed(self) -> ConsumedWeight:
        """Return the weights by class, in the form that the state stores."""
        return ConsumedWeight(
            *(Weight(self._time[dispatch_class], self._proof[dispatch_class]) for dispatch_class in DispatchClass)
        )
