"""Blocks before their execution: early checks give the results of execution."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import trio

from block_maker import Maker, as_bytes
from genesis import dev_accounts
from node.ledger.chain import Foreseen, ProvenBlock
from node.pool import transaction_pool
from node.pool.transaction_pool import foresee
from node.pool.verifier import Claim, Verdicts, Verifier
from node.sync.sync import read_body, read_waiting
from played_pool import running
from runtime.blocks.extrinsic import Authorization, decode_extrinsic, open_envelope
from runtime.cryptography import signatures
from runtime.encoding.codec import DecodeError
from runtime.frame.errors import InvalidBlock, InvalidReason, InvalidTransaction
from runtime.pallets.balances import Balances

PAY = Balances.transfer_keep_alive(dest=dev_accounts.stash("Bob"), value=1)


class Answered(Verifier):
    """A verifier whose workers answer at once: all valid, or unknown."""

    def __init__(self, *, valid: bool) -> None:
        super().__init__()
        self.answer = valid
        self.asked: list[Claim] = []

    def foresee(self, claims: object) -> Verdicts:
        """Record the questions."""
        assert isinstance(claims, list)
        self.asked += claims
        return Verdicts([self.answer] * len(claims))


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


def proven(maker: Maker, *raws: bytes) -> tuple[ProvenBlock, bytes]:
    """Return a block with these extrinsics that another node has not seen."""
    executed = maker.make(None, *raws)
    return read_body(read_waiting(as_bytes(executed), b"peer")), executed.facts.id


def payload_of(maker: Maker, who: Authorization) -> bytes:
    genesis, version = maker.chain.genesis, maker.chain.runtime.version
    tail = version.spec_version.to_bytes(4, "little") + version.transaction_version.to_bytes(4, "little")
    return who.payload_with(tail + genesis + genesis + b"\0")


def foreseen_of(maker: Maker, block: ProvenBlock, verifier: Verifier) -> Foreseen:
    return foresee(block.block.extrinsics, lambda who: payload_of(maker, who), verifier)


def test_what_was_found_valid_is_not_checked_again(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    block, _ = proven(maker, maker.transfer(PAY, 0), maker.transfer(PAY, 1))
    verifier = Answered(valid=True)
    foreseen = foreseen_of(maker, block, verifier)
    monkeypatch.setattr(signatures, "verify", None)  # no check in this process
    assert len(verifier.asked) == 2
    assert all(foreseen.verify(*claim) for claim in verifier.asked)


@pytest.mark.parametrize("valid", [True, False])
def test_a_verdict_is_for_its_message_alone(maker: Maker, valid: bool) -> None:
    block, _ = proven(maker, maker.transfer(PAY, 0))
    verifier = Answered(valid=valid)
    foreseen = foreseen_of(maker, block, verifier)
    (claim,) = verifier.asked
    assert foreseen.verify(*claim)  # known, or checked here and now
    for wrong in (claim._replace(payload=claim.payload + b"x"), claim._replace(signer=bytes(31) + b"\1")):
        assert not foreseen.verify(*wrong)


def test_what_is_decoded_ahead_is_what_is_decoded_later(maker: Maker) -> None:
    block, _ = proven(maker, maker.transfer(PAY, 0))
    foreseen, runtime = foreseen_of(maker, block, Answered(valid=True)), maker.chain.runtime
    for raw in block.block.extrinsics:
        assert foreseen.decode(runtime, raw) == decode_extrinsic(runtime, raw)
    with pytest.raises(DecodeError):
        foreseen.decode(runtime, b"junk")


@pytest.mark.trio
async def test_signatures_of_a_block_that_will_come_are_known_when_it_comes(
    maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(maker) as played:
        good, other = maker.transfer(PAY, 0), maker.transfer(PAY, 1)
        forged = bytearray(maker.transfer(PAY, 2))
        forged[40] ^= 1
        foreseen = played.pool.foresee([good, other, b"junk", bytes(forged)])
        assert foreseen is not None
        await played.verifier.prepare([])
        known = []
        for raw in (good, other, bytes(forged)):
            who = open_envelope(raw).authorization
            payload = played.pool._validator.payload(who)
            known.append((who.signature.scheme, who.signer, payload, who.signature.signature))
        with monkeypatch.context() as patched, trio.fail_after(30):
            patched.setattr(signatures, "verify", lambda *_: False)  # the verdict of this process
            while not (foreseen.verify(*known[0]) and foreseen.verify(*known[1])):
                await trio.sleep(0.001)
        assert not foreseen.verify(*known[2])
        assert not played.verifier._known_verdicts  # a guess pushes nothing out that the pool knows


def test_a_body_that_was_proven_is_executed_by_all_other_rules(maker: Maker) -> None:
    block, block_id = proven(maker, maker.transfer(PAY, 0))
    made = maker.chain[block_id]
    header = replace(block.block.header, state_root=bytes(32))
    lying = replace(block, block=replace(block.block, header=header))
    foreseen = foreseen_of(maker, block, Answered(valid=True))
    with pytest.raises(InvalidBlock, match="state root"):
        maker.chain.execute(lying, made.facts, foreseen)
    maker.chain.execute(block, made.facts, foreseen)
    again = maker.chain[block_id]
    assert (again.stored, again.trie.root, again.extrinsics) == (made.stored, made.trie.root, made.extrinsics)


def test_an_extrinsic_of_an_unknown_birth_or_none_at_all_leaves_the_others_foreseen(
    maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    unborn, good = maker.transfer(PAY, 0), maker.transfer(PAY, 1)
    verifier, signature = Answered(valid=True), open_envelope(unborn).authorization.signature

    def payload(who: Authorization) -> bytes:
        if who.signature == signature:
            raise InvalidTransaction(InvalidReason.ANCIENT_BIRTH_BLOCK)
        return payload_of(maker, who)

    foreseen = foresee([b"junk", unborn, good], payload, verifier)
    assert [claim.signature for claim in verifier.asked] == [open_envelope(good).authorization.signature.signature]
    expected = decode_extrinsic(maker.chain.runtime, good)
    monkeypatch.setattr(transaction_pool, "decode_extrinsic", None)  # its outside is decoded once
    assert foreseen.decode(maker.chain.runtime, good) == expected


def test_a_copy_under_the_same_signature_takes_no_verdict_from_the_message_that_was_signed(maker: Maker) -> None:
    good = maker.transfer(PAY, 0)
    verifier = Answered(valid=True)
    foreseen = foresee([good, good[:-1] + bytes([good[-1] ^ 1])], lambda who: payload_of(maker, who), verifier)
    signed, copied = verifier.asked
    assert signed.signature == copied.signature
    assert signed.payload != copied.payload
    assert foreseen.verify(*signed)
