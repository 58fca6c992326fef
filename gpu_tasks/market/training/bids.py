"""A bid, from its commitment to what became of it, and the bytes that are committed to.

Always: provider and device are named in the clear, and the device is drawn for nothing else while the bid may win;
price, time and collateral are sealed; a commitment is bound to task, auction, provider and device, so that who copies
it cannot open it.
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
    """What a bid seals."""

    price: Balance
    blocks: BlockNumber
    """d: in how many blocks from its start the provider promises to be done."""
    collateral: Balance
    """K: what the provider locks for the task; the bond is a part of it."""


@struct
class TaskBid:
    """A bid of an auction, kept until the record of its task is dropped."""

    provider: AccountId
    device_class: DeviceClass
    commitment: Hash
    """Of who offers itself as a replica, which seals nothing, zeros."""
    bond: Balance
    """What it holds until it is opened; of who offers itself as a replica, its device's bond, by which it is drawn."""
    opened: Bid | None = None
    """As the selection reads it."""


@struct
class Award:
    """What decides an auction whose reveals are over: with its bids, the selection can be made again."""

    terms: TaskTerms
    seed: Hash | None = None
    """Of the beacon, for this auction alone: it breaks ties."""


@struct
class _BidBody:
    auction: AuctionId
    provider: AccountId
    device: DeviceId
    offer: BidOffer
    salt: Hash


_BID_BODY = codec(_BidBody)


DRAWS_FROM = 128
"""Draws of replicas are numbered from here: who offers itself in one stands in the state as a bid of that number."""


def auction_id(task: bytes, number: int) -> AuctionId:
    """The id of a task's auction, counted from 1."""
    return blake2_256(b"ogpu/auction" + task + bytes((number,)))


def bid_commitment(
    genesis: bytes, auction: bytes, provider: bytes, device: bytes, offer: BidOffer, salt: bytes
) -> bytes:
    """The 32 bytes that `provider` (its stash) commits to for a device; `salt` is its own chance."""
    body = _BID_BODY.encode(_BidBody(auction, provider, device, offer, salt))
    return blake2_256(domain(b"bid", genesis, body))


def bid_case(auction: bytes, device: bytes) -> bytes:
    """The case of a bid: of its bond, and of its collateral from the reveal to the end of its work."""
    return blake2_256(b"ogpu/bid" + auction + device)


def tie_seed(auction: bytes, beacon: bytes) -> bytes:
    """What breaks the ties of an auction, of the beacon two blocks after its last reveal: no two share one."""
    return blake2_256(b"ogpu/award" + auction + beacon)
