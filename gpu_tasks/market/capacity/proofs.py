"""The chain's records of a device's throughput proof, and the draws of rows and inspectors."""

from typing import Annotated

from gpu_tasks.market.ids import DeviceId
from runtime.cryptography.draw import lottery
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U16, U32, U64, Bounded, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.holds import Hold, HoldReason

ROLL_CALL_BOND = HoldReason(
    "RollCallBond", "The bond that a device loses for silence or wrong rows at a roll call. One for each device."
)

# One row of the largest work takes an inspector without a GPU 2 s, sixteen take 14 s (ADR 20).
SIZE_MIN, SIZE_MAX = 256, 2_048
ROUNDS_MAX = 4_096
ROWS_MIN, ROWS_MAX = 4_096, 2**20
PATH_MAX = 20
"""Levels of a tree over `ROWS_MAX` rows."""
ROWS_DRAWN = 16
INSPECTORS, OBJECTIONS_TO_END = 3, 2
ROW_DOMAIN = b"chainrow"

ShownDigests = Annotated[tuple[Hash, ...], Bounded(ROWS_DRAWN)]


@struct
class WorkShape:
    """The work of a device at a roll call: `rows` vectors of `size` numbers, `rounds` times through a matrix."""

    size: U16
    rows: U32
    rounds: U16


@struct
class Enrolment:
    """A device that answers roll calls, with work of its own choice."""

    owner: AccountId
    shape: WorkShape
    since: BlockNumber
    """The block of the enrolment. The first roll call that includes the device begins after it."""
    bond: Balance
    checked: U32
    """The number of the last roll call for which the bond was settled."""


@struct
class CapacityProof:
    """The proof of a device at one roll call."""

    root: Hash
    """The root over the hashes of all rows after the last round."""
    shape: WorkShape
    slot: U64
    """The slot of the commit's block."""
    rate: U64
    """10^9 operations a slot."""
    is_open: bool = False
    objections: Annotated[tuple[AccountId, ...], Bounded(INSPECTORS)] = ()


@struct
class ShownRow:
    """The hash of a drawn row, and its path to the root."""

    digest: Hash
    path: Annotated[tuple[Hash, ...], Bounded(PATH_MAX)]


def roll_call_hold(device_id: DeviceId) -> Hold:
    """Return the hold of an enrolment's bond."""
    return Hold(ROLL_CALL_BOND, device_id)


def is_sound(shape: WorkShape) -> bool:
    """Return True if the work has enough rows for 16 drawn ones to show a lie, and few enough to check."""
    return SIZE_MIN <= shape.size <= SIZE_MAX and ROWS_MIN <= shape.rows <= ROWS_MAX and 1 <= shape.rounds <= ROUNDS_MAX


def operations(shape: WorkShape) -> int:
    """Return the multiplications and additions of the work: 2 n^2 m T.

    n is the size, m the number of rows, T the number of rounds.
    """
    return 2 * shape.size**2 * shape.rows * shape.rounds


def device_seed(call_seed: bytes, device_id: DeviceId) -> bytes:
    """Return the seed of a device's own chain: no two devices of a roll call share work."""
    return blake2_256(b"ogpu/roll-call/seed" + call_seed + device_id)


def drawn_rows(call_seed: bytes, device_id: DeviceId, row_count: int) -> list[int]:
    """Return the rows that a device shows. A row may be drawn twice."""
    hashes = (blake2_256(b"ogpu/roll-call/row" + call_seed + device_id + bytes([index])) for index in range(ROWS_DRAWN))
    # A remainder of 256 bits by at most 2^20 rows: its bias is negligible.
    return [int.from_bytes(drawn, "little") % row_count for drawn in hashes]


def drawn_inspectors(call_seed: bytes, device_id: DeviceId, entrants: list[tuple[bytes, int]]) -> list[bytes]:
    """Return the drawn inspectors of a device's rows: validators of the active set, drawn by weight."""
    return [entrants[index][0] for index in lottery(call_seed, b"inspect" + device_id, entrants, INSPECTORS)]


def stands(proof: CapacityProof) -> bool:
    """Return True if the proof counts: its rows were shown, and fewer than two inspectors objected."""
    return proof.is_open and len(proof.objections) < OBJECTIONS_TO_END
