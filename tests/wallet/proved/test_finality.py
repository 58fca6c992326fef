"""From a genesis hash to a final header: the accepted path, and everything similar that is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certified_blocks import CertifiedChain
from consensus.certificates import CERTIFICATE
from consensus.parameters import DEVNET, MAINNET
from consensus.validators import ValidatorSet
from genesis.chain import GENESIS_KEYS, runtime_for
from played_node import certify
from runtime.blocks.block import HEADER, Header, block_id
from runtime.blocks.digest import CERTIFICATE_BYTES_MAX
from runtime.blocks.votes import BallotKind
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError
from runtime.pallets.system import System
from runtime.state.trie import Trie
from runtime.state.trie_proof import InvalidProof, ProvedState
from small_chain import FIRST_SLOT
from wallet.proved.finality import doubt_of_age, final_header, trust_root
from wallet.proved.refutation import RefutedError


@cache
def made() -> CertifiedChain:
    chain = CertifiedChain()
    chain.author()
    chain.author()
    return chain


def head() -> Header:
    return made().chain.head


def test_the_genesis_hash_leads_to_the_validators_and_they_to_a_final_header() -> None:
    root = made().root()
    assert [seat.weight > 0 for seat in root.seats] == [True]
    final = final_header(root, root.first_set, head(), made().certificate())
    assert final.id == block_id(head())
    assert final.slot == FIRST_SLOT + 2


def test_what_does_not_follow_from_the_genesis_hash() -> None:
    chain, runtime = made(), made().chain.runtime
    header, proof, keys = chain.genesis_header, chain.set_proof, list(GENESIS_KEYS)
    emptied = Trie({keys[0]: b"\0", keys[1]: bytes(32)})
    silent = Trie({b"other": b""})
    for wrong, sentence in (
        ((bytes(32), header, proof), "does not have the genesis hash"),
        ((chain.genesis, replace(header, state_root=bytes(32)), proof), "does not have the genesis hash"),
        ((block_id(head()), head(), proof), "is not block 0"),
        ((chain.genesis, header, proof[1:]), "incomplete"),
        ((chain.genesis, header, []), "incomplete"),
        ((*_block_zero(header, silent), silent.prove(keys)), "names no validators"),
        ((*_block_zero(header, emptied), emptied.prove(keys)), "1 to 128 members"),
    ):
        with pytest.raises((RefutedError, InvalidProof), match=sentence):
            trust_root(*wrong, runtime, DEVNET)


def test_what_kind_of_chain_it_is_follows_from_the_genesis_hash() -> None:
    """A development chain has looser rules. The first node's claim to be one was once believed."""
    chain, header = made(), made().genesis_header
    seats, sudo = GENESIS_KEYS
    live_trie = Trie({seats: chain.genesis_trie.get(seats) or b""})
    live, development = (runtime_for("devnet", is_development=kind) for kind in (False, True))
    true_live = (*_block_zero(header, live_trie), live_trie.prove([seats, sudo]))
    true_development = (chain.genesis, header, chain.set_proof)
    assert trust_root(*true_live, live, DEVNET).seats == chain.root().seats
    assert trust_root(*true_development, development, DEVNET) == chain.root()
    with pytest.raises(RefutedError, match="says that the chain is for development, which is live"):
        trust_root(*true_live, development, DEVNET)
    with pytest.raises(RefutedError, match="says that the chain is live, which is for development"):
        trust_root(*true_development, live, DEVNET)
    with pytest.raises(InvalidProof):
        trust_root(chain.genesis, header, chain.genesis_trie.prove([seats]), live, DEVNET)


def _block_zero(header: Header, trie: Trie) -> tuple[bytes, Header]:
    changed = replace(header, state_root=trie.root)
    return block_id(changed), changed


def test_what_does_not_make_a_header_final() -> None:
    chain, root, good = made(), made().root(), CERTIFICATE.decode(made().certificate())
    other = replace(good, ballot=replace(good.ballot, block=bytes(32)))
    strange = replace(root, block_zero=replace(root.block_zero, id=bytes(32)))
    notarised = certify(chain.chain, head().number, block_id(head()), BallotKind.NOTARISE)
    malformed = replace(head(), digest=head().digest[:-1])
    robbed = replace(root, seats=(replace(root.seats[0], session_key=bytes(32)),))
    table = (
        (root, head(), notarised, "does not make its block final"),
        (root, head(), CERTIFICATE.encode(other), "of another block"),
        (root, chain.blocks[0][0].header, chain.certificate(), "of another block"),
        (root, replace(head(), state_root=bytes(32)), chain.certificate(), "of another block"),
        (robbed, head(), chain.certificate(), "not signed"),
        (strange, head(), chain.certificate(), "not signed"),
        (root, head(), CERTIFICATE.encode(replace(good, signatures=(bytes(64),))), "not signed"),
        (root, head(), CERTIFICATE.encode(replace(good, ballot=replace(good.ballot, epoch=1))), "another epoch"),
        (root, head(), b"", "malformed"),
        (root, malformed, chain.certificate(), "malformed"),
        (root, head(), bytes(CERTIFICATE_BYTES_MAX + 1), "at most 16,384 bytes"),
    )
    for trusted, header, certificate, sentence in table:
        with pytest.raises(RefutedError, match=sentence):
            final_header(trusted, trusted.first_set, header, certificate)
    later = ValidatorSet(1, root.first_set.members)
    for epoch in (0, 1):
        of_epoch = CERTIFICATE.encode(replace(good, ballot=replace(good.ballot, epoch=epoch)))
        with pytest.raises(RefutedError, match="another epoch"):
            final_header(root, later, head(), of_epoch)


KEYS = ("number", "account", "absent")


@given(st.sampled_from(["header", "certificate", "proof"]), st.integers(0, 2**31), st.sampled_from(KEYS))
@settings(max_examples=4 * settings().max_examples, deadline=None)
def test_any_flipped_bit_is_refused_or_changes_nothing(part: str, place: int, named: str) -> None:
    """One flipped bit in a node's messages, anywhere: no false value is ever read."""
    chain = made()
    key = _keys()[named]
    header, certificate = HEADER.encode(head()), chain.certificate()
    proof = b"".join(chain.chain.trie.prove([key]))
    lengths = [len(node) for node in chain.chain.trie.prove([key])]
    parts = {"header": bytearray(header), "certificate": bytearray(certificate), "proof": bytearray(proof)}
    damaged = parts[part]
    damaged[place // 8 % len(damaged)] ^= 1 << place % 8
    try:
        final = final_header(
            chain.root(), chain.root().first_set, HEADER.decode(bytes(parts["header"])), bytes(parts["certificate"])
        )
        read = ProvedState(final.header.state_root, _cut(bytes(parts["proof"]), lengths)).get(key)
    except (RefutedError, InvalidProof, DecodeError):
        return
    assert final.id == block_id(head())
    assert read == chain.chain.state.get(key)


def _keys() -> dict[str, bytes]:
    chain = made()
    alice = chain.root().seats[0].stash
    return {
        "number": chain.key(System.number),
        "account": chain.key(System.account, alice),
        "absent": chain.key(System.account, blake2_256(b"nobody")),
    }


def _cut(data: bytes, lengths: list[int]) -> list[bytes]:
    cut = []
    for length in lengths:
        cut.append(data[:length])
        data = data[length:]
    return cut


def test_absence_is_proved_too() -> None:
    chain = made()
    proof = chain.chain.trie.prove([_keys()["absent"]])
    assert ProvedState(head().state_root, proof).get(_keys()["absent"]) is None


def test_an_old_head_is_said_and_a_future_one() -> None:
    final = final_header(made().root(), made().root().first_set, head(), made().certificate())
    at = final.slot * 1_000
    assert doubt_of_age(final, DEVNET, at) is None
    assert doubt_of_age(final, DEVNET, at + 11_000) is None
    assert "is 11 s old" in str(doubt_of_age(final, DEVNET, at + 11_001))
    assert doubt_of_age(final, DEVNET, at - 500) is None
    assert "in the future" in str(doubt_of_age(final, DEVNET, at - 501))
    idle = final.slot * 2_000 + 2_000 * 20
    assert doubt_of_age(final, MAINNET, idle) is None
    assert "is 40 s old" in str(doubt_of_age(final, MAINNET, idle + 1))
