"""A provider's claims about its machine and its bids, signed with its key so that their author is known.

    signed = SCALE(inventory, ed25519 signature of the provider key over domain("invntory", genesis, inventory))

Invariant: an answer, and each text in it, is bounded before it is read. It counts only from the provider key of the
stash that owns the devices, for a few minutes after it was made. No payment or draw depends on it, and its claims about
bids bind nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import verify_ed25519
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U16, U32, U64, Bounded, DecodeError, codec, struct
from runtime.encoding.types import AccountId, Balance, Hash, Signature
from wallet.errors import CodedError

VERSION = 2
KIND = b"invntory"
DEVICES_MAX = 64
TEXT_BYTES_MAX = 80
ELLIPSIS = "…"
INVENTORY_BYTES_MAX = 32 * 1024
"""The most bytes of an answer: 64 devices with the longest texts are 28 KiB, and the longest policy is 3 KiB."""
KINDS_MAX = 16
IMAGES_MAX = 32
CONTAINER_KIND = "container"
"""The name of programs in containers in a policy, beside the names of workloads."""
OLD_MS = 10 * 60 * 1_000
AHEAD_MS = 2 * 60 * 1_000
"""A tolerance for different clocks."""

ClaimText = Annotated[str, Bounded(TEXT_BYTES_MAX)]


class InventoryError(CodedError, ValueError):
    """The bytes are no inventory of this provider. The text says why."""


@struct
class ClaimedDevice:
    """A device of any vendor. Unknown texts are empty."""

    uuid_hash: Hash
    """The hash of the hardware's own identifier, as in the chain's record of a device."""
    vendor: ClaimText
    model: ClaimText
    memory_mib: U32
    """0 for a CPU, which shares the machine's memory."""
    driver: ClaimText
    platform: ClaimText
    """`cuda` or `rocm`."""
    platform_version: ClaimText
    is_processor: bool
    """True for the machine's own processor, on the chain a device of the class `cpu`."""


@struct
class ClaimedMachine:
    """The machine that all devices of a provider share. Unknown numbers are 0."""

    processor: ClaimText
    cores: U16
    memory_mib: U32
    disk_free_mib: U64
    """On the disk of the provider's work."""
    down_kbit: U32
    """Kilobits a second: the fastest recent download of a sufficiently large blob."""
    up_kbit: U32


@struct
class ClaimedPrograms:
    """The limits of a provider for one program in a container."""

    why_not: ClaimText = "it runs no containers"
    """The reason why no program runs. Empty if programs may run."""
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
    """The lowest price of a device's time in grains, after the fee: for `price_ms`, or for `price_blocks` blocks."""
    price_ms: U64 = 3_600_000
    price_blocks: U32 = 0
    """0: the price is for milliseconds."""
    programs: ClaimedPrograms = ClaimedPrograms()


@struct
class MachineInventory:
    """All claims of a provider, with its key and the time."""

    version: U16
    provider_key: AccountId
    made_at_ms: U64
    machine: ClaimedMachine
    devices: Annotated[tuple[ClaimedDevice, ...], Bounded(DEVICES_MAX)]
    policy: ClaimedPolicy = ClaimedPolicy()


@struct
class SignedInventory:
    """An inventory with its signature, as providers serve it."""

    inventory: MachineInventory
    signature: Signature


_INVENTORY = codec(MachineInventory)
_SIGNED = codec(SignedInventory)


def image_mark(image_name: str) -> bytes:
    """Return a claim's mark for an image of a policy: a repository, one with a digest, or an archive's id."""
    return blake2_256(b"ogpu/image" + image_name.encode())


def claim_text(text: str) -> str:
    """Return a text as it fits a claim: without unprintable letters, and cut after a word with `…` behind it."""
    printable = "".join(character if character.isprintable() else " " for character in text).strip()
    if len(printable.encode()) <= TEXT_BYTES_MAX:
        return printable
    # The cut can fall inside a letter.
    beginning = printable.encode()[: TEXT_BYTES_MAX - len(ELLIPSIS.encode())].decode(errors="ignore")
    return (beginning.rpartition(" ")[0] or beginning) + ELLIPSIS


def sign_inventory(inventory: MachineInventory, genesis_hash: bytes, sign: Callable[[bytes], bytes]) -> bytes:
    """Return the bytes to serve. `sign` signs with the provider key."""
    return _SIGNED.encode(SignedInventory(inventory, sign(domain(KIND, genesis_hash, _INVENTORY.encode(inventory)))))


def read_inventory(encoded: bytes, genesis_hash: bytes, now_ms: int) -> MachineInventory:
    """Return the inventory of an answer. Raise InventoryError with the problem.

    The caller still has to look up the stash of its key.
    """
    if len(encoded) > INVENTORY_BYTES_MAX:
        raise InventoryError(f"sent {len(encoded):,} bytes, more than {INVENTORY_BYTES_MAX:,}", code="too_large")
    try:
        signed = _SIGNED.decode(encoded)
    except DecodeError:
        raise InventoryError("sent bytes that are not an inventory", code="unreadable") from None
    inventory = signed.inventory
    if inventory.version != VERSION:
        raise InventoryError(
            f"has an inventory of version {inventory.version}, unknown to this program", code="unknown_version"
        )
    if not verify_ed25519(
        inventory.provider_key, domain(KIND, genesis_hash, _INVENTORY.encode(inventory)), signed.signature
    ):
        raise InventoryError("sent an inventory with a wrong signature", code="wrong_signature")
    if now_ms - inventory.made_at_ms > OLD_MS:
        raise InventoryError(
            f"sent an inventory that is {(now_ms - inventory.made_at_ms) // 60_000:,} minutes old", code="too_old"
        )
    if inventory.made_at_ms - now_ms > AHEAD_MS:
        raise InventoryError("sent an inventory with a future time; check the clocks", code="in_the_future")
    return inventory
