"""Lists are proved a page at a time: complete, at any length."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from certified_blocks import CertifiedChain
from genesis.chain import apis_for
from runtime.blocks.block import block_id
from runtime.cryptography.hashing import blake2_256
from runtime.pallets.balances import Balances
from runtime.pallets.system import AccountInfo, System
from runtime.state.trie import Trie
from wallet.proved import view as view_room
from wallet.proved.finality import FinalHeader
from wallet.proved.keys import storage_key
from wallet.proved.refutation import NodeRefutedError
from wallet.proved.view import ProvedView
from wallet.rpc import RpcJson

APIS = apis_for("devnet", is_development=True)
ACCOUNTS = APIS.runtime.item(System.account)
PAGE = 7
COUNT = 5 * PAGE  # full pages, and then one with nothing in it
Listing = Callable[[list[bytes]], list[bytes]]


@cache
def values() -> dict[bytes, bytes]:
    """Accounts between other things."""
    encode = ACCOUNTS.value_codec.encode
    names = [storage_key(ACCOUNTS, [blake2_256(bytes([number]))]) for number in range(COUNT)]
    entries = {name: encode(AccountInfo(nonce=number)) for number, name in enumerate(names)}
    issuance = storage_key(APIS.runtime.item(Balances.total_issuance), [])
    return entries | {issuance: b"\1" * 16, b"\0before": b"x" * 40, b"\xffafter": b"x" * 40}


class Node:
    """Serves the state of a block. `listing` changes each page of keys."""

    def __init__(self, listing: Listing = lambda page: page) -> None:
        self.trie = Trie(values())
        self.listing = listing
        self.proved: list[int] = []

    async def ask(self, method: str, *parameters: RpcJson) -> RpcJson:
        if method == "state_getReadProof":
            keys = [bytes.fromhex(key[2:]) for key in parameters[0]]
            self.proved.append(len(keys))
            return {"at": parameters[1], "proof": ["0x" + node.hex() for node in self.trie.prove(keys)]}
        prefix, count, start, _ = parameters
        after = bytes.fromhex(start[2:]) if start else b""
        keys = sorted(key for key in values() if key.startswith(bytes.fromhex(prefix[2:])) and key > after)
        return ["0x" + key.hex() for key in self.listing(keys[:count])]

    def view(self) -> ProvedView:
        header = replace(CertifiedChain().genesis_header, state_root=self.trie.root, number=5)
        return ProvedView("ws://node", self.ask, APIS, FinalHeader(block_id(header), header, 5))


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_room, "KEYS_OF_A_PAGE", PAGE)


def test_a_list_of_many_pages_is_whole_and_no_proof_is_longer_than_a_page() -> None:
    node = Node()
    found = asyncio.run(node.view().entries(System.account))
    assert list(found) == sorted(key for key in values() if key.startswith(ACCOUNTS.prefix))
    assert sorted(info.nonce for info in found.values()) == list(range(COUNT))
    assert len(node.proved) == COUNT // PAGE + 1
    assert max(node.proved) <= PAGE + 2


def test_keys_are_listed_up_to_the_page_that_is_enough() -> None:
    node = Node()
    assert len(asyncio.run(node.view().raw_keys(ACCOUNTS.prefix, PAGE))) == 2 * PAGE
    assert len(node.proved) == 2
    assert len(asyncio.run(node.view().raw_keys(ACCOUNTS.prefix, COUNT))) == COUNT


def without_the_third(page: list[bytes]) -> list[bytes]:
    return page[:2] + page[3:] + page[-1:] if len(page) > 3 else page


@pytest.mark.parametrize(
    "listing",
    [
        lambda _: [],
        lambda page: page[:-1],
        without_the_third,
        lambda _: [blake2_256(b"none")] * PAGE,
        lambda _: [ACCOUNTS.prefix + b"\xff" * 16] * PAGE,
        lambda page: page * 2,
        lambda page: page[::-1],
    ],
)
def test_a_list_with_holes_or_inventions_is_refused_or_made_whole(listing: Listing) -> None:
    try:
        found = asyncio.run(Node(listing).view().entries(System.account))
    except NodeRefutedError:
        return
    assert len(found) == COUNT


def test_what_is_left_out_is_never_taken_for_nothing() -> None:
    """Refusing every list would also satisfy the property above."""
    listings: tuple[Listing, ...] = (lambda _: [], lambda page: page[:-1], without_the_third)
    for listing in listings:
        with pytest.raises(NodeRefutedError):
            asyncio.run(Node(listing).view().entries(System.account))


def test_what_a_list_takes_of_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_room, "ENTRIES_BYTES_MAX", 2_000)
    node = Node()
    with pytest.raises(NodeRefutedError, match=r"more than 2,000 bytes"):
        asyncio.run(node.view().entries(System.account))
    assert len(node.proved) <= 4
