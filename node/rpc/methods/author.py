"""`author_*`: submission of extrinsics, and their statuses; `payment_*`: fees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from node.feed import messages as feed
from node.feed.client import RequestRefusedError
from node.rpc.block_reads import BlockReads, to_hex
from node.rpc.jsonrpc import INVALID_PARAMS, INVALID_TRANSACTION, Json, JsonRpcError
from node.rpc.long_calls import LongCalls
from node.rpc.registry import HashParameter, Hex, Safety, method, subscription
from node.rpc.runtime_calls import QUERY_FEE_DETAILS, QUERY_INFO, RuntimeCalls
from runtime.cryptography.hashing import blake2_256
from runtime.frame.errors import InvalidReason

MAX_EXTRINSIC_BYTES = 512 * 1024
FINISHED = frozenset({"finalized", "usurped", "dropped", "invalid"})
IN_BLOCK_SECONDS = 0.5  # the time between `inBlock` and `finalized` for a watcher
# Substrate's spelling; the node uses snake case.
_SUBSTRATE_SPELLINGS = {"in_block": "inBlock"}


# The sentences of `sp_runtime::transaction_validity::InvalidTransaction`.
SENTENCES = {
    InvalidReason.CALL: "Transaction call is not expected",
    InvalidReason.PAYMENT: "Inability to pay some fees (e.g. account balance too low)",
    InvalidReason.FUTURE: "Transaction will be valid in the future",
    InvalidReason.STALE: "Transaction is outdated",
    InvalidReason.BAD_PROOF: "Transaction has a bad signature",
    InvalidReason.ANCIENT_BIRTH_BLOCK: "Transaction has an ancient birth block",
    InvalidReason.EXHAUSTS_RESOURCES: "Transaction would exhaust the block limits",
    InvalidReason.CUSTOM: "InvalidTransaction custom error",
    InvalidReason.BAD_MANDATORY: "A call was labelled as mandatory, but resulted in an Error.",
    InvalidReason.MANDATORY_VALIDATION: "Transaction dispatch is mandatory; transactions must not be validated.",
    InvalidReason.BAD_SIGNER: "Invalid signing address",
}
_SENTENCES_BY_WORD = {reason.name.lower(): sentence for reason, sentence in SENTENCES.items()}


def json_error(refusal: RequestRefusedError) -> JsonRpcError:
    """Return the client's error; the node's detail follows the sentence."""
    if refusal.code != INVALID_TRANSACTION:
        return JsonRpcError(refusal.code, refusal.text, refusal.data or None)
    reason_word, _, detail_text = refusal.data.partition(": ")
    sentence = _SENTENCES_BY_WORD.get(reason_word)
    if sentence is None:
        return JsonRpcError(refusal.code, refusal.text, refusal.data or None)
    return JsonRpcError(refusal.code, refusal.text, f"{sentence}: {detail_text}" if detail_text else sentence)


class Payment:
    """Fees, computed by the runtime."""

    def __init__(self, blocks: BlockReads, runtime: RuntimeCalls, long_calls: LongCalls) -> None:
        """Create it; it executes with the chain's own runtime."""
        self.blocks = blocks
        self.runtime = runtime
        self.long_calls = long_calls

    @method("payment_queryInfo")
    async def query_info(self, extrinsic: Hex, at: HashParameter | None) -> Json:
        """Return weight, class and fee of an extrinsic."""
        arguments = *await self.blocks.state_for_call(at), extrinsic
        info = await self.long_calls.run(QUERY_INFO, len(extrinsic), lambda: self.runtime.fee_info(*arguments))
        weight_json = {"refTime": info.weight.ref_time, "proofSize": info.weight.proof_size}
        class_names = ("normal", "operational", "mandatory")
        return {
            "weight": weight_json,
            "class": class_names[info.class_],
            "partialFee": str(info.partial_fee),
        }

    @method("payment_queryFeeDetails")
    async def query_fee_details(self, extrinsic: Hex, at: HashParameter | None) -> Json:
        """Return the parts of an extrinsic's fee."""
        arguments = *await self.blocks.state_for_call(at), extrinsic
        extrinsic_bytes = len(extrinsic)
        details = await self.long_calls.run(
            QUERY_FEE_DETAILS, extrinsic_bytes, lambda: self.runtime.fee_details(*arguments)
        )
        fee = details.inclusion_fee
        if fee is None:
            return {"inclusionFee": None}
        fee_parts = {
            "baseFee": fee.base_fee,
            "lenFee": fee.len_fee,
            "adjustedWeightFee": fee.adjusted_weight_fee,
        }
        return {"inclusionFee": {part_name: hex(amount) for part_name, amount in fee_parts.items()}}


class AuthorMethods:
    """Submissions; the node's pool decides on them."""

    def __init__(self, blocks: BlockReads) -> None:
        """Create it over the node behind `blocks`."""
        self.blocks = blocks

    @method("author_submitExtrinsic", batch_name="submit_batch")
    async def submit(self, extrinsic: Hex) -> Json:
        """Submit an extrinsic and return its hash."""
        (outcome,) = await self.submit_batch([(extrinsic,)])
        if isinstance(outcome, JsonRpcError):
            raise outcome
        return outcome

    async def submit_batch(self, calls: Sequence[Sequence[bytes]]) -> list[Json | JsonRpcError]:
        """Submit several extrinsics as one question to the node; they enter the pool in their order."""
        fitting_extrinsics = [extrinsic for (extrinsic,) in calls if len(extrinsic) <= MAX_EXTRINSIC_BYTES]
        outcomes = iter(await self.blocks.node.submit_many(fitting_extrinsics))
        return [
            _outcome_json(next(outcomes)) if len(extrinsic) <= MAX_EXTRINSIC_BYTES else _too_long()
            for (extrinsic,) in calls
        ]

    @method("author_pendingExtrinsics")
    async def pending(self) -> Json:
        """Return the extrinsics in the pool."""
        return [to_hex(extrinsic) for extrinsic in await self.blocks.node.pending()]

    @method("author_rotateKeysWithOwner", safety=Safety.UNSAFE)
    async def rotate_keys(self, owner: Hex) -> Json:
        """Make and load new session and VRF keys; return them with the proof with which the account registers them.

        The form is that of `ogpu-node key rotate`: the answer may be saved for `ogpu-wallet set-keys FILE`.
        """
        try:
            keys, proof = await self.blocks.node.rotate_keys(owner)
        except RequestRefusedError as error:
            raise json_error(error) from None
        return {"keys": to_hex(keys), "proof": to_hex(proof)}

    @subscription(
        "author_submitAndWatchExtrinsic",
        notification="author_extrinsicUpdate",
        unsubscribe=("author_unwatchExtrinsic",),
    )
    async def submit_and_watch(self, extrinsic: Hex) -> AsyncIterator[Json]:
        """Submit an extrinsic, and yield each status up to `finalized`, `usurped`, `dropped` or `invalid`."""
        # By its hash: if each watcher woke for every extrinsic, a thousand would wake a million times a block.
        news = self.blocks.replica.extrinsic_statuses.listen(blake2_256(extrinsic))
        await self._submit_extrinsic(extrinsic)
        return _statuses(news)

    async def _submit_extrinsic(self, extrinsic: bytes) -> bytes:
        if len(extrinsic) > MAX_EXTRINSIC_BYTES:
            raise _too_long()
        try:
            return await self.blocks.node.submit(extrinsic)
        except RequestRefusedError as error:
            raise json_error(error) from None


def _outcome_json(outcome: bytes | RequestRefusedError) -> Json | JsonRpcError:
    return json_error(outcome) if isinstance(outcome, RequestRefusedError) else to_hex(outcome)


def _too_long() -> JsonRpcError:
    return JsonRpcError(INVALID_PARAMS, "Invalid params", f"an extrinsic has at most {MAX_EXTRINSIC_BYTES} bytes")


async def _statuses(news: AsyncIterator[feed.ExtrinsicStatus]) -> AsyncIterator[Json]:
    loop_seconds = asyncio.get_running_loop().time
    shown_at = 0.0
    async for item in news:
        # A client that fetches a block's events before it reports `inBlock` drops that for a newer status. Its user
        # would then wait for `inBlock` for ever.
        if item.status == "finalized":
            await asyncio.sleep(max(0.0, shown_at + IN_BLOCK_SECONDS - loop_seconds()))
        elif item.status == "in_block":
            shown_at = loop_seconds()
        yield _status_json(item)
        if item.status in FINISHED:
            return


def _status_json(item: feed.ExtrinsicStatus) -> Json:
    status = _SUBSTRATE_SPELLINGS.get(item.status, item.status)
    if item.status == "broadcast":
        return {"broadcast": []}
    if item.block_id is not None:
        return {status: to_hex(item.block_id)}
    return status
