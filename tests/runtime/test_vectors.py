"""Pinned formats: types and storage of the small chain, and published storage keys."""

import json

import pytest

from runtime.blocks.block import HEADER, block_id
from runtime.frame.storage import StorageItem
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from runtime.pallets.timestamp import Timestamp
from small_chain import APIS, BOB, CHARLIE, RUNTIME, SmallChain
from type_vectors import VECTORS, vectors_of

PUBLISHED_PREFIXES: list[tuple[StorageItem, str]] = [
    (System.number, "26aa394eea5630e07c48ae0c9558cef702a5c1b19ab7a04f536c519aca4983ac"),
    (System.event_records, "26aa394eea5630e07c48ae0c9558cef780d41e5e16056765bc8461851072c9d7"),
    (System.account, "26aa394eea5630e07c48ae0c9558cef7b99d880ec681799c0cf30e8886371da9"),
    (Timestamp.now, "f0c365c3cf59d671eb72da0e7a4113c49f1f0515f462cdcf84e0f1d6045dfcbb"),
    (Balances.total_issuance, "c2261276cc9d1f8598ea4b6a74b15c2f57c875e4cff74148e4628f264b974c80"),
]
ALICE_OF_THE_SDK = "d43593c715fdd31c61141abd04a99fd6822c8558854ccde39a5684e7a56da27d"
HER_ACCOUNT_KEY = "de1e86a9a8c739864cf3cc5ec2bea59f" + ALICE_OF_THE_SDK
GENESIS_HASH = "5d1e004aad1232ef64ff3dd95b44ec288867ea77bc5b10b29f4d9200abf645ca"
BLOCK_1_HASH = "88cbe164a26063076291a4b0ccffc3d7a2c042ec049db7a2733ac89b48eafd97"


def test_types_and_storage_are_those_on_record() -> None:
    """After an intended change, run `python tests/support/type_vectors.py` and review the difference."""
    assert vectors_of(APIS) == json.loads(VECTORS.read_text())


@pytest.mark.parametrize(("item", "prefix"), PUBLISHED_PREFIXES)
def test_storage_prefixes_are_the_published_ones(item: StorageItem, prefix: str) -> None:
    assert item.prefix.hex() == prefix


def test_account_keys_are_the_published_ones() -> None:
    key = RUNTIME.item(System.account).key(bytes.fromhex(ALICE_OF_THE_SDK))
    assert key.hex() == PUBLISHED_PREFIXES[2][1] + HER_ACCOUNT_KEY


def test_a_block_of_a_fixed_input_has_a_fixed_hash() -> None:
    chain = SmallChain(config={"Sudo": {}})
    assert chain.genesis_hash.hex() == GENESIS_HASH
    chain.author(chain.signed(BOB, Balances.transfer_keep_alive(dest=CHARLIE.account, value=10**8)))
    assert HEADER.decode(HEADER.encode(chain.head)) == chain.head
    assert block_id(chain.head).hex() == BLOCK_1_HASH
