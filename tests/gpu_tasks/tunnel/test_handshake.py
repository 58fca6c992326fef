"""The handshake of a tunnel: two keys that both sides know, and copied messages that open nothing."""

import os

import pytest

from gpu_tasks.data.sealing import SealKey
from gpu_tasks.tunnel.handshake import HANDSHAKE_BYTES, RECORD_BYTES_MAX, SealedLine, TunnelKeyError, TunnelName

CUSTOMER, PROVIDER, STRANGER = (SealKey(bytes((number,)) * 32) for number in (1, 2, 3))
NAME = TunnelName(b"g" * 32, b"t" * 32, b"p" * 32)


def ends(
    customer: SealKey = CUSTOMER, provider: SealKey = PROVIDER, name: TunnelName = NAME
) -> tuple[SealedLine, SealedLine]:
    """Return the customer's and the provider's ends. Each expects the genuine key of the other."""
    theirs = SealedLine(name, customer, PROVIDER.public, is_customer=True)
    return theirs, SealedLine(NAME, provider, CUSTOMER.public, is_customer=False)


def agreed() -> tuple[SealedLine, SealedLine]:
    customer, provider = ends()
    provider.hear(customer.hello())
    customer.hear(provider.hello())
    return customer, provider


def test_both_ends_say_and_hear() -> None:
    customer, provider = agreed()
    for count in range(3):
        said = os.urandom(100 * count + 1)
        assert provider.open(customer.seal(said)) == said
        assert customer.open(provider.seal(said)) == said


def test_a_stranger_is_not_heard() -> None:
    customer, provider = ends(customer=STRANGER)
    with pytest.raises(TunnelKeyError):
        provider.hear(customer.hello())


def test_another_provider_is_not_believed() -> None:
    customer, impostor = ends(provider=STRANGER)
    hello = customer.hello()
    with pytest.raises(TunnelKeyError):
        impostor.hear(hello)
    with pytest.raises(TunnelKeyError):
        customer.hear(os.urandom(HANDSHAKE_BYTES))


@pytest.mark.parametrize(
    "name",
    [
        TunnelName(b"G" * 32, b"t" * 32, b"p" * 32),
        TunnelName(b"g" * 32, b"T" * 32, b"p" * 32),
        TunnelName(b"g" * 32, b"t" * 32, b"P" * 32),
    ],
)
def test_a_hello_to_another_chain_task_or_provider_is_none(name: TunnelName) -> None:
    customer, provider = ends(name=name)
    with pytest.raises(TunnelKeyError):
        provider.hear(customer.hello())


def test_a_hello_that_was_copied_opens_nothing() -> None:
    customer, first = ends()
    hello = customer.hello()
    first.hear(hello)
    customer.hear(first.hello())
    record = customer.seal(b"ready")
    _, second = ends()
    second.hear(hello)
    second.hello()
    with pytest.raises(TunnelKeyError):
        second.open(record)
    assert first.open(record) == b"ready"


def test_what_one_says_is_not_believed_when_it_comes_back() -> None:
    customer, provider = agreed()
    with pytest.raises(TunnelKeyError):
        customer.open(customer.seal(b"reflected"))
    customer, provider = agreed()
    with pytest.raises(TunnelKeyError):
        provider.hear(provider.seal(b"x" * 32))


def test_records_are_opened_once_in_their_order_and_whole() -> None:
    customer, provider = agreed()
    first, second = customer.seal(b"first"), customer.seal(b"second")
    with pytest.raises(TunnelKeyError):
        provider.open(second)
    customer, provider = agreed()
    first = customer.seal(b"first")
    provider.open(first)
    with pytest.raises(TunnelKeyError):
        provider.open(first)
    customer, provider = agreed()
    changed = bytearray(customer.seal(b"first"))
    changed[0] ^= 1
    with pytest.raises(TunnelKeyError):
        provider.open(bytes(changed))


@pytest.mark.parametrize("size", [0, 1, HANDSHAKE_BYTES - 1, HANDSHAKE_BYTES + 1, 1_000])
def test_hellos_of_another_size_are_none(size: int) -> None:
    _, provider = ends()
    with pytest.raises(TunnelKeyError):
        provider.hear(bytes(size))


@pytest.mark.parametrize("size", [0, 16, RECORD_BYTES_MAX + 1])
def test_records_of_an_impossible_size_are_none(size: int) -> None:
    _, provider = agreed()
    with pytest.raises(TunnelKeyError):
        provider.open(bytes(size))
