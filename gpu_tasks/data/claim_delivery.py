"""The delivery of a claim, from its provider to one checker or voter.

    of a unit            SCALE(version, input, outcomes)           in parts of PART_BYTES, each sealed to its reader
    of a task's item     SCALE(version, digests, state, key)
    of a row             SCALE(version, digest, path)
    of a session's item  SCALE(version, secret, leaves, items)

Of a unit, a reader needs nothing else to check or compute any item. The input must be the one that the chain has a
commitment to, and the leaves of the outcomes must have the claim's root. Leaves, tokens and the item at a point follow
from both.

Of a task, a reader opens the sealed input as a bidder does. The delivery has the hashes of all states, whose root is
the claim's, the state before the item, and the content key of the result's blob. With the key, every reader can look
whether the result is the stated run and opens for the customer, also if the blob is not sealed to this reader.

Of a row of a roll call, a reader has the work from the chain. The delivery has the hash of the row, and its path to the
claim's root.

Of a session, chats are private, so a reader gets the leaves of all items, and only those requests and outputs that it
checks. The secret binds each leaf to its request.

Invariants:

* A claim has one content that `read_delivery` accepts, so a provider cannot show two readers different results. The
  same holds for an item and `read_task_delivery`, except for the key, and a blob has one key that opens it. It holds
  for a row and `read_row_delivery`, and for the items that `read_session_delivery` returns.
* A reader's cost is known before it asks: `delivery_max` and `session_delivery_max`, from the number of requests on the
  chain, `TASK_DELIVERY_MAX` and `ROW_DELIVERY_MAX`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from gpu_tasks.batches.leaves import Leaf, leaf_of, leaves_of
from gpu_tasks.batches.outcomes import COMPLETED_BYTES_MAX, BatchOutcome, Completed, decode_outcomes
from gpu_tasks.batches.requests import REQUEST_BYTES_MAX, REQUESTS_MAX
from gpu_tasks.batches.sum_tree import batch_root, leaf_claim, totals_of
from gpu_tasks.data.run_states import STATE_BYTES_MAX, Digests
from gpu_tasks.data.sealing import CONTENT_BYTES_MAX, KEY_BYTES, LARGE_CONTENT_BYTES_MAX
from gpu_tasks.data.unit_input import commitment_of, content_max, decode_input
from gpu_tasks.data.unit_output import ANSWERS_BYTES_MAX, requests_of
from gpu_tasks.market.capacity.proofs import ROW_DOMAIN, ROWS_MAX
from gpu_tasks.market.claims.collateral import CLAIM_POINTS_MAX
from gpu_tasks.market.sessions.vouchers import item_salt
from gpu_tasks.traces.trace import SEGMENTS_MAX, state_hash, trace_root
from runtime.cryptography.merkle import is_member
from runtime.encoding.codec import U8, U32, Bounded, Codec, DecodeError, Fixed, codec, struct
from runtime.encoding.types import Hash
from wallet.errors import CodedError

VERSION = 1
_FRAME_BYTES = 16
"""More than the encoding adds to input and outcomes, or to a part."""
PART_BYTES = CONTENT_BYTES_MAX - _FRAME_BYTES
DELIVERY_BYTES_MAX = LARGE_CONTENT_BYTES_MAX + ANSWERS_BYTES_MAX + _FRAME_BYTES
TASK_DELIVERY_MAX = STATE_BYTES_MAX + 32 * (SEGMENTS_MAX + 1) + KEY_BYTES + _FRAME_BYTES
"""The most bytes of the delivery of a task's item. It fits one part."""
ROW_PATH_MAX = (ROWS_MAX - 1).bit_length()
ROW_DELIVERY_MAX = 32 * (1 + ROW_PATH_MAX) + _FRAME_BYTES
"""The most bytes of the delivery of a row."""
_LEAF_BYTES = 40


class DeliveryError(CodedError):
    """The provider sent something else than the delivery of its claim.

    Codes: `malformed_delivery`, `no_store`, `other_commitment`, `other_key`, `other_requests`, `other_root`,
    `other_state`, `store_slow`.
    """


@struct
class _Delivery:
    version: U8
    input: Annotated[bytes, Bounded(LARGE_CONTENT_BYTES_MAX)]
    """The content of the input blob (`unit_input`)."""
    outcomes: Annotated[bytes, Bounded(ANSWERS_BYTES_MAX)]


@struct
class _TaskDelivery:
    version: U8
    digests: Digests
    state: Annotated[bytes, Bounded(STATE_BYTES_MAX)]
    key: Annotated[bytes, Fixed(KEY_BYTES)]


@struct
class _RowDelivery:
    version: U8
    digest: Hash
    path: Annotated[tuple[Hash, ...], Bounded(ROW_PATH_MAX)]


@struct
class SessionItem:
    """An item of a session's claim."""

    index: U32
    request: Annotated[bytes, Bounded(REQUEST_BYTES_MAX)]
    output: Annotated[bytes, Bounded(COMPLETED_BYTES_MAX)]
    """Empty if the customer has paid for the prompt alone."""


@struct
class _SessionDelivery:
    version: U8
    secret: Hash
    leaves: Annotated[tuple[Leaf, ...], Bounded(REQUESTS_MAX)]
    items: Annotated[tuple[SessionItem, ...], Bounded(CLAIM_POINTS_MAX)]


@struct
class _Part:
    length: U32
    """The bytes of the whole delivery."""
    content: Annotated[bytes, Bounded(PART_BYTES)]


_DELIVERY, _TASK_DELIVERY, _ROW_DELIVERY = codec(_Delivery), codec(_TaskDelivery), codec(_RowDelivery)
_SESSION_DELIVERY, _PART = codec(_SessionDelivery), codec(_Part)


@dataclass(frozen=True, slots=True)
class ClaimedUnit:
    """A unit on the chain, as far as a delivery must agree with it."""

    genesis: bytes
    id: bytes
    input_commitment: bytes
    requests: int
    root: bytes


@dataclass(frozen=True, slots=True)
class Delivered:
    """The content of an accepted delivery."""

    salt: bytes
    requests: tuple[bytes, ...]
    outcomes: tuple[BatchOutcome, ...]
    leaves: tuple[Leaf, ...]


@dataclass(frozen=True, slots=True)
class DeliveredState:
    """The content of an accepted delivery of a task's item."""

    digests: tuple[bytes, ...]
    """The hashes of all states of the run."""
    state: bytes
    """The state before the item."""
    key: bytes
    """A key that should open the blob of the result."""


@dataclass(frozen=True, slots=True)
class DeliveredItems:
    """The content of an accepted delivery of a session's items."""

    secret: bytes
    leaves: tuple[Leaf, ...]
    requests: Mapping[int, bytes]
    outcomes: Mapping[int, BatchOutcome]


def delivery_max(requests: int) -> int:
    """Return the most bytes of the delivery of a unit with so many requests."""
    return content_max(requests) + ANSWERS_BYTES_MAX + _FRAME_BYTES


def encode_delivery(input_content: bytes, outcomes: bytes) -> bytes:
    """Return the delivery of an input blob's content and the encoded outcomes (`encode_outcomes`)."""
    return _DELIVERY.encode(_Delivery(VERSION, input_content, outcomes))


def part_of(delivery: bytes, number: int) -> bytes | None:
    """Return the content of a part, to be sealed, or None if the delivery has no such part."""
    content = delivery[number * PART_BYTES : (number + 1) * PART_BYTES]
    return _PART.encode(_Part(len(delivery), content)) if content else None


async def gathered_delivery(ask: Callable[[int], Awaitable[bytes]], bytes_max: int) -> bytes:
    """Return a delivery of at most `bytes_max`. `ask` returns the opened part of a number; its errors pass through.

    Raise DeliveryError for parts that do not fit together.
    """
    first = _read_part(await ask(0))
    length = first.length
    if not 0 < length <= bytes_max:
        raise DeliveryError(f"a delivery of {length:,} bytes, of at most {bytes_max:,}", code="malformed_delivery")
    parts: list[bytes] = []
    for number in range(-(-length // PART_BYTES)):
        part = _read_part(await ask(number)) if number else first
        if part.length != length or len(part.content) != min(PART_BYTES, length - number * PART_BYTES):
            raise DeliveryError("a part does not fit the others", code="malformed_delivery")
        parts.append(part.content)
    return b"".join(parts)


def read_delivery(delivery: bytes, unit: ClaimedUnit) -> Delivered:
    """Return the content of a claim's delivery. Raise DeliveryError for any other bytes.

    An input that holds no requests of the unit has no delivery: its racers decline it.
    """
    try:
        packed: _Delivery = _decoded(_DELIVERY, delivery)
        if commitment_of(packed.input) != unit.input_commitment:
            raise DeliveryError("the input differs from the customer's commitment", code="other_commitment")
        unit_input = decode_input(packed.input)
        requests = requests_of(unit_input, unit.requests)
        outcomes = decode_outcomes(packed.outcomes)
    except DecodeError as error:
        raise DeliveryError(str(error), code="malformed_delivery") from error
    if len(outcomes) != unit.requests:
        raise DeliveryError(f"{len(outcomes)} outcomes of {unit.requests} requests", code="other_requests")
    leaves = leaves_of(unit.genesis, unit.id, unit_input.salt, outcomes)
    if batch_root(totals_of(leaves)) != unit.root:
        raise DeliveryError("the outcomes have another root than the claim", code="other_root")
    return Delivered(unit_input.salt, requests, outcomes, leaves)


def encode_task_delivery(delivered: DeliveredState) -> bytes:
    """Return the delivery of a task's item."""
    return _TASK_DELIVERY.encode(_TaskDelivery(VERSION, delivered.digests, delivered.state, delivered.key))


def read_task_delivery(delivery: bytes, root: bytes, segments: int, segment: int) -> DeliveredState:
    """Return the content of the delivery of a segment, of a run with this root. Raise DeliveryError for other bytes."""
    packed: _TaskDelivery = _decoded(_TASK_DELIVERY, delivery)
    if len(packed.digests) != segments + 1 or trace_root(packed.digests) != root:
        raise DeliveryError("the hashes of the states have another root than the claim", code="other_root")
    if state_hash(packed.state) != packed.digests[segment]:
        raise DeliveryError("the state is not the one before the item", code="other_state")
    return DeliveredState(packed.digests, packed.state, packed.key)


def encode_row_delivery(digest: bytes, path: Sequence[bytes]) -> bytes:
    """Return the delivery of a row: its hash, and its path to the root."""
    return _ROW_DELIVERY.encode(_RowDelivery(VERSION, digest, tuple(path)))


def read_row_delivery(delivery: bytes, root: bytes, rows: int, row: int) -> bytes:
    """Return the delivered hash of a row, of `rows` rows with this root. Raise DeliveryError for other bytes."""
    packed: _RowDelivery = _decoded(_ROW_DELIVERY, delivery)
    if not is_member(ROW_DOMAIN, root, rows, row, packed.digest, packed.path):
        raise DeliveryError("the path leads to another root than the claim's", code="other_root")
    return packed.digest


def session_delivery_max(requests: int) -> int:
    """Return the most bytes of a delivery of a session's claim with so many requests."""
    item_bytes = REQUEST_BYTES_MAX + COMPLETED_BYTES_MAX + _FRAME_BYTES
    return 32 + requests * _LEAF_BYTES + CLAIM_POINTS_MAX * item_bytes + _FRAME_BYTES


def encode_session_delivery(secret: bytes, leaves: Sequence[Leaf], items: Sequence[SessionItem]) -> bytes:
    """Return the delivery of some items of a session's claim."""
    return _SESSION_DELIVERY.encode(_SessionDelivery(VERSION, secret, tuple(leaves), tuple(items)))


def read_session_delivery(delivery: bytes, genesis: bytes, claim: bytes, root: bytes, items: int) -> DeliveredItems:
    """Return the content of a delivery, of a claim with `items` items and this root.

    Raise DeliveryError for other bytes.
    """
    packed: _SessionDelivery = _decoded(_SESSION_DELIVERY, delivery)
    leaves = packed.leaves
    if len(leaves) != items or not items or batch_root(totals_of(leaves)) != root:
        raise DeliveryError("the leaves have another root than the claim", code="other_root")
    requests: dict[int, bytes] = {}
    outcomes: dict[int, Completed] = {}
    for item in packed.items:
        if item.index >= items or item.index in requests:
            raise DeliveryError("an item that the claim does not have, or twice", code="other_requests")
        leaf = leaves[item.index]
        outcome = Completed(item.output, leaf.tokens_in, leaf.tokens_out)
        if leaf_of(genesis, claim, item_salt(packed.secret, item.request), item.index, outcome) != leaf:
            raise DeliveryError("an item is not that of its leaf", code="other_commitment")
        requests[item.index], outcomes[item.index] = item.request, outcome
    return DeliveredItems(packed.secret, leaves, requests, outcomes)


def item_claim(items: int, index: int, leaf: Leaf) -> bytes:
    """Return the claim of one of `items` items: the root of a result with one item, else its `leaf_claim`."""
    return batch_root(totals_of((leaf,))) if items == 1 else leaf_claim(index, leaf)


def _decoded(form: Codec[Any], delivery: bytes) -> Any:
    """Return a delivery of this version. Raise DeliveryError for other bytes."""
    try:
        packed = form.decode(delivery)
    except DecodeError as error:
        raise DeliveryError(str(error), code="malformed_delivery") from error
    if packed.version != VERSION:
        raise DeliveryError(f"a delivery of version {packed.version}", code="malformed_delivery")
    return packed


def _read_part(content: bytes) -> _Part:
    try:
        part: _Part = _PART.decode(content)
    except DecodeError as error:
        raise DeliveryError(f"not a part of a delivery: {error}", code="malformed_delivery") from None
    return part
