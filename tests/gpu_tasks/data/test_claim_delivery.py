"""Deliveries of claims: one content passes, and a reader's cost is bounded before it asks."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from error_codes import raises_code
from gpu_tasks.batches.leaves import leaves_of
from gpu_tasks.batches.outcomes import BatchOutcome, Completed, RefusedRequest, encode_outcomes
from gpu_tasks.batches.requests import encode_requests
from gpu_tasks.batches.sum_tree import batch_root, leaf_claim, totals_of
from gpu_tasks.data import claim_delivery
from gpu_tasks.data.claim_delivery import (
    DELIVERY_BYTES_MAX,
    PART_BYTES,
    TASK_DELIVERY_MAX,
    ClaimedUnit,
    Delivered,
    DeliveredState,
    DeliveryError,
    delivery_max,
    encode_delivery,
    encode_task_delivery,
    gathered_delivery,
    item_claim,
    part_of,
    read_delivery,
    read_task_delivery,
)
from gpu_tasks.data.run_states import STATE_BYTES_MAX
from gpu_tasks.data.sealing import BLOB_BYTES_MAX, CONTENT_BYTES_MAX, SealKey, seal
from gpu_tasks.data.unit_input import commitment_of, encode_input
from gpu_tasks.data.unit_output import ANSWERS_BYTES_MAX
from gpu_tasks.traces.trace import SEGMENTS_MAX, state_hash, trace_root

GENESIS, UNIT, SALT, REPLY_KEY = b"g" * 32, b"u" * 32, b"s" * 32, b"r" * 32
REQUESTS = (b"first", b"second", b"no request")
OUTCOMES: tuple[BatchOutcome, ...] = (Completed(b"one", 1, 3), Completed(b"two", 2, 4), RefusedRequest())
LEAVES = leaves_of(GENESIS, UNIT, SALT, OUTCOMES)
INPUT = encode_input(SALT, REPLY_KEY, encode_requests(REQUESTS))
CLAIMED = ClaimedUnit(GENESIS, UNIT, commitment_of(INPUT), len(REQUESTS), batch_root(totals_of(LEAVES)))
DELIVERY = encode_delivery(INPUT, encode_outcomes(OUTCOMES))
PARTS_MAX = -(-DELIVERY_BYTES_MAX // PART_BYTES)


def parts_of(delivery: bytes) -> list[bytes]:
    return [part for number in range(PARTS_MAX + 1) if (part := part_of(delivery, number)) is not None]


def gathered(parts: Sequence[bytes], bytes_max: int) -> bytes:
    async def ask(number: int) -> bytes:
        return parts[number]

    return asyncio.run(gathered_delivery(ask, bytes_max))


def test_the_delivery_of_a_claim_has_all_that_a_reader_needs() -> None:
    assert gathered(parts_of(DELIVERY), delivery_max(3)) == DELIVERY
    assert read_delivery(DELIVERY, CLAIMED) == Delivered(SALT, REQUESTS, OUTCOMES, LEAVES)


def test_a_unit_of_one_request_is_delivered_too() -> None:
    content, outcomes = encode_input(SALT, REPLY_KEY, b"alone"), (Completed(b"answer", 2, 1),)
    leaves = leaves_of(GENESIS, UNIT, SALT, outcomes)
    unit = ClaimedUnit(GENESIS, UNIT, commitment_of(content), 1, batch_root(totals_of(leaves)))
    delivery = encode_delivery(content, encode_outcomes(outcomes))
    assert read_delivery(delivery, unit) == Delivered(SALT, (b"alone",), outcomes, leaves)
    assert item_claim(1, 0, leaves[0]) == unit.root
    assert item_claim(3, 1, LEAVES[1]) == leaf_claim(1, LEAVES[1])


@pytest.mark.parametrize(
    ("delivery", "unit", "code"),
    [
        (b"", CLAIMED, "malformed_delivery"),
        (DELIVERY[:-1], CLAIMED, "malformed_delivery"),
        (DELIVERY + b"\0", CLAIMED, "malformed_delivery"),
        (b"\x02" + DELIVERY[1:], CLAIMED, "malformed_delivery"),
        (b"\0" + DELIVERY[1:], CLAIMED, "malformed_delivery"),
        (encode_delivery(INPUT, b"none"), CLAIMED, "malformed_delivery"),
        (encode_delivery(INPUT[:-1] + b"?", encode_outcomes(OUTCOMES)), CLAIMED, "other_commitment"),
        (encode_delivery(INPUT, encode_outcomes(OUTCOMES[:2])), CLAIMED, "other_requests"),
        (encode_delivery(INPUT, encode_outcomes(OUTCOMES[::-1])), CLAIMED, "other_root"),
        (DELIVERY, replace(CLAIMED, requests=2), "malformed_delivery"),
        (DELIVERY, replace(CLAIMED, root=b"?" * 32), "other_root"),
        (DELIVERY, replace(CLAIMED, id=b"?" * 32), "other_root"),
        (DELIVERY, replace(CLAIMED, genesis=b"?" * 32), "other_root"),
    ],
)
def test_no_other_bytes_are_accepted(delivery: bytes, unit: ClaimedUnit, code: str) -> None:
    with raises_code(DeliveryError, code):
        read_delivery(delivery, unit)


def test_parts_fit_into_a_blob_and_make_the_largest_delivery() -> None:
    delivery = bytes(DELIVERY_BYTES_MAX)
    part = part_of(delivery, 0)
    assert part is not None
    assert len(part) <= CONTENT_BYTES_MAX
    assert len(seal(part, [SealKey.from_seed(b"k" * 32).public])) <= BLOB_BYTES_MAX
    assert part_of(delivery, PARTS_MAX - 1) is not None
    assert part_of(delivery, PARTS_MAX) is None
    assert len(parts_of(delivery)) == PARTS_MAX
    assert gathered(parts_of(delivery), DELIVERY_BYTES_MAX) == delivery
    assert delivery_max(4_096) == DELIVERY_BYTES_MAX
    assert delivery_max(1) < 2 * CONTENT_BYTES_MAX
    largest = encode_delivery(bytes(DELIVERY_BYTES_MAX - ANSWERS_BYTES_MAX - 16), bytes(ANSWERS_BYTES_MAX))
    assert len(largest) <= DELIVERY_BYTES_MAX


FIRST, SECOND = parts_of(bytes(PART_BYTES + 9))


@pytest.mark.parametrize(
    "parts",
    [
        [FIRST, parts_of(bytes(PART_BYTES + 8))[1]],
        [FIRST, (PART_BYTES + 8).to_bytes(4, "little") + SECOND[4:]],
        [FIRST, FIRST],
        [SECOND, SECOND],
        [FIRST, SECOND[:-1]],
        [FIRST[:-1], SECOND],
        [FIRST + b"\0", SECOND],
        [b"", SECOND],
    ],
)
def test_parts_that_do_not_fit_are_refused(parts: list[bytes]) -> None:
    assert gathered([FIRST, SECOND], PART_BYTES + 9) == bytes(PART_BYTES + 9)
    with raises_code(DeliveryError, "malformed_delivery"):
        gathered(parts, PART_BYTES + 9)
    with raises_code(DeliveryError, "malformed_delivery"):
        gathered([FIRST, SECOND], PART_BYTES + 8)


def test_a_reader_asks_for_no_part_beyond_its_limit() -> None:
    asked: list[int] = []

    async def ask(number: int) -> bytes:
        asked.append(number)
        return claim_delivery._PART.encode(claim_delivery._Part(2**32 - 1, bytes(PART_BYTES)))

    with raises_code(DeliveryError, "malformed_delivery"):
        asyncio.run(gathered_delivery(ask, delivery_max(1)))
    assert asked == [0]


STATES = [bytes([number]) * 40 for number in range(4)]
DIGESTS = tuple(state_hash(state) for state in STATES)
ROOT, KEY = trace_root(DIGESTS), b"k" * 32
ITEM = DeliveredState(DIGESTS, STATES[1], KEY)


def test_the_delivery_of_a_task_s_item_has_its_state_and_all_hashes() -> None:
    delivery = encode_task_delivery(ITEM)
    assert gathered(parts_of(delivery), TASK_DELIVERY_MAX) == delivery
    assert read_task_delivery(delivery, ROOT, 3, 1) == ITEM


@pytest.mark.parametrize(
    ("delivered", "code"),
    [
        (replace(ITEM, state=STATES[2]), "other_state"),
        (replace(ITEM, state=STATES[1][:-1]), "other_state"),
        (replace(ITEM, digests=(*DIGESTS[:-1], b"x" * 32)), "other_root"),
        (replace(ITEM, digests=DIGESTS[:-1]), "other_root"),
        (replace(ITEM, digests=(*DIGESTS, b"x" * 32)), "other_root"),
        (replace(ITEM, digests=()), "other_root"),
    ],
)
def test_another_state_or_trace_is_no_delivery(delivered: DeliveredState, code: str) -> None:
    with raises_code(DeliveryError, code):
        read_task_delivery(encode_task_delivery(delivered), ROOT, 3, 1)


def test_bytes_of_another_form_are_no_delivery_of_an_item() -> None:
    delivery = encode_task_delivery(ITEM)
    for other in (b"", delivery[:-1], delivery + b"\0", bytes((delivery[0] + 1,)) + delivery[1:], DELIVERY):
        with raises_code(DeliveryError, "malformed_delivery"):
            read_task_delivery(other, ROOT, 3, 1)


def test_the_largest_item_fits_one_part() -> None:
    largest = DeliveredState((DIGESTS[0],) * (SEGMENTS_MAX + 1), bytes(STATE_BYTES_MAX), KEY)
    delivery = encode_task_delivery(largest)
    assert len(delivery) <= TASK_DELIVERY_MAX <= PART_BYTES
    assert len(parts_of(delivery)) == 1
