"""What the chain keeps of a device that proves its throughput, and what is drawn for it."""

from typing import Annotated

from gpu_tasks.market.ids import DeviceId
from runtime.cryptography.draw import lottery
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U16, U32, U64, Bounded, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.holds import Hold, HoldReason

ROLL_CALL_BOND = HoldReason("RollCallBond", "What a device loses that is silent or wrong; the case is the device.")

SIZE_MIN, SIZE_MAX = 256, 2_048
ROUNDS_MAX = 4_096
ROWS_MIN, ROWS_MAX = 4_096, 2**20
PATH_MAX = 20
"""Levels of a tree over so many rows."""
ROWS_DRAWN = 16
INSPECTORS, OBJECTIONS_TO_END = 3, 2
ROW_DOMAIN = b"chainrow"

ShownDigests = Annotated[tuple[Hash, ...], Bounded(ROWS_DRAWN)]


@struct
class WorkShape:
    """What a device computes at a roll call: `rows` vectors of `size` numbers, `rounds` times through a matrix."""

    size: U16
    rows: U32
    rounds: U16


@struct
class Enrolment:
    """A device that answers roll calls, with work of its own choice."""

    owner: AccountId
    shape: WorkShape
    since: BlockNumber
    """It is called from the next roll call after this block on."""
    bond: Balance
    checked: U32
    """The number of the roll call up to which it was looked at whether the bond is lost."""


@struct
class CapacityProof:
    """What a device showed at one roll call."""

    root: Hash
    """Over the hashes of all rows of the end."""
    shape: WorkShape
    slot: U64
    """The slot of the commit's block."""
    rate: U64
    """Thousand millions of operations a slot."""
    is_open: bool = False
    objections: Annotated[tuple[AccountId, ...], Bounded(INSPECTORS)] = ()


@struct
class ShownRow:
    """The hash of a drawn row, and what shows that it stands under the root."""

    digest: Hash
    path: Annotated[tuple[Hash, ...], Bounded(PATH_MAX)]


def roll_call_hold(device: DeviceId) -> Hold:
    """What the bond of an enrolment is held for."""
    return Hold(ROLL_CALL_BOND, device)


def is_sound(shape: WorkShape) -> bool:
    """Whether a roll call may ask it: enough rows for 16 to say something, no more than a check can bear."""
    return SIZE_MIN <= shape.size <= SIZE_MAX and ROWS_MIN <= shape.rows <= ROWS_MAX and 1 <= shape.rounds <= ROUNDS_MAX


def operations(shape: WorkShape) -> int:
    """Multiplications and additions: 2 n^2 m T."""
    return 2 * shape.size**2 * shape.rows * shape.rounds


def device_seed(seed: bytes, device: DeviceId) -> bytes:
    """The seed of a device's own chain: no two devices of a roll call share work."""
    return blake2_256(b"ogpu/roll-call/seed" + seed + device)


def drawn_rows(seed: bytes, device: DeviceId, rows: int) -> list[int]:
    """The rows that a device opens; one may be drawn twice."""
    draws = (blake2_256(b"ogpu/roll-call/row" + seed + device + bytes([place])) for place in range(ROWS_DRAWN))
    return [int.from_bytes(draw, "little") % rows for draw in draws]


def drawn_inspectors(seed: bytes, device: DeviceId, entrants: list[tuple[bytes, int]]) -> list[bytes]:
    """Who may object to a device's rows: validators in office, by weight."""
    return [entrants[place][0] for place in lottery(seed, b"inspect" + device, entrants, INSPECTORS)]


def stands(proof: CapacityProof) -> bool:
    """Whether what was shown proves anything: the rows are under the root, and no two inspectors found them wrong."""
    return proof.is_open and len(proof.objections) < OBJECTIONS_TO_END
