"""The chain's runtime in the RPC process: the code that the node executes, over the replica's states.

A client's request can raise only `JsonRpcError`. Any other exception is our own fault and becomes an internal error.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from node.rpc.block_reads import to_hex
from node.rpc.jsonrpc import CLIENT_ERROR, INVALID_PARAMS, INVALID_TRANSACTION, Json, JsonRpcError
from runtime.encoding.codec import U32, codec
from runtime.encoding.scale import DecodeError
from runtime.frame.api import Apis, UnknownApi
from runtime.interface.standard_apis import FeeDetails, RuntimeDispatchInfo
from runtime.pallets.system import System
from runtime.state.overlay import Memory, StateReader

STATELESS = ("Metadata_", "Core_")  # families with the same answer over any state
QUERY_INFO = "TransactionPaymentApi_query_info"
QUERY_FEE_DETAILS = "TransactionPaymentApi_query_fee_details"
ANSWER_LENGTH_MIN = 16_384
_LENGTH_CODEC = codec(U32)


class RuntimeCalls:
    """Runtime APIs and metadata of one chain."""

    def __init__(self, apis: Apis) -> None:
        """Create it over the chain's `apis`."""
        self.apis = apis
        self.runtime = apis.runtime
        self._stateless_answers: dict[tuple[str, bytes], str] = {}
        self._account_item = self.runtime.item(System.account)

    def call(self, reader: StateReader, block_id: bytes, function: str, arguments: bytes) -> bytes:
        """Return the encoded answer of a runtime API over the state after a block."""
        try:
            return self.apis.call(reader, block_id, function, arguments)
        except UnknownApi:
            # Public clients check this wording before they fall back to older methods.
            error_text = f"Client error: Execution failed: Other: Exported method {function} is not found"
            raise JsonRpcError(CLIENT_ERROR, error_text) from None
        except DecodeError as error:
            raise JsonRpcError(INVALID_PARAMS, f"{function}: the arguments do not decode: {error}") from None

    def call_hex(self, reader: StateReader, block_id: bytes, function_name: str, argument_bytes: bytes) -> str:
        """Return the same in hexadecimal."""
        if not function_name.startswith(STATELESS):
            return to_hex(self.call(reader, block_id, function_name, argument_bytes))
        # Half a megabyte that every client requests when it connects, and that never changes: computed once.
        function_and_arguments = (function_name, argument_bytes)
        answer_hex = self._stateless_answers.get(function_and_arguments) or to_hex(
            self.call(reader, block_id, function_name, argument_bytes)
        )
        if len(answer_hex) >= ANSWER_LENGTH_MIN:  # only a few answers are this long, whatever clients request
            self._stateless_answers[function_and_arguments] = answer_hex
        return answer_hex

    @cached_property
    def metadata_v14(self) -> str:
        """The answer of `state_getMetadata`."""
        metadata_method = self.apis.methods["Metadata_metadata"]
        raw: bytes = metadata_method.output.decode(self.apis.call(Memory(), bytes(32), "Metadata_metadata", b""))
        return to_hex(raw)

    @cached_property
    def version_json(self) -> Json:
        """The answer of `state_getRuntimeVersion`."""
        version = self.runtime.version
        return {
            "specName": version.spec_name,
            "implName": version.impl_name,
            "authoringVersion": version.authoring_version,
            "specVersion": version.spec_version,
            "implVersion": version.impl_version,
            "apis": [[to_hex(identifier), number] for identifier, number in version.apis],
            "transactionVersion": version.transaction_version,
            "stateVersion": min(version.system_version, 1),  # the older name, of the state's layout alone
            "systemVersion": version.system_version,
        }

    def nonce(self, reader: StateReader, account: bytes) -> int:
        """Return the account's nonce in a state."""
        raw_account = reader.get(self._account_item.key(account))
        account_nonce: int = 0 if raw_account is None else self._account_item.decode(raw_account).nonce
        return account_nonce

    def fee_info(self, reader: StateReader, block_id: bytes, extrinsic: bytes) -> RuntimeDispatchInfo:
        """Return weight, class and fee of an extrinsic."""
        info: RuntimeDispatchInfo = self._payment_answer(reader, block_id, QUERY_INFO, extrinsic)
        return info

    def fee_details(self, reader: StateReader, block_id: bytes, extrinsic: bytes) -> FeeDetails:
        """Return the parts of its fee."""
        fee_parts: FeeDetails = self._payment_answer(reader, block_id, QUERY_FEE_DETAILS, extrinsic)
        return fee_parts

    def _payment_answer(self, reader: StateReader, block_id: bytes, function_name: str, extrinsic: bytes) -> Any:
        try:
            answer = self.apis.call(reader, block_id, function_name, extrinsic + _LENGTH_CODEC.encode(len(extrinsic)))
        except DecodeError as error:
            raise JsonRpcError(
                INVALID_TRANSACTION, "Invalid Transaction", f"the extrinsic does not decode: {error}"
            ) from None
        return self.apis.methods[function_name].output.decode(answer)
