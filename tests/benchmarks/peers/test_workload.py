"""The workload: every transfer is sent once, each sender's in the order of its nonces over one connection."""

import json
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.peers.workload import Shape, bodies, deal


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    senders = draw(st.integers(1, 20))
    return Shape(
        transfers=senders * draw(st.integers(1, 10)),
        senders=senders,
        batch=draw(st.integers(1, 50)),
        connections=draw(st.integers(1, senders)),
    )


@given(shapes())
def test_every_transfer_is_dealt_once(shape: Shape) -> None:
    dealt = [transfer for hand in deal(shape) for batch in hand for transfer in batch]
    assert sorted(dealt) == sorted(shape.all_transfers())


@given(shapes())
def test_a_sender_keeps_to_one_connection_and_to_the_order_of_its_nonces(shape: Shape) -> None:
    seen: dict[int, int] = {}
    for connection, hand in enumerate(deal(shape)):
        following = dict.fromkeys(range(shape.senders), 0)
        for transfer in chain.from_iterable(hand):
            assert seen.setdefault(transfer.sender, connection) == connection
            assert transfer.nonce == following[transfer.sender]
            following[transfer.sender] += 1


@given(shapes())
def test_only_the_last_batch_of_a_connection_is_smaller(shape: Shape) -> None:
    hands = deal(shape)
    assert len(hands) == shape.connections
    for hand in hands:
        assert all(len(batch) == shape.batch for batch in hand[:-1])
        assert 1 <= len(hand[-1]) <= shape.batch


def test_a_body_is_a_batch_of_calls_numbered_from_nought() -> None:
    shape = Shape(transfers=4, senders=2, batch=2, connections=1)
    signed = {transfer: f"0x{transfer.sender}{transfer.nonce}" for transfer in shape.all_transfers()}
    ((first, second),) = bodies(shape, "submit", signed)
    assert json.loads(first) == [
        {"jsonrpc": "2.0", "id": 0, "method": "submit", "params": ["0x00"]},
        {"jsonrpc": "2.0", "id": 1, "method": "submit", "params": ["0x10"]},
    ]
    assert [call["params"] for call in json.loads(second)] == [["0x01"], ["0x11"]]


@pytest.mark.parametrize(("transfers", "connections"), [(5, 1), (4, 0), (4, 3)])
def test_a_shape_that_cannot_be_dealt_evenly_is_refused(transfers: int, connections: int) -> None:
    with pytest.raises(ValueError, match="senders"):
        Shape(transfers, senders=2, batch=10, connections=connections)


def test_a_shape_is_called_what_people_call_it() -> None:
    assert Shape(transfers=1_000, senders=500, batch=250, connections=4).label == "250x4"
