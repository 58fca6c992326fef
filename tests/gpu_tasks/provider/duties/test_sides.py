"""Deliveries of the sides of a dispute: owners in turn, missing sides, and slow ones."""

import asyncio

import pytest

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.claim_delivery import DeliveryError
from gpu_tasks.provider.chain.port import ChainError
from gpu_tasks.provider.duties.sides import DeliveredSides, Patience, sides_of

SIDES = {b"right": [b"a", b"b"], b"wrong": [b"c"]}
SECONDS = 0.05


class Stores:
    """Owners with results: some answer, some refuse, some never end."""

    def __init__(self, *, refusing: str = "", dripping: str = "", broken: str = "") -> None:
        self.refusing, self.dripping, self.broken = refusing.encode(), dripping.encode(), broken.encode()
        self.asked: list[bytes] = []

    async def fetch(self, owner: bytes, root: bytes) -> bytes:
        self.asked.append(owner)
        if owner in self.broken:
            raise ChainError("the node is away")
        if owner in self.refusing:
            raise BlobError("not for you", code="not_found")
        if owner in self.dripping:
            await asyncio.sleep(3_600)
        return b"items of " + root


def gathered(stores: Stores, *, is_late: bool, kept: DeliveredSides[bytes] | None = None) -> dict[bytes, bytes]:
    patience = Patience(SECONDS, lambda: is_late)
    return asyncio.run((kept or DeliveredSides(8)).all_of(b"dispute", SIDES, stores.fetch, patience))


def first(stores: Stores, *, is_late: bool) -> bytes | None:
    patience = Patience(SECONDS, lambda: is_late)
    return asyncio.run(DeliveredSides[bytes](8).any_of(b"dispute", SIDES, stores.fetch, patience, item=1))


def test_one_owner_of_each_side_is_enough() -> None:
    stores = Stores(refusing="a")
    assert gathered(stores, is_late=False) == {root: b"items of " + root for root in SIDES}
    assert sorted(stores.asked) == [b"a", b"b", b"c"]


def test_an_owner_that_drips_does_not_hide_an_honest_one_with_the_same_result() -> None:
    assert gathered(Stores(dripping="a"), is_late=True) == {root: b"items of " + root for root in SIDES}


@pytest.mark.parametrize(
    ("stores", "error"), [(Stores(refusing="c"), BlobError), (Stores(dripping="c"), DeliveryError)]
)
def test_a_side_that_delivers_nothing_is_waited_for_and_then_out(stores: Stores, error: type[Exception]) -> None:
    with pytest.raises(error):
        gathered(stores, is_late=False)
    assert gathered(stores, is_late=True) == {b"right": b"items of right"}


def test_a_delivered_side_is_not_fetched_again_until_the_dispute_is_forgotten() -> None:
    kept, stores = DeliveredSides[bytes](8), Stores(refusing="c")
    for _ in range(2):
        gathered(stores, is_late=True, kept=kept)
    assert stores.asked.count(b"a") == 1
    kept.forget(b"dispute")
    gathered(stores, is_late=True, kept=kept)
    assert stores.asked.count(b"a") == 2


def test_a_full_memory_loses_no_side() -> None:
    kept = DeliveredSides[bytes](1)
    assert gathered(Stores(), is_late=False, kept=kept) == {root: b"items of " + root for root in SIDES}


def test_the_first_delivery_of_several_sides_does_not_wait_for_slow_ones() -> None:
    assert first(Stores(dripping="ab"), is_late=False) == b"items of wrong"
    assert first(Stores(refusing="abc"), is_late=True) is None
    with pytest.raises(BlobError):
        first(Stores(refusing="abc"), is_late=False)


@pytest.mark.parametrize("is_late", [True, False])
def test_a_chain_that_cannot_be_read_is_no_missing_side(*, is_late: bool) -> None:
    with pytest.raises(ChainError):
        gathered(Stores(broken="c"), is_late=is_late)
    with pytest.raises(ChainError):
        first(Stores(broken="abc"), is_late=is_late)


def test_sides_have_each_owner_once() -> None:
    results = [(b"r", b"a"), (b"w", b"c"), (b"r", b"b"), (b"r", b"a")]
    assert sides_of(results) == {b"r": [b"a", b"b"], b"w": [b"c"]}
