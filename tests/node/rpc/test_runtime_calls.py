"""The cost limit of one question about an extrinsic to the process that answers all clients."""

from __future__ import annotations

import pytest

from genesis.chain import apis_for
from node.rpc.jsonrpc import INVALID_TRANSACTION, JsonRpcError
from node.rpc.runtime_calls import RuntimeCalls
from runtime.blocks.extrinsic import Extrinsic, decode_extrinsic, encode_bare
from runtime.frame.runtime import Runtime
from runtime.frame.weights import SIGNED_LENGTH_MAX_BYTES
from runtime.interface import standard_apis
from runtime.pallets.system import System
from runtime.pallets.utility import BATCHED_CALLS_MAX, Utility
from runtime.state.overlay import Memory

CALLS = RuntimeCalls(apis_for("devnet", is_development=True))


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the lengths of the decoded extrinsics."""
    lengths: list[int] = []

    def noted(runtime: Runtime, raw: bytes) -> Extrinsic:
        lengths.append(len(raw))
        return decode_extrinsic(runtime, raw)

    monkeypatch.setattr(standard_apis, "decode_extrinsic", noted)
    return lengths


def test_calls_inside_calls_that_nobody_could_sign_are_not_decoded(decoded: list[int]) -> None:
    """Unsigned, they passed for an inherent, which may be four times as long: a second for one POST."""
    batch = Utility.batch(calls=(System.remark(remark=b""),) * BATCHED_CALLS_MAX)
    raw = encode_bare(CALLS.runtime, Utility.batch(calls=(batch,) * 50))
    assert len(raw) > SIGNED_LENGTH_MAX_BYTES
    for ask in (CALLS.fee_info, CALLS.fee_details):
        with pytest.raises(JsonRpcError) as refusal:
            ask(Memory(), bytes(32), raw)
        assert refusal.value.code == INVALID_TRANSACTION
    with pytest.raises(JsonRpcError):
        CALLS.call(Memory(), bytes(32), "TaggedTransactionQueue_validate_transaction", b"\0" + raw + bytes(32))
    assert decoded == []


def test_an_extrinsic_is_decoded_once_for_its_fee(decoded: list[int]) -> None:
    raw = encode_bare(CALLS.runtime, System.remark(remark=b""))
    assert CALLS.fee_info(Memory(), bytes(32), raw).partial_fee == 0
    assert decoded == [len(raw)]
