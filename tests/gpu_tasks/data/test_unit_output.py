import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.batches.outcomes import BatchOutcome, Completed, RefusedRequest, encode_outcomes
from gpu_tasks.batches.requests import encode_requests
from gpu_tasks.batches.sum_tree import batch_root
from gpu_tasks.data.unit_input import REQUEST_BYTES_MAX, UnitInput
from gpu_tasks.data.unit_output import output_of, read_output, requests_of
from runtime.encoding.codec import DecodeError

HASH = st.binary(min_size=32, max_size=32)
OUTCOMES: st.SearchStrategy[BatchOutcome] = st.one_of(
    st.builds(Completed, st.binary(max_size=20), st.integers(0, 99), st.integers(0, 99)), st.just(RefusedRequest())
)


def asked(request: bytes) -> UnitInput:
    return UnitInput(1, b"s" * 32, b"r" * 32, request)


def test_a_single_request_stands_in_the_input_as_it_is() -> None:
    assert requests_of(asked(b"anything"), 1) == (b"anything",)
    assert requests_of(asked(bytes(REQUEST_BYTES_MAX)), 1) == (bytes(REQUEST_BYTES_MAX),)
    with pytest.raises(DecodeError, match="too many bytes"):
        requests_of(asked(bytes(REQUEST_BYTES_MAX + 1)), 1)


def test_a_batch_has_as_many_requests_as_its_unit_says() -> None:
    batch = asked(encode_requests([b"one", b"two"]))
    assert requests_of(batch, 2) == (b"one", b"two")
    for count in (3, 4_096):
        with pytest.raises(DecodeError, match=rf"\b2 .*\b{count} at"):
            requests_of(batch, count)
    with pytest.raises(DecodeError):
        requests_of(asked(b"no list of requests"), 2)


@given(HASH, HASH, HASH, st.lists(OUTCOMES, min_size=1, max_size=5), st.data())
def test_every_part_changes_the_root(
    genesis: bytes, unit: bytes, salt: bytes, outcomes: list[BatchOutcome], data: st.DataObject
) -> None:
    parts = [genesis, unit, salt]
    place = data.draw(st.integers(0, 2))
    changed = list(parts)
    changed[place] = bytes((parts[place][0] ^ 1,)) + parts[place][1:]
    other_genesis, other_unit, other_salt = changed
    root = output_of(genesis, unit, salt, outcomes).root
    assert root != output_of(other_genesis, other_unit, other_salt, outcomes).root
    assert root != output_of(genesis, unit, salt, [*outcomes, RefusedRequest()]).root
    assert root != output_of(genesis, unit, salt, [*outcomes[:-1], Completed(b"x" * 21, 1, 1)]).root


def test_what_is_paid_for_is_the_sum_of_what_was_completed() -> None:
    outcomes: list[BatchOutcome] = [Completed(b"a", 3, 5), RefusedRequest(), Completed(b"b", 4, 6)]
    output = output_of(b"g" * 32, b"u" * 32, b"s" * 32, outcomes)
    assert (output.totals.requests, output.totals.tokens_in, output.totals.tokens_out) == (3, 7, 11)
    assert output.root == batch_root(output.totals)


def test_an_output_is_read_back_and_nothing_else_is_one() -> None:
    names = (b"g" * 32, b"u" * 32, b"s" * 32)
    outcomes = (Completed(b"a", 3, 5), RefusedRequest())
    content = encode_outcomes(outcomes)
    assert read_output(*names, content, 2) == output_of(*names, outcomes)
    assert read_output(*names, content, 1) is None
    assert read_output(*names, content + b"\0", 2) is None
    assert read_output(*names, b"", 2) is None
