"""The messages of a session's stream, as bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.batches.requests import REQUEST_BYTES_MAX
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.sessions.messages import (
    CUSTOMER_MESSAGE,
    MESSAGE_BYTES_MAX,
    PROVIDER_MESSAGE,
    UNPAID_TOKENS_MAX,
    Ask,
    MessageReader,
    SessionEntered,
    Tokens,
    framed,
)
from runtime.encoding.codec import DecodeError, EncodeError

TOTALS = Totals(2**32 - 1, 2**64 - 1, 2**64 - 1, bytes(32))


@given(st.lists(st.binary(max_size=300), max_size=6), st.data())
def test_messages_come_out_as_they_went_in_for_any_cuts(bodies: list[bytes], data: st.DataObject) -> None:
    """A message is complete with its last byte."""
    stream = b"".join(map(framed, bodies))
    reader = MessageReader()
    found: list[bytes] = []
    while stream:
        length = data.draw(st.integers(1, len(stream)))
        found += reader.take(stream[:length])
        stream = stream[length:]
    assert found == bodies


def test_a_length_beyond_the_limit_is_refused_before_its_content() -> None:
    """Four bytes suffice."""
    with pytest.raises(DecodeError):
        list(MessageReader().take((MESSAGE_BYTES_MAX + 1).to_bytes(4, "little")))
    assert list(MessageReader().take(MESSAGE_BYTES_MAX.to_bytes(4, "little"))) == []


def test_the_longest_request_fits_a_message() -> None:
    """With a voucher of the greatest numbers."""
    body = CUSTOMER_MESSAGE.encode(Ask(bytes(REQUEST_BYTES_MAX), TOTALS, bytes(65)))
    assert len(body) <= MESSAGE_BYTES_MAX
    with pytest.raises(EncodeError):
        CUSTOMER_MESSAGE.encode(Ask(bytes(REQUEST_BYTES_MAX + 1), TOTALS, bytes(65)))


def test_a_message_carries_no_more_tokens_than_may_be_unpaid() -> None:
    """The limit is one of the form."""
    assert PROVIDER_MESSAGE.decode(PROVIDER_MESSAGE.encode(SessionEntered(3, None))) == SessionEntered(3, None)
    PROVIDER_MESSAGE.encode(Tokens((0,) * UNPAID_TOKENS_MAX, is_last=True))
    with pytest.raises(EncodeError):
        PROVIDER_MESSAGE.encode(Tokens((0,) * (UNPAID_TOKENS_MAX + 1), is_last=True))
