"""Lists of requests and outcomes: they decode to their input, and refuse too large or too many items."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.batches.outcomes import (
    COMPLETED_BYTES_MAX,
    BatchOutcome,
    Completed,
    RefusedRequest,
    decode_outcomes,
    encode_outcomes,
)
from gpu_tasks.batches.requests import (
    BATCH_BYTES_MAX,
    REQUEST_BYTES_MAX,
    REQUESTS_MAX,
    decode_requests,
    encode_requests,
)
from runtime.encoding.codec import DecodeError, EncodeError

tokens = st.integers(0, 2**32 - 1)
outcomes = st.one_of(
    st.just(RefusedRequest()), st.builds(Completed, output=st.binary(max_size=40), tokens_in=tokens, tokens_out=tokens)
)


@given(requests=st.lists(st.binary(max_size=40), min_size=1, max_size=20))
def test_requests_come_back(requests: list[bytes]) -> None:
    assert decode_requests(encode_requests(requests)) == tuple(requests)


@given(batch=st.lists(outcomes, min_size=1, max_size=20))
def test_outcomes_come_back(batch: list[BatchOutcome]) -> None:
    assert decode_outcomes(encode_outcomes(batch)) == tuple(batch)


def test_the_bytes_are_scale() -> None:
    assert encode_requests([b"ab", b""]) == bytes([2 << 2, 2 << 2]) + b"ab" + bytes([0])
    assert encode_outcomes([Completed(b"x", 3, 5), RefusedRequest()]) == (
        bytes([2 << 2, 0, 1 << 2]) + b"x" + (3).to_bytes(4, "little") + (5).to_bytes(4, "little") + bytes([1])
    )


def test_the_largest_lists() -> None:
    most = [b""] * REQUESTS_MAX
    assert decode_requests(encode_requests(most)) == tuple(most)
    largest = [bytes(REQUEST_BYTES_MAX)]
    assert decode_requests(encode_requests(largest)) == tuple(largest)
    all_refused = [RefusedRequest()] * REQUESTS_MAX
    assert decode_outcomes(encode_outcomes(all_refused)) == tuple(all_refused)
    long = [Completed(bytes(COMPLETED_BYTES_MAX), 0, 0)]
    assert decode_outcomes(encode_outcomes(long)) == tuple(long)


def batch_of(size: int, item_bytes: int, overhead: int) -> list[int]:
    """Return item lengths whose encoded list has `size` bytes: full items, and a last one for the rest."""
    full = item_bytes + overhead
    count = (size - 2) // full
    return [item_bytes] * count + [size - 2 - count * full - overhead]


def test_a_batch_of_exactly_the_most_bytes_and_of_one_more() -> None:
    lengths = batch_of(BATCH_BYTES_MAX, 60_000, 4)
    requests = [bytes(length) for length in lengths]
    assert len(encode_requests(requests)) == BATCH_BYTES_MAX
    assert decode_requests(encode_requests(requests)) == tuple(requests)
    with pytest.raises(EncodeError, match=f"requests have {BATCH_BYTES_MAX + 1}"):
        encode_requests([*requests[:-1], requests[-1] + b"\0"])


def test_outcomes_of_exactly_the_most_bytes_and_of_one_more() -> None:
    lengths = batch_of(BATCH_BYTES_MAX, 60_000, 4 + 1 + 8)
    batch = [Completed(bytes(length), 1, 1) for length in lengths]
    assert len(encode_outcomes(batch)) == BATCH_BYTES_MAX
    assert decode_outcomes(encode_outcomes(batch)) == tuple(batch)
    with pytest.raises(EncodeError, match=f"{BATCH_BYTES_MAX + 1} bytes of outcomes"):
        encode_outcomes([*batch[:-1], Completed(batch[-1].output + b"\0", 1, 1)])


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([], "is empty"),
        ([b""] * (REQUESTS_MAX + 1), "4097 items, limit 4096"),
        ([bytes(REQUEST_BYTES_MAX + 1)], "65537 bytes, limit 65536"),
    ],
)
def test_requests_that_are_no_batch(requests: list[bytes], message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        encode_requests(requests)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([], "without outcomes"),
        ([RefusedRequest()] * (REQUESTS_MAX + 1), "4097 items, limit 4096"),
        ([Completed(bytes(COMPLETED_BYTES_MAX + 1), 0, 0)], "262145 bytes, limit 262144"),
    ],
)
def test_outcomes_that_are_no_batch(batch: list[BatchOutcome], message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        encode_outcomes(batch)


def compact(number: int) -> bytes:
    """A SCALE compact number from 2^14 on, or from 64 on."""
    return (number << 2 | 1).to_bytes(2, "little") if number < 2**14 else (number << 2 | 2).to_bytes(4, "little")


MALFORMED_REQUESTS = {
    "nothing": b"",
    "no request": bytes([0]),
    "one too many": compact(REQUESTS_MAX + 1) + bytes(REQUESTS_MAX + 1),
    "a request too long": bytes([1 << 2]) + compact(REQUEST_BYTES_MAX + 1) + bytes(REQUEST_BYTES_MAX + 1),
    "cut short": bytes([2 << 2, 4 << 2]) + b"abcd",
    "something left over": bytes([1 << 2, 0, 0]),
    "too many bytes": bytes(BATCH_BYTES_MAX + 1),
}
MALFORMED_OUTCOMES = {
    "nothing": b"",
    "no outcome": bytes([0]),
    "one too many": compact(REQUESTS_MAX + 1) + bytes([1]) * (REQUESTS_MAX + 1),
    "an output too long": bytes([1 << 2, 0]) + compact(COMPLETED_BYTES_MAX + 1) + bytes(COMPLETED_BYTES_MAX + 9),
    "another kind": bytes([1 << 2, 2]),
    "cut short": bytes([1 << 2, 0, 0]) + bytes(7),
    "something left over": bytes([1 << 2, 1, 0]),
    "too many bytes": bytes(BATCH_BYTES_MAX + 1),
}


@pytest.mark.parametrize("data", MALFORMED_REQUESTS.values(), ids=MALFORMED_REQUESTS.keys())
def test_bytes_that_are_no_requests(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_requests(data)


@pytest.mark.parametrize("data", MALFORMED_OUTCOMES.values(), ids=MALFORMED_OUTCOMES.keys())
def test_bytes_that_are_no_outcomes(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_outcomes(data)


def test_what_is_too_large_is_refused_unread() -> None:
    with pytest.raises(DecodeError, match=f"^{BATCH_BYTES_MAX + 1} .* requests, .*{BATCH_BYTES_MAX} "):
        decode_requests(bytes(BATCH_BYTES_MAX + 1))
    with pytest.raises(DecodeError, match=f"^{BATCH_BYTES_MAX + 1} .* outcomes, .*{BATCH_BYTES_MAX} "):
        decode_outcomes(bytes(BATCH_BYTES_MAX + 1))
