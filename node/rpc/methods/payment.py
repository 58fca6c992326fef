"""`payment_*`: what an extrinsic would cost."""

from __future__ import annotations

from node.rpc.block_reads import BlockReads
from node.rpc.jsonrpc import Json
from node.rpc.registry import HashParameter, Hex, method
from node.rpc.runtime_calls import RuntimeCalls


class Payment:
    """Fees, by the runtime's own reckoning."""

    def __init__(self, blocks: BlockReads, runtime: RuntimeCalls) -> None:
        """Executes with the chain's own runtime."""
        self.blocks = blocks
        self.runtime = runtime

    @method("payment_queryInfo")
    async def query_info(self, extrinsic: Hex, at: HashParameter | None) -> Json:
        """Weight, class and fee of an extrinsic."""
        info = self.runtime.fee_info(*await self.blocks.state_for_call(at), extrinsic)
        weight = {"refTime": info.weight.ref_time, "proofSize": info.weight.proof_size}
        names = ("normal", "operational", "mandatory")
        return {"weight": weight, "class": names[info.class_], "partialFee": str(info.partial_fee)}

    @method("payment_queryFeeDetails")
    async def query_fee_details(self, extrinsic: Hex, at: HashParameter | None) -> Json:
        """The parts of the fee."""
        details = self.runtime.fee_details(*await self.blocks.state_for_call(at), extrinsic)
        fee = details.inclusion_fee
        if fee is None:
            return {"inclusionFee": None}
        parts = {"baseFee": fee.base_fee, "lenFee": fee.len_fee, "adjustedWeightFee": fee.adjusted_weight_fee}
        return {"inclusionFee": {name: hex(amount) for name, amount in parts.items()}}
