"""Metadata: everything that public clients need, and one of them reads this chain with nothing else."""

from typing import Annotated, Any

import pytest

from public_client import PublicClient
from runtime.blocks.block import block_id
from runtime.blocks.era import mortal
from runtime.blocks.extrinsic import decode_extrinsic
from runtime.encoding.codec import U32, Bounded, DecodeError, codec
from runtime.encoding.types import RuntimeVersion
from runtime.frame.api import UnknownApi
from runtime.frame.errors import InvalidReason
from runtime.interface.metadata import metadata
from runtime.interface.metadata_schema import METADATA_V14, METADATA_V15, TypeEntry
from runtime.interface.standard_apis import (
    FeeDetails,
    OpaqueMetadata,
    RuntimeDispatchInfo,
    TransactionValidity,
    ValidTransaction,
)
from runtime.pallets.balances import Balances
from runtime.pallets.sudo import Sudo
from runtime.pallets.system import AccountInfo, System
from runtime.pallets.utility import Utility
from small_chain import ALICE, APIS, BOB, ENDOWMENT, RUNTIME, VERSION, SmallChain

V14 = METADATA_V14.decode(metadata(APIS, 14)[5:])
V15 = METADATA_V15.decode(metadata(APIS, 15)[5:])

PATHS_THAT_CLIENTS_KNOW = [
    "sp_core::crypto::AccountId32",
    "primitive_types::H256",
    "sp_runtime::multiaddress::MultiAddress",
    "sp_runtime::MultiSignature",
    "sp_runtime::generic::unchecked_extrinsic::UncheckedExtrinsic",
    "sp_runtime::generic::era::Era",
    "sp_runtime::generic::digest::Digest",
    "sp_runtime::generic::digest::DigestItem",
    "sp_runtime::DispatchError",
    "sp_runtime::ModuleError",
    "sp_weights::weight_v2::Weight",
    "frame_system::EventRecord",
    "frame_system::Phase",
    "frame_system::AccountInfo",
    "pallet_balances::types::AccountData",
    "pallet_balances::types::BalanceLock",
    "pallet_balances::types::ReserveData",
    "frame_support::traits::tokens::misc::IdAmount",
    "frame_support::dispatch::DispatchClass",
    "frame_support::dispatch::Pays",
    "ogpu_runtime::RuntimeCall",
    "ogpu_runtime::RuntimeEvent",
    "ogpu_runtime::Runtime",
]


@pytest.fixture(scope="module")
def client() -> PublicClient:
    return PublicClient(metadata(APIS, 14))


def by_path(types: tuple[TypeEntry, ...]) -> dict[str, TypeEntry]:
    return {"::".join(entry.path): entry for entry in types if entry.path}


@pytest.mark.parametrize("path", PATHS_THAT_CLIENTS_KNOW)
def test_well_known_types_have_their_paths(path: str) -> None:
    assert path in by_path(V14.types)
    assert path in by_path(V15.types)


def test_generic_parameters_that_polkadot_js_takes_apart() -> None:
    types = by_path(V14.types)
    names = {path: [parameter.name for parameter in types[path].params] for path in types}
    assert names["frame_system::EventRecord"] == ["E", "T"]
    assert names["sp_runtime::generic::unchecked_extrinsic::UncheckedExtrinsic"] == [
        "Address",
        "Call",
        "Signature",
        "Extra",
    ]
    assert names["sp_runtime::multiaddress::MultiAddress"] == ["AccountId", "AccountIndex"]


def test_extensions_are_exactly_those_without_custom_bytes() -> None:
    expected = (
        "CheckNonZeroSender CheckSpecVersion CheckTxVersion CheckGenesis CheckMortality CheckNonce CheckWeight "
        "ChargeTransactionPayment CheckMetadataHash"
    ).split()
    assert [extension.identifier for extension in V14.extrinsic.extensions] == expected
    assert [extension.identifier for extension in V15.extrinsic.extensions] == expected
    assert V14.extrinsic.version == V15.extrinsic.version == 4


def test_types_are_numbered_by_place_and_all_references_exist() -> None:
    for types in (V14.types, V15.types):
        assert [entry.id for entry in types] == list(range(len(types)))
        named = [(entry.path, entry.params) for entry in types if entry.path]
        assert len(set(named)) == len(named), "polkadot-js takes types of one path and equal parameters for one type"


def test_version_15_names_the_runtime_apis() -> None:
    names = {api.name: {method.name for method in api.methods} for api in V15.apis}
    assert names["Core"] == {"version"}
    assert names["TransactionPaymentApi"] >= {"query_info", "query_fee_details"}
    assert all(method.docs for api in V15.apis for method in api.methods)
    assert len(VERSION.apis) == len(V15.apis)
    assert VERSION.apis[0] == (bytes.fromhex("df6acb689907609b"), 5)


def test_every_default_decodes(client: PublicClient) -> None:
    for pallet in V14.pallets:
        for entry in pallet.storage.entries if pallet.storage else ():
            if entry.modifier == 1:
                client.storage(pallet.name, entry.name, entry.default)


def test_a_public_client_builds_the_calls_that_we_build(client: PublicClient) -> None:
    mine = Balances.transfer_keep_alive(dest=BOB.account, value=10**9)
    theirs = {"dest": "0x" + BOB.account.hex(), "value": 10**9}
    assert client.call("Balances", "transfer_keep_alive", theirs) == RUNTIME.call_codec.encode(mine)
    inner = {"call_module": "Balances", "call_function": "transfer_keep_alive", "call_args": theirs}
    batch = Utility.batch_all(calls=(mine, mine))
    assert client.call("Utility", "batch_all", {"calls": [inner, inner]}) == RUNTIME.call_codec.encode(batch)


def test_a_public_client_reads_extrinsics(client: PublicClient) -> None:
    chain = SmallChain()
    call = Sudo.sudo(call=Utility.batch(calls=(Balances.burn(value=5, keep_alive=True),)))
    value = client.decode("Extrinsic", chain.signed(ALICE, call, tip=3, era=mortal(64, 0)))
    assert (value["nonce"], value["tip"], value["era"]) == (0, 3, (64, 0))
    assert value["call"]["call_function"] == "sudo"
    nested = value["call"]["call_args"][0]["value"]["call_args"][0]["value"][0]
    assert (nested["call_function"], nested["call_args"][0]["value"]) == ("burn", 5)


def test_a_public_client_reads_accounts_and_events(client: PublicClient) -> None:
    chain = SmallChain()
    too_much = Balances.transfer_keep_alive(dest=BOB.account, value=2 * ENDOWMENT)
    fine = Balances.transfer_keep_alive(dest=BOB.account, value=10**8)
    chain.author(chain.signed(ALICE, Utility.force_batch(calls=(fine, too_much))), chain.signed(BOB, too_much))
    account = RUNTIME.item(System.account)
    raw = chain.state.values[account.key(ALICE.account)]
    told = client.storage("System", "Account", raw)
    info: AccountInfo = account.decode(raw)
    assert (told["nonce"], told["data"]["free"]) == (info.nonce, info.data.free)
    events = client.storage("System", "Events", chain.state.values[RUNTIME.item(System.event_records).key()])
    names = [(record["event"]["module_id"], record["event"]["event_id"]) for record in events]
    assert names[0] == ("System", "ExtrinsicSuccess")
    for name in [
        ("Balances", "Transfer"),
        ("Utility", "ItemFailed"),
        ("Utility", "BatchCompletedWithErrors"),
        ("TransactionPayment", "TransactionFeePaid"),
        ("System", "ExtrinsicFailed"),
    ]:
        assert name in names
    failed = next(record for record in events if record["event"]["event_id"] == "ExtrinsicFailed")
    assert failed["event"]["attributes"]["dispatch_error"] == {"Token": "FundsUnavailable"}
    assert failed["phase"] == "ApplyExtrinsic"


def test_a_public_client_reads_the_digest(client: PublicClient) -> None:
    chain = SmallChain()
    chain.author()
    raw = chain.state.values[RUNTIME.item(System.digest).key()]
    logs = client.storage("System", "Digest", raw)["logs"]
    assert [next(iter(log)) for log in logs] == ["PreRuntime", "PreRuntime"]


def ask(chain: SmallChain, method: str, arguments: bytes, output: Any) -> Any:
    return codec(output).decode(APIS.call(chain.state, block_id(chain.head), method, arguments))


def test_runtime_apis_answer() -> None:
    chain = SmallChain()
    chain.author(chain.signed(ALICE, Balances.burn(value=1, keep_alive=True)))
    assert ask(chain, "Core_version", b"", RuntimeVersion) == VERSION
    assert ask(chain, "AccountNonceApi_account_nonce", ALICE.account, U32) == 1
    assert ask(chain, "Metadata_metadata", b"", OpaqueMetadata) == metadata(APIS, 14)
    assert ask(chain, "Metadata_metadata_versions", b"", Annotated[tuple[U32, ...], Bounded(9)]) == (14, 15)
    for version, expected in ((15, metadata(APIS, 15)), (16, None)):
        argument = codec(U32).encode(version)
        assert ask(chain, "Metadata_metadata_at_version", argument, OpaqueMetadata | None) == expected
    with pytest.raises(UnknownApi):
        APIS.call(chain.state, block_id(chain.head), "Metadata_nothing", b"")
    with pytest.raises(DecodeError):
        APIS.call(chain.state, block_id(chain.head), "AccountNonceApi_account_nonce", b"\0" * 33)


def test_fees_are_told_before_they_are_taken() -> None:
    chain = SmallChain()
    raw = chain.signed(ALICE, Balances.transfer_keep_alive(dest=BOB.account, value=10**8), tip=9)
    arguments = raw + codec(U32).encode(len(raw))
    told = ask(chain, "TransactionPaymentApi_query_info", arguments, RuntimeDispatchInfo)
    details = ask(chain, "TransactionPaymentApi_query_fee_details", arguments, FeeDetails)
    chain.author(raw)
    assert chain.balance(ALICE) == ENDOWMENT - 10**8 - told.partial_fee - 9
    assert (details.inclusion_fee.total, details.tip) == (told.partial_fee, 9)


def test_the_queue_api_judges() -> None:
    chain = SmallChain()
    raw = chain.signed(ALICE, Balances.burn(value=1, keep_alive=True))
    head = block_id(chain.head)
    name = "TaggedTransactionQueue_validate_transaction"
    assert isinstance(ask(chain, name, b"\2" + raw + head, TransactionValidity), ValidTransaction)
    chain.author(raw)
    assert ask(chain, name, b"\2" + raw + head, TransactionValidity) is InvalidReason.STALE
    assert decode_extrinsic(RUNTIME, raw).call == Balances.burn(value=1, keep_alive=True)
