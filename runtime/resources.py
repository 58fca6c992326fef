"""How full the block under execution is, and whether an extrinsic still fits (the extension CheckWeight)."""

from runtime.errors import InvalidTransaction, Reason
from runtime.pallets.system import ConsumedWeight
from runtime.types import DispatchClass, Weight
from runtime.weights import (
    BLOCK_BASE,
    BLOCK_MAX,
    EXTRINSIC_BASE,
    EXTRINSICS_PER_BLOCK_MAX,
    class_limit,
    length_limit,
)


class BlockResources:
    """Weight, bytes and number of the extrinsics so far. Kept outside the state: a failed call is not undone here."""

    def __init__(self) -> None:
        self.count = 0
        self.length = 0
        self.time = [0, 0, BLOCK_BASE.ref_time]
        self.proof = [0, 0, BLOCK_BASE.proof_size]

    def check(self, kind: DispatchClass, weight: Weight, length: int) -> None:
        """InvalidTransaction if an extrinsic whose call weighs so much does not fit. Inherents always do."""
        limit = class_limit(kind)
        if limit is None:
            return
        time = weight.ref_time + EXTRINSIC_BASE.ref_time
        if (
            self.time[kind] + time > limit.ref_time
            or sum(self.time) + time > BLOCK_MAX.ref_time
            or self.proof[kind] + weight.proof_size > limit.proof_size
            or sum(self.proof) + weight.proof_size > BLOCK_MAX.proof_size
            or self.length + length > length_limit(kind)
            or self.count >= EXTRINSICS_PER_BLOCK_MAX
        ):
            raise InvalidTransaction(Reason.EXHAUSTS_RESOURCES)

    def add(self, kind: DispatchClass, weight: Weight, length: int) -> None:
        """Count an extrinsic that was applied."""
        self.count += 1
        self.length += length
        self.time[kind] += weight.ref_time + EXTRINSIC_BASE.ref_time
        self.proof[kind] += weight.proof_size

    def consumed(self) -> ConsumedWeight:
        """The weights by class, as the state shows them."""
        return ConsumedWeight(*(Weight(self.time[kind], self.proof[kind]) for kind in DispatchClass))
