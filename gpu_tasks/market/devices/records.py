"""The records of Devices: a provider's public data, and a device."""

from enum import IntEnum
from typing import Annotated

from gpu_tasks.market.ids import DeviceId, UnitId
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U8, U32, Bounded, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.holds import Hold, HoldReason
from runtime.pallets.staking.stakers import PublicKey

ENDPOINT_BYTES_MAX = 128
DEVICES_PER_PROVIDER_MAX = 64
QUEUE_MAX = 15
"""The most units that wait behind a device's current one. Each holds a part of its bond from the draw on."""
FREE_BOND = HoldReason("FreeBond", "The part of a device's bond that secures no unit. One for each device.")
PROVIDER_DEPOSIT = HoldReason(
    "ProviderDeposit", "The deposit for a provider's record. One for each provider.", is_deposit=True
)
COLLATERAL = HoldReason(
    "Collateral", "The part of a device's bond that secures a unit or a session. One for each unit or session."
)


class DeviceClass(IntEnum):
    """The kind of hardware that a device's owner states."""

    CPU = 0
    CONSUMER = 1
    DATACENTER = 2


CLASS_NAMES = {"cpu": DeviceClass.CPU, "consumer": DeviceClass.CONSUMER, "datacenter": DeviceClass.DATACENTER}


@struct
class Provider:
    """The public data by which customers and racers reach a provider."""

    seal_key: PublicKey
    """The X25519 key to which inputs are sealed."""
    endpoint: Annotated[bytes, Bounded(ENDPOINT_BYTES_MAX)]
    """The address of the provider's blob store, as its owner wrote it. Programs parse it before they connect."""
    key_since: BlockNumber
    """The block in which this key was registered."""
    deposit: Balance = 0
    """The grains held on the stash while this record exists. Providers of the genesis block deposit nothing."""


@struct
class Device:
    """One GPU, or one CPU-class device: one slot in the market."""

    owner: AccountId
    kind: DeviceClass
    uuid_hash: Hash
    """The hash of the hardware's own identifier, the same for every owner."""
    bond: Balance
    registered_at: BlockNumber
    changed_at: BlockNumber
    """The last block in which it joined, resumed, or changed its bond or queue. It races for no unit recorded earlier.
    """
    secured: Balance = 0
    """The part of the bond that is collateral of unsettled units."""
    offers: U32 = 0
    """The number of services that it offers."""
    assignment: UnitId | None = None
    """The unit or task that it works on."""
    is_paused: bool = False
    is_dedicated: bool = False
    """True if `assignment` is a task. The device takes no units then."""
    queue: U8 = 0
    """The number of units that it takes while it works on one, 0 to `QUEUE_MAX`."""
    behind: Annotated[tuple[UnitId, ...], Bounded(QUEUE_MAX)] = ()
    """The units that wait behind `assignment`, the next one first."""
    freed_at: Annotated[tuple[BlockNumber, ...], Bounded(QUEUE_MAX + 1)] = ()
    """The blocks in which its newest units ended, newest first: at most `queue` + 1."""


_P = 2**255 - 19
_ORDER_8 = (
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
SMALL_ORDER_SEAL_KEYS = (0, 1, *_ORDER_8, _P - 1, _P, _P + 1)
"""X25519 keys with which any account can open a box (https://cr.yp.to/ecdh.html, "validate public keys")."""


def is_safe_seal_key(key: bytes) -> bool:
    """Return True if inputs may be sealed to a key: 32 bytes, not of small order. X25519 ignores the highest bit."""
    return len(key) == 32 and int.from_bytes(key, "little") % 2**255 not in SMALL_ORDER_SEAL_KEYS


def provider_hold(stash: bytes) -> Hold:
    """Return the hold of a provider record's deposit."""
    return Hold(PROVIDER_DEPOSIT, stash)


def device_id_of(owner: bytes, uuid_hash: bytes) -> DeviceId:
    """Return the identifier of an owner's device."""
    return blake2_256(b"ogpu/device" + owner + uuid_hash)
