"""`payment_*`: what an extrinsic would cost."""

from __future__ import annotations

from node.rpc.block_reads import BlockReads
from node.rpc.jsonrpc import Json
from node.rpc.long_calls import LongCalls
from node.rpc.registry import HashParameter, Hex, method
from node.rpc.runtime_calls import QUERY_FEE_DETAILS, QUERY_INFO, RuntimeCalls


class Payment:
    """Fees, by the runtime's own reckoning."""

    def __init__(self, blocks: BlockReads, runtime: RuntimeCalls, long_calls: LongCalls) -> None:
        """Executes with the chain's own runtime."""
        self.blocks = blocks
        self.runtime = runtime
        self.long_calls = long_calls

    @method("payment_queryInfo")
    async def query_info(self, extrinsic: Hex, at: HashParameter | None) -> Json:
        """Weight, class and fee of an extrinsic."""
        asked = *await self.blocks.state_for_call(at), extrinsic
        info = await self.long_calls.run(QUERY_INFO, len(extrinsic), lambda: self.runtime.fee_info(*asked))
        weight = {"refTime": info.weight.ref_time, "proofSize": info.weight.proof_size}
        names = ("normal", "operational", "mandatory")
        return {"weight": weight, "class": names[info.class_], "partialFee": str(info.partial_fee)}

    @method("payment_queryFeeDetails")
    async def query_fee_details(self, extrinsic: Hex, at: HashParameter | None) -> Json:
        """The parts of the fee."""
        asked = *await self.blocks.state_for_call(at), extrinsic
        size = len(extrinsic)
        details = await self.long_calls.run(QUERY_FEE_DETAILS, size, lambda: self.runtime.fee_details(*asked))
        fee = details.inclusion_fee
        if fee is None:
            return {"inclusionFee": None}
        parts = {"baseFee": fee.base_fee, "lenFee": fee.len_fee, "adjustedWeightFee": fee.adjusted_weight_fee}
        return {"inclusionFee": {name: hex(amount) for name, amount in parts.items()}}
