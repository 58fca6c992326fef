"""The chain's records of a device's throughput, and the work that proves it."""

from gpu_tasks.market.claims.collateral import ALWAYS_PPM, fees_max, least_collateral
from gpu_tasks.market.ids import DeviceId
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U16, U32, U64, struct
from runtime.encoding.types import AccountId, Balance, Hash
from runtime.frame.holds import Hold, HoldReason

ROLL_CALL_BOND = HoldReason(
    "RollCallBond",
    "The collateral of a device's proof, and the fees of its checks. One for each open claim of a proof.",
)

# Five rows of the largest work take a checker without a GPU 1.5 s. With longer work, a few owners could keep the
# checkers of a small network busy until their windows end.
SIZE_MIN, SIZE_MAX = 256, 2_048
ROUNDS_MAX = 512
ROWS_MIN, ROWS_MAX = 4_096, 2**20
ROW_DOMAIN = b"chainrow"
CHECK_RUN_BLOCKS = 10
"""The most blocks of a check: five rows of the largest work on a slow processor."""


@struct
class WorkShape:
    """The work of a device at a roll call: `rows` vectors of `size` numbers, `rounds` times through a matrix."""

    size: U16
    rows: U32
    rounds: U16


@struct
class ProvenRate:
    """The throughput that a device stated last, in 10^9 operations a slot. A conviction sets it to 0."""

    number: U32
    """The number of the roll call."""
    rate: U64
    rate_before: U64 = 0
    """The rate of roll call `number` - 1, or 0 if the device proved nothing then."""


@struct
class OpenProof:
    """A proof whose claim is open."""

    device: DeviceId
    owner: AccountId
    number: U32
    """The number of the roll call."""
    seed: Hash
    """The seed of the device's work."""
    shape: WorkShape
    held: Balance
    """The rest of the owner's hold for the claim."""


def proof_hold(claim_id: bytes) -> Hold:
    """Return the hold of a proof's claim."""
    return Hold(ROLL_CALL_BOND, claim_id)


def proof_money(proof_stake: int, check_fee_min: int) -> tuple[int, int]:
    """Return the collateral of a proof, and the fees of its checks: the owner holds both from `prove` on."""
    # Every proof has enough rows that its claim is always checked, so their number does not matter.
    collateral = least_collateral(proof_stake, items=ROWS_MIN, rate_ppm=ALWAYS_PPM, vote_fee=check_fee_min)
    return collateral, fees_max(0, 0, check_fee_min)


def claim_of(device_id: DeviceId, call_number: int) -> bytes:
    """Return the id of the claim of a device's proof at a roll call."""
    return blake2_256(b"ogpu/roll-call/claim" + device_id + call_number.to_bytes(4, "little"))


def is_sound(shape: WorkShape) -> bool:
    """Return True if the work has enough rows that a drawn one shows a lie, and few enough to check."""
    return SIZE_MIN <= shape.size <= SIZE_MAX and ROWS_MIN <= shape.rows <= ROWS_MAX and 1 <= shape.rounds <= ROUNDS_MAX


def operations(shape: WorkShape) -> int:
    """Return the multiplications and additions of the work: 2 n^2 m T.

    n is the size, m the number of rows, T the number of rounds.
    """
    return 2 * shape.size**2 * shape.rows * shape.rounds


def device_seed(call_seed: bytes, device_id: DeviceId) -> bytes:
    """Return the seed of a device's own chain: no two devices of a roll call share work."""
    return blake2_256(b"ogpu/roll-call/seed" + call_seed + device_id)
