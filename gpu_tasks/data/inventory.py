"""What a provider says that its machine has and that it bids for, signed with its key: whose word it is can be known.

    signed = SCALE(inventory, ed25519 signature of the provider key over domain("invntory", genesis, inventory))

Always: an answer is bounded before it is read, and each text in it; it counts only from the key that works for the
stash which owns the devices, for a few minutes after it was made. Nothing is paid or drawn by it, and what it says of
bids binds nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import verify_ed25519
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U16, U32, U64, Bounded, DecodeError, codec, struct
from runtime.encoding.types import AccountId, Balance, Hash, Signature

VERSION = 2
KIND = b"invntory"
DEVICES_MAX = 64
TEXT_BYTES_MAX = 80
INVENTORY_BYTES_MAX = 32 * 1024
"""Of an answer; 64 devices with the longest texts are 28 KiB, and the longest policy is 3."""
KINDS_MAX = 16
IMAGES_MAX = 32
CONTAINER_KIND = "container"
"""How a policy calls programs in containers, beside the workloads by name."""
OLD_MS = 10 * 60 * 1_000
AHEAD_MS = 2 * 60 * 1_000
"""Clocks differ."""

ClaimText = Annotated[str, Bounded(TEXT_BYTES_MAX)]


class InventoryError(ValueError):
    """Bytes that are no inventory of this provider; the text says why."""


@struct
class ClaimedDevice:
    """A device, whoever made it. Texts are empty where nothing is known."""

    uuid_hash: Hash
    """Of the hardware's own identifier: as the chain's record of a device has it."""
    vendor: ClaimText
    model: ClaimText
    memory_mib: U32
    """0 for a CPU: its memory is the machine's."""
    driver: ClaimText
    platform: ClaimText
    """`cuda` or `rocm`."""
    platform_version: ClaimText
    is_processor: bool
    """The machine's own: on the chain a device of the class `cpu`."""


@struct
class ClaimedMachine:
    """What all devices of a provider share. 0 where nothing is known."""

    processor: ClaimText
    cores: U16
    memory_mib: U32
    disk_free_mib: U64
    """Where the provider keeps its work."""
    down_kbit: U32
    """A second; the fastest that a blob of some size came lately."""
    up_kbit: U32


@struct
class ClaimedPrograms:
    """The limits of a provider for one program in a container."""

    why_not: ClaimText = "it runs no containers"
    """The reason why no program runs; empty if programs may."""
    images: Annotated[tuple[Hash, ...], Bounded(IMAGES_MAX)] = ()
    """Hashes of the listed images: customers can look up their image, but cannot read the list."""
    any_archive: bool = False
    outbound: bool = False
    cpu_thousandths: U32 = 0
    memory_bytes: U64 = 0
    disk_bytes: U64 = 0
    processes: U32 = 0
    keep_seconds: U32 = 0


@struct
class ClaimedPolicy:
    """A provider's claim about its bids."""

    kinds: Annotated[tuple[ClaimText, ...], Bounded(KINDS_MAX)] = ()
    """Workloads by name, and `container`."""
    gangs: bool = False
    price: Balance = 0
    """The lowest price of a device's time in grains, after the fee: for `price_ms`, or for so many blocks."""
    price_ms: U64 = 3_600_000
    price_blocks: U32 = 0
    """0: the price is for milliseconds."""
    programs: ClaimedPrograms = ClaimedPrograms()


@struct
class MachineInventory:
    """All of it, and who says so when."""

    version: U16
    provider_key: AccountId
    made_at_ms: U64
    machine: ClaimedMachine
    devices: Annotated[tuple[ClaimedDevice, ...], Bounded(DEVICES_MAX)]
    policy: ClaimedPolicy = ClaimedPolicy()


@struct
class SignedInventory:
    """As it is served."""

    inventory: MachineInventory
    signature: Signature


_INVENTORY = codec(MachineInventory)
_SIGNED = codec(SignedInventory)


def image_mark(image: str) -> bytes:
    """Return a claim's mark for an image of a policy: a repository, one with a digest, or an archive's id."""
    return blake2_256(b"ogpu/image" + image.encode())


def claim_text(text: str) -> str:
    """As much of a text as a claim may have, without what no terminal shows."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text).strip()
    return shown.encode()[:TEXT_BYTES_MAX].decode(errors="ignore")


def sign_inventory(inventory: MachineInventory, genesis: bytes, sign: Callable[[bytes], bytes]) -> bytes:
    """The bytes that are served. `sign` is the provider key's."""
    return _SIGNED.encode(SignedInventory(inventory, sign(domain(KIND, genesis, _INVENTORY.encode(inventory)))))


def read_inventory(raw: bytes, genesis: bytes, now_ms: int) -> MachineInventory:
    """The inventory in an answer, whose key is left to be looked up; InventoryError says what is wrong with it."""
    if len(raw) > INVENTORY_BYTES_MAX:
        raise InventoryError(f"sent {len(raw):,} bytes, more than {INVENTORY_BYTES_MAX:,}")
    try:
        signed = _SIGNED.decode(raw)
    except DecodeError:
        raise InventoryError("sent what is no inventory") from None
    found = signed.inventory
    if found.version != VERSION:
        raise InventoryError(f"has an inventory of version {found.version}, which this program does not know")
    if not verify_ed25519(found.provider_key, domain(KIND, genesis, _INVENTORY.encode(found)), signed.signature):
        raise InventoryError("sent an inventory whose signature is wrong")
    if now_ms - found.made_at_ms > OLD_MS:
        raise InventoryError(f"sent an inventory that is {(now_ms - found.made_at_ms) // 60_000:,} minutes old")
    if found.made_at_ms - now_ms > AHEAD_MS:
        raise InventoryError("sent an inventory of a time that has not come: a clock is wrong")
    return found
