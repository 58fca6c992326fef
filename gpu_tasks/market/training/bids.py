"""A bid, from its commitment to its end, and the bytes of the commitment.

Invariants: provider and device are public, and the device is drawn for nothing else while the bid may win. Price, time
and collateral are sealed. A commitment binds task, auction, provider and device, so a copied one cannot be opened.
"""

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.ids import DeviceId
from gpu_tasks.market.training.terms import Bid, TaskTerms
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import codec, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash

AuctionId = Hash


@struct
class BidOffer:
    """The sealed part of a bid."""

    price: Balance
    blocks: BlockNumber
    """d: the blocks from its start in which the provider promises to finish."""
    collateral: Balance
    """K: the grains that the provider locks for the task. The bond is a part of it."""


@struct
class TaskBid:
    """A bid of an auction, kept until the record of its task is dropped."""

    provider: AccountId
    device_class: DeviceClass
    commitment: Hash
    """Zeros for an offer of a replica, which seals nothing."""
    bond: Balance
    """The grains held until the bid is opened. For an offer of a replica: its device's bond, which weighs in the draw.
    """
    opened: Bid | None = None
    """The opened bid, as the selection reads it."""


@struct
class Award:
    """The deciding data of an auction after its reveals. With its bids, any party can recompute the selection."""

    terms: TaskTerms
    seed: Hash | None = None
    """The seed from the beacon, for this auction alone. It breaks ties."""


@struct
class _BidBody:
    auction: AuctionId
    provider: AccountId
    device: DeviceId
    offer: BidOffer
    salt: Hash


_BID_BODY = codec(_BidBody)


DRAWS_FROM = 128
"""The base number of replica draws: the state stores the offers of draw n as bids of number `DRAWS_FROM` + n."""


def auction_id(task_id: bytes, auction_number: int) -> AuctionId:
    """Return the id of a task's auction, counted from 1."""
    return blake2_256(b"ogpu/auction" + task_id + bytes((auction_number,)))


def bid_commitment(
    genesis_hash: bytes, auction: bytes, provider: bytes, device_id: bytes, offer: BidOffer, salt: bytes
) -> bytes:
    """Return the 32 bytes that `provider` (its stash) commits for a device. `salt` is its own random value."""
    # With auction, provider and device inside, nobody can commit to a copy of another's bid.
    body = _BID_BODY.encode(_BidBody(auction, provider, device_id, offer, salt))
    return blake2_256(domain(b"bid", genesis_hash, body))


def bid_case(auction: bytes, device_id: bytes) -> bytes:
    """Return the case of a bid: of its bond, and of its collateral from the reveal to the end of its work."""
    return blake2_256(b"ogpu/bid" + auction + device_id)


def tie_seed(auction: bytes, beacon: bytes) -> bytes:
    """Return the seed that breaks the ties of one auction, from the beacon of two blocks after its last reveal."""
    # The auction's id keeps auctions of one beacon from sharing their ties.
    return blake2_256(b"ogpu/award" + auction + beacon)
