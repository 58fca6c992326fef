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
"""Units that wait behind the one that a device works on: each holds a part of its bond from the draw on."""
FREE_BOND = HoldReason("FreeBond", "What secures no unit of a device's bond; the case is the device.")
PROVIDER_DEPOSIT = HoldReason("ProviderDeposit", "For the record of a provider, which is the case.", is_deposit=True)
COLLATERAL = HoldReason("Collateral", "The part of a device's bond that secures a unit, which is the case.")


class DeviceClass(IntEnum):
    """What kind of hardware a device says it is."""

    CPU = 0
    CONSUMER = 1
    DATACENTER = 2


CLASS_NAMES = {"cpu": DeviceClass.CPU, "consumer": DeviceClass.CONSUMER, "datacenter": DeviceClass.DATACENTER}


@struct
class Provider:
    """How customers and racers reach a provider."""

    seal_key: PublicKey
    """X25519: inputs are sealed to it."""
    endpoint: Annotated[bytes, Bounded(ENDPOINT_BYTES_MAX)]
    """Where its blob store answers: an http or https address in ASCII."""
    key_since: BlockNumber
    """The block in which this key was registered."""
    deposit: Balance = 0
    """Held on the stash for as long as there is this record; none for those that block 0 names."""


@struct
class Device:
    """One GPU, or one CPU-class device: one slot in the market."""

    owner: AccountId
    kind: DeviceClass
    uuid_hash: Hash
    """Hash of the hardware's own identifier, the same whoever registers it."""
    bond: Balance
    registered_at: BlockNumber
    changed_at: BlockNumber
    """The last block in which it joined, resumed or changed its queue: it races for no unit recorded before."""
    secured: Balance = 0
    """The part of the bond that is collateral of units not settled yet."""
    offers: U32 = 0
    """How many services it works for."""
    assignment: UnitId | None = None
    """What it works on."""
    is_paused: bool = False
    is_dedicated: bool = False
    """Whether what it works on is a task: it takes no units meanwhile."""
    queue: U8 = 0
    """How many units it takes while it works on one; 0 to `QUEUE_MAX`."""
    behind: Annotated[tuple[UnitId, ...], Bounded(QUEUE_MAX)] = ()
    """Those that it was drawn for meanwhile, the next one first."""
    freed_at: Annotated[tuple[BlockNumber, ...], Bounded(QUEUE_MAX + 1)] = ()
    """The blocks in which its newest units ended, the last one first: `queue` + 1 of them at most."""


_P = 2**255 - 19
_ORDER_8 = (
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
SMALL_ORDER_SEAL_KEYS = (0, 1, *_ORDER_8, _P - 1, _P, _P + 1)
"""X25519 keys with which anybody can open a box (https://cr.yp.to/ecdh.html, "validate public keys")."""


def is_safe_seal_key(key: bytes) -> bool:
    """Whether a key may be sealed to: 32 bytes, not of small order. X25519 ignores the highest bit."""
    return len(key) == 32 and int.from_bytes(key, "little") % 2**255 not in SMALL_ORDER_SEAL_KEYS


def provider_hold(stash: bytes) -> Hold:
    """What the deposit of a provider's record is held for."""
    return Hold(PROVIDER_DEPOSIT, stash)


def device_id(owner: bytes, uuid_hash: bytes) -> DeviceId:
    """The identifier of an owner's device."""
    return blake2_256(b"ogpu/device" + owner + uuid_hash)
