"""The chain over a real LevelDB: forks, finality, restarts, damage, and blocks that break a rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from block_maker import FIRST_SLOT, SPEC, Maker, as_block, now_of, open_at
from consensus.events import CertifiedRef
from consensus.headers import NotYetError
from genesis import dev_accounts
from genesis.chain import GENESIS_KEYS, genesis_block_header, genesis_state, runtime_of
from node.errors import DatabaseError
from node.ledger.chain import UnknownParentError, open_chain
from node.ledger.storage import STATE, Storage
from runtime.blocks.block import Block, Header
from runtime.cryptography import signatures
from runtime.encoding.codec import codec
from runtime.execution.supply import SupplyBroken
from runtime.frame.errors import InvalidBlock
from runtime.pallets.balances import Balances
from runtime.pallets.staking.stakers import Seats
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.sudo import Sudo
from runtime.pallets.system import System
from runtime.state.trie import Trie
from runtime.state.trie_proof import verify_proof

LATER = now_of(FIRST_SLOT + 10_000)


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path / "maker")


def test_another_node_comes_to_the_same_state(maker: Maker, tmp_path: Path) -> None:
    other = open_at(tmp_path / "other")
    pay = Balances.transfer_keep_alive(dest=dev_accounts.stash("Bob"), value=12_345)
    first = maker.make(None, maker.transfer(pay, 0))
    second = maker.make(first.facts.id, maker.transfer(pay, 1))
    for block in (first, second):
        assert other.import_block(as_block(block), LATER) == block.facts
        assert other[block.facts.id].trie.root == block.trie.root == block.header.state_root
    assert len(second.extrinsics) == 2
    assert other[second.facts.id].changes == second.changes


def test_finality_drops_the_other_branch_and_survives_a_restart(maker: Maker, tmp_path: Path) -> None:
    chain = maker.chain
    a1 = maker.make()
    b1 = maker.make()
    a2 = maker.make(a1.facts.id)
    a3 = maker.make(a2.facts.id)
    chain.keep(a3.facts.id)
    chain.keep(b1.facts.id)
    certificate = maker.certify(a2)
    final = chain.finalise((a1.facts.id, a2.facts.id), certificate)
    assert [executed.facts.id for executed in final] == [a1.facts.id, a2.facts.id]
    assert chain.get(b1.facts.id) is None
    assert chain.above_final() == [a3]
    assert a3.state.get(b":code") is not None
    assert dict(chain.storage.items()) == {key: chain.final.state.get(key) for key in chain.final.state.keys(b"")}
    chain.storage.close()

    again = open_at(tmp_path / "maker")
    again.restore(LATER)
    assert again.final.facts == a2.facts
    assert again.final_certificate == certificate
    assert [executed.facts for executed in again.above_final()] == [a3.facts]
    assert again[a3.facts.id].trie.root == a3.trie.root
    assert again.storage.pending() == [a3.stored]


def test_a_reference_to_a_final_block_counts_and_must_advance(maker: Maker, tmp_path: Path) -> None:
    other = open_at(tmp_path / "other")
    first = maker.make()
    reference = CertifiedRef(1, first.facts.id, maker.certify(first))
    second = maker.make(first.facts.id, final_ref=reference)
    assert second.facts.referenced_height == 1
    third = maker.make(second.facts.id)
    assert third.facts.referenced_height == 1
    for block in (first, second, third):
        other.import_block(as_block(block), LATER)
    forged = replace(reference, certificate=replace(reference.certificate, signatures=(bytes(64),)))
    with_forged = maker.make(first.facts.id, final_ref=forged)
    with pytest.raises(InvalidBlock, match="certificate"):
        other.import_block(as_block(with_forged), LATER)


def test_what_breaks_a_rule_is_invalid_and_changes_nothing(maker: Maker, tmp_path: Path) -> None:
    other = open_at(tmp_path / "other")
    pay = Balances.transfer_keep_alive(dest=dev_accounts.stash("Bob"), value=1)
    good = as_block(maker.make(None, maker.transfer(pay, 0)))
    header = good.header

    def sealed(**changes: Any) -> Block:
        """Return the same block with a changed header, sealed again, as by a cheating validator."""
        file = maker.key.file
        assert file is not None
        file.state = replace(file.state, header=type(file.state.header)(0, bytes(32)))
        bare = Header(header.parent_hash, header.number, header.state_root, header.extrinsics_root, header.digest[:-1])
        return Block(maker.validator.seal(0, maker.slot, replace(bare, **changes)), good.extrinsics)

    for bad in (
        sealed(state_root=bytes(32)),
        sealed(extrinsics_root=bytes(32)),
        sealed(number=2),
        sealed(number=0),
        sealed(digest=header.digest[:1]),
        sealed(digest=(*header.digest[:-1], header.digest[1])),
        Block(replace(header, digest=header.digest[:-1]), good.extrinsics),
        Block(replace(header, state_root=bytes(32)), good.extrinsics),
        Block(header, good.extrinsics[:1]),
        Block(header, good.extrinsics + good.extrinsics[1:]),
        Block(header, good.extrinsics[::-1]),
        Block(header, ()),
    ):
        with pytest.raises(InvalidBlock):
            other.import_block(bad, LATER)
    with pytest.raises(UnknownParentError):
        other.import_block(sealed(parent_hash=bytes(32)), LATER)
    with pytest.raises(NotYetError):
        other.import_block(good, now_of(FIRST_SLOT - 5))
    assert other.above_final() == []
    other.import_block(good, LATER)


def test_branches_are_given_oldest_first_and_bounded(maker: Maker) -> None:
    chain = maker.chain
    blocks = [maker.make()]
    blocks += [maker.make(blocks[0].facts.id)]
    chain.finalise(tuple(executed.facts.id for executed in blocks), maker.certify(blocks[-1]))
    for _ in range(3):
        blocks.append(maker.make(blocks[-1].facts.id))
    raws = [executed.stored.header + executed.stored.body for executed in blocks]
    assert chain.branch(blocks[-1].facts.id, 0) == raws
    assert chain.branch(blocks[-1].facts.id, 1) == raws[1:]
    assert chain.branch(blocks[3].facts.id, 2) == raws[2:4]
    assert chain.branch(blocks[0].facts.id, 0) == raws[:1]
    assert chain.branch(blocks[-1].facts.id, 5) == []
    assert chain.branch(bytes(32), 0) == []


def test_the_way_from_one_tip_to_another(maker: Maker) -> None:
    chain = maker.chain
    a1 = maker.make()
    a2 = maker.make(a1.facts.id)
    b2 = maker.make(a1.facts.id)
    b3 = maker.make(b2.facts.id)
    assert chain.path(a2.facts.id, b3.facts.id) == ([a2], [b2, b3])
    assert chain.path(a1.facts.id, b2.facts.id) == ([], [b2])
    assert chain.path(b3.facts.id, a1.facts.id) == ([b3, b2], [])
    assert chain.path(b3.facts.id, b3.facts.id) == ([], [])


def test_proofs_of_recent_final_states(maker: Maker) -> None:
    chain = maker.chain
    block = maker.make()
    chain.finalise((block.facts.id,), maker.certify(block))
    key = chain.runtime.item(System.number).key()
    proof = chain.prove(block.facts.id, [key, b"absent"])
    assert proof is not None
    assert verify_proof(block.header.state_root, proof, key) == b"\x01\0\0\0"
    assert verify_proof(block.header.state_root, proof, b"absent") is None
    assert chain.prove(chain.genesis, [key]) is not None
    assert chain.prove(bytes(32), [key]) is None


def test_the_genesis_keys_are_proved_for_ever(maker: Maker, tmp_path: Path) -> None:
    """Also by a node that dropped its tries of block 0, or that was just started again."""
    chain = maker.chain
    block = maker.make()
    chain.finalise((block.facts.id,), maker.certify(block))
    root = genesis_block_header(genesis_state(SPEC)).state_root
    chain.storage.close()
    again = open_at(tmp_path / "maker")
    key, sudo_key = GENESIS_KEYS
    assert key == again.runtime.item(TrustStake.active_set).key()
    assert sudo_key == again.runtime.item(Sudo.key).key()
    proof = again.prove(again.genesis, [key, sudo_key])
    assert proof is not None
    assert verify_proof(root, proof, sudo_key) == dev_accounts.stash("Alice")
    assert verify_proof(root, proof, key) == codec(Seats).encode(
        again.runtime.at(block.state)[TrustStake].active_set.get()
    )
    assert again.prove(again.genesis, [key, sudo_key, b"other"]) is None
    assert again.prove(again.genesis, [b"other"]) is None


def test_a_state_that_is_not_the_headers_is_refused_at_start(maker: Maker, tmp_path: Path) -> None:
    chain = maker.chain
    chain.storage._database.put(STATE + chain.runtime.item(System.number).key(), b"\x07\0\0\0")
    chain.storage.close()
    with pytest.raises(DatabaseError, match="damaged"):
        open_at(tmp_path / "maker")


def test_d11_a_node_counts_all_grains_where_it_starts(tmp_path: Path) -> None:
    """No block does. A state that lost an account still has a valid root."""
    state = genesis_state(SPEC)
    accounts = [key for key in state if key.startswith(runtime_of(SPEC).item(System.account).prefix)]
    del state[accounts[0]]
    storage = Storage(tmp_path / "db", free_bytes_floor=0)
    try:
        with pytest.raises(SupplyBroken):
            open_chain(storage, SPEC, state, signatures.verify)
    finally:
        storage.close()


def test_a_trie_of_the_disk_is_the_trie_of_the_layers(maker: Maker) -> None:
    chain, parent = maker.chain, maker.chain.final
    for _ in range(5):
        block = maker.make(parent.facts.id)
        parent = chain.finalise((block.facts.id,), maker.certify(block))[-1]
        assert Trie(dict(chain.storage.items())).root == parent.header.state_root


def test_what_becomes_final_is_a_child_of_what_is_final(maker: Maker) -> None:
    first = maker.make()
    second = maker.make(first.facts.id)
    with pytest.raises(AssertionError, match="is a child"):
        maker.chain.finalise((second.facts.id,), maker.certify(second))
    assert maker.chain.final.facts.height == 0


def test_a_layer_that_lies_over_another_state_never_comes_to_the_disk(maker: Maker) -> None:
    first = maker.make()
    second = maker.make(first.facts.id)
    second.state.parent = maker.chain.final.state
    with pytest.raises(AssertionError, match="of a new final block"):
        maker.chain.finalise((first.facts.id, second.facts.id), maker.certify(second))
    assert maker.chain.storage.head_height == 0
    with pytest.raises(AssertionError, match="of a child"):
        maker.chain.finalise((first.facts.id,), maker.certify(first))


def test_layers_above_the_final_block_lie_on_the_disk(maker: Maker) -> None:
    first = maker.make()
    second = maker.make(first.facts.id)
    maker.chain.finalise((first.facts.id,), maker.certify(first))
    assert second.state.parent is maker.chain.storage
    assert maker.chain.final.state.parent is maker.chain.storage
