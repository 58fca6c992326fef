"""The node's refusals in the sentences of Substrate, which clients show to people."""

from __future__ import annotations

from node.feed.client import RequestRefusedError
from node.rpc.jsonrpc import INVALID_TRANSACTION, JsonRpcError
from runtime.frame.errors import InvalidReason

# As `sp_runtime::transaction_validity::InvalidTransaction` says them.
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
_BY_WORD = {reason.name.lower(): sentence for reason, sentence in SENTENCES.items()}


def json_error(refusal: RequestRefusedError) -> JsonRpcError:
    """What the client is told; the node's own detail stays behind the sentence."""
    if refusal.code != INVALID_TRANSACTION:
        return JsonRpcError(refusal.code, refusal.text, refusal.data or None)
    word, _, detail = refusal.data.partition(": ")
    sentence = _BY_WORD.get(word)
    if sentence is None:
        return JsonRpcError(refusal.code, refusal.text, refusal.data or None)
    return JsonRpcError(refusal.code, refusal.text, f"{sentence}: {detail}" if detail else sentence)
