"""The block under execution, and the chain's record of every account.

SDK layout: clients read `Account`, `Events`, `BlockHash`, `Number` and `ParentHash` by these names. An account's nonce
only rises, even after its balance ends, so an old transaction never becomes valid again.
"""

from typing import Annotated, Any

from runtime.blocks.digest import Digest
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U16, U32, Bounded, CompactU32, Named, UInt, codec, struct
from runtime.encoding.scale import encode_compact
from runtime.encoding.types import (
    AccountId,
    Balance,
    BlockNumber,
    DispatchInfo,
    Hash,
    Nonce,
    Phase,
    RuntimeVersion,
    Weight,
)
from runtime.frame.errors import CallFiltered, DispatchErrorField
from runtime.frame.measured import times
from runtime.frame.pallet import Constant, Hasher, Pallet, Root, Signed, StorageMap, StorageValue, call, event
from runtime.frame.runtime_codecs import RuntimeEvent
from runtime.frame.weights import BLOCK_LENGTH, BLOCK_WEIGHTS, DB_WEIGHT, BlockLength, BlockWeights, DbWeight
from runtime.pallets.weights import WEIGHTS

# The SDK's number: clients compute the lifetime of a transaction from it.
BLOCK_HASH_COUNT = 2400
"""The number of stored block hashes, which is the longest life of a mortal transaction."""
REMARK_BYTES_MAX = 64 * 1024
EVENTS_PER_BLOCK_MAX = 1_000_000
KIBIBYTE = 1_024
TOPICS_MAX = 16
NEW_ACCOUNT_FLAGS = 1 << 127
"""Set in every account by current SDKs: balances use holds and freezes instead of old locks."""
NO_HASH = bytes(32)
CODE_KEY = b":code"

_PHASE = codec(Phase)
Remark = Annotated[bytes, Bounded(REMARK_BYTES_MAX)]


@struct(path="pallet_balances::types::AccountData", params={"Balance": Balance})
class AccountData:
    """The balance of an account: it owns `free` and `reserved`, and may not spend `frozen`."""

    free: Balance = 0
    reserved: Balance = 0
    frozen: Balance = 0
    flags: Annotated[int, UInt(16), Named("pallet_balances::types::ExtraFlags")] = NEW_ACCOUNT_FLAGS


@struct(path="frame_system::AccountInfo", params={"Nonce": U32, "AccountData": AccountData})
class AccountInfo:
    """An account: its next nonce, the counts that clients expect, and its balance."""

    nonce: Nonce = 0
    consumers: U32 = 0
    providers: U32 = 0
    sufficients: U32 = 0
    data: AccountData = AccountData()


@struct(path="frame_system::EventRecord", params={"E": RuntimeEvent, "T": Hash})
class EventRecord:
    """An event, and the phase of the block in which it happened."""

    phase: Phase
    event: RuntimeEvent
    topics: Annotated[tuple[Hash, ...], Bounded(TOPICS_MAX)] = ()


EventRecords = Annotated[tuple[EventRecord, ...], Bounded(EVENTS_PER_BLOCK_MAX)]


@struct(path="frame_system::LastRuntimeUpgradeInfo")
class LastRuntimeUpgradeInfo:
    """The version of the rules that executed the last block."""

    spec_version: CompactU32
    spec_name: Annotated[str, Bounded(64)]


@struct(path="frame_support::dispatch::PerDispatchClass", params={"T": Weight})
class ConsumedWeight:
    """The weight of the block's extrinsics so far, by class."""

    normal: Weight = Weight()
    operational: Weight = Weight()
    mandatory: Weight = Weight()


@event(0)
class ExtrinsicSuccess:
    """An extrinsic succeeded."""

    dispatch_info: DispatchInfo


@event(1)
class ExtrinsicFailed:
    """An extrinsic failed. Only its fee and its nonce remain."""

    dispatch_error: DispatchErrorField
    dispatch_info: DispatchInfo


@event(3)
class NewAccount:
    """An account was created."""

    account: AccountId


@event(4)
class KilledAccount:
    """An account ended: it owns nothing."""

    account: AccountId


@event(5)
class Remarked:
    """An account put a remark on the chain."""

    sender: AccountId
    hash: Hash


def _remark_weight(call_name: str, remark_bytes: bytes) -> Weight:
    return WEIGHTS[call_name] + times(len(remark_bytes) // KIBIBYTE, WEIGHTS[f"{call_name} kibibyte"])


class System(Pallet, index=0):
    """The base of every other pallet."""

    account: StorageMap[AccountId, AccountInfo] = StorageMap(
        default=AccountInfo(), doc="Nonce and balances of every account.", encode_late=True
    )
    extrinsic_count: StorageValue[U32 | None] = StorageValue(doc="Number of extrinsics in the block so far.")
    block_weight: StorageValue[ConsumedWeight] = StorageValue(
        default=ConsumedWeight(), doc="Weight of the block's extrinsics so far."
    )
    all_extrinsics_len: StorageValue[U32 | None] = StorageValue(doc="Bytes of the block's extrinsics so far.")
    block_hash: StorageMap[BlockNumber, Hash] = StorageMap(
        default=NO_HASH, hasher=Hasher.TWOX_64_CONCAT, doc="The hashes of recent blocks."
    )
    number: StorageValue[BlockNumber] = StorageValue(default=0, doc="The height of the block.")
    parent_hash: StorageValue[Hash] = StorageValue(default=NO_HASH, doc="The hash of the parent block.")
    digest: StorageValue[Digest] = StorageValue(default=(), doc="The digest of the block without the seal.")
    event_records: StorageValue[EventRecords] = StorageValue(default=(), name="Events", doc="Events of the block.")
    event_count: StorageValue[U32] = StorageValue(default=0, doc="Number of events in the block.")
    last_runtime_upgrade: StorageValue[LastRuntimeUpgradeInfo | None] = StorageValue(
        doc="The runtime version of the last block."
    )

    block_weights: Constant[BlockWeights] = Constant(BLOCK_WEIGHTS, doc="Weight limits of a block.")
    block_length: Constant[BlockLength] = Constant(BLOCK_LENGTH, doc="Length limits of a block.")
    block_hash_count: Constant[BlockNumber] = Constant(
        BLOCK_HASH_COUNT, doc="Number of recent block hashes in the state."
    )
    db_weight: Constant[DbWeight] = Constant(DB_WEIGHT, doc="Weights of one read and one write of the state.")
    version: Constant[RuntimeVersion] = Constant(
        RuntimeVersion("", "", 0, 0, 0, (), 0, 0), doc="The current runtime version. The runtime fills it in."
    )
    ss58_prefix: Constant[U16] = Constant(42, name="SS58Prefix", doc="The network prefix of addresses.")

    events = (ExtrinsicSuccess, ExtrinsicFailed, NewAccount, KilledAccount, Remarked)
    errors = (CallFiltered,)

    @call(index=0, weight=lambda remark: _remark_weight("System.remark", remark))
    def remark(self, origin: Signed | Root, remark: Remark) -> None:
        """Put bytes on the chain, without effect."""

    @call(index=7, weight=lambda remark: _remark_weight("System.remark_with_event", remark))
    def remark_with_event(self, origin: Signed, remark: Remark) -> None:
        """Put bytes on the chain and emit their hash."""
        self.emit(Remarked(origin.account, blake2_256(remark)))

    def initialize(self, block_number: int, parent_hash: bytes, digest: Digest) -> None:
        """Begin block `block_number` on `parent_hash`. `digest` is the header's, without seal."""
        self.number.set(block_number)
        self.parent_hash.set(parent_hash)
        self.digest.set(digest)
        # A block cannot contain its own hash, so its child stores it.
        self.block_hash[block_number - 1] = parent_hash
        expired_number = block_number - 1 - self.block_hash_count
        if expired_number > 0:  # block 0's hash stays: every transaction is checked against it
            del self.block_hash[expired_number]
        self._note_upgrade()

    def finalize(self) -> None:
        """End the block: store its events, and drop values that matter only within the block."""
        self._store_events()
        self.extrinsic_count.remove()
        self.all_extrinsics_len.remove()

    def note_extrinsics(self, extrinsic_count: int, length: int, consumed: ConsumedWeight) -> None:
        """Store the number of extrinsics in the block, their bytes and their weight."""
        self.extrinsic_count.set(extrinsic_count)
        self.all_extrinsics_len.set(length)
        self.block_weight.set(consumed)

    def genesis(self, config: dict[str, Any]) -> None:
        """Start with height 0. Block 0 has no configuration, no digest and no events."""
        self.number.set(0)
        self._note_upgrade()

    def _store_events(self) -> None:
        """Encode the events directly from the log: the same bytes as `EventRecords`, in a third of the time."""
        events = self.overlay.events
        self.event_count.set(len(events))
        encode_event = self.context.event_codec.encode
        no_topics = b"\0"
        parts = [encode_compact(len(events))]
        last_phase = last_success = None
        phase_bytes = success_bytes = b""
        for phase, emitted in events:
            # All events of an extrinsic share one phase object, which is encoded once.
            if phase is not last_phase:
                last_phase = phase
                phase_bytes = _PHASE.encode(phase)
            if type(emitted) is not ExtrinsicSuccess:
                parts.append(phase_bytes + encode_event(emitted) + no_topics)
                continue
            # Most extrinsics end with the same success emitted, which is also encoded once.
            if emitted is not last_success:
                last_success = emitted
                success_bytes = encode_event(emitted) + no_topics
            parts.append(phase_bytes + success_bytes)
        self.overlay.store_raw(self.event_records.key(), b"".join(parts))

    def _note_upgrade(self) -> None:
        """Update `:code` with the rules, because clients watch it. This chain has no code there, only the version."""
        current_version = LastRuntimeUpgradeInfo(self.version.spec_version, self.version.spec_name)
        # Only on a change, because clients watch these entries.
        if self.last_runtime_upgrade.get() != current_version:
            self.last_runtime_upgrade.set(current_version)
            self.overlay.store_raw(CODE_KEY, codec(RuntimeVersion).encode(self.version))
