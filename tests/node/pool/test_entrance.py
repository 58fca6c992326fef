"""The entrance of the pool: checks before a signature, the concurrent work, and the traces of a refusal."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from block_maker import Maker
from genesis import dev_accounts
from node.p2p.frames import FrameKind
from node.pool import entrance, transaction_pool, transaction_queue
from node.pool.arrivals import Arrival
from node.pool.bans import BANNED_LIMIT
from node.pool.refusal import PoolRefusalError, Refusal
from played_pool import running
from runtime.blocks.extrinsic import (
    Additional,
    Envelope,
    Extra,
    MultiSignature,
    encode_signed,
    payload_head,
    signing_payload,
)
from runtime.cryptography import signatures
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme
from runtime.encoding.codec import DecodeError
from runtime.encoding.scale import encode_compact
from runtime.frame.call import Call
from runtime.frame.errors import InvalidTransaction
from runtime.frame.runtime import Runtime
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from runtime.pallets.utility import Utility

PAY = Balances.transfer_keep_alive(dest=dev_accounts.stash("Bob"), value=1)
LETTER = System.remark(remark=bytes(3_000))
"""Its length, not its weight, determines its part of a block."""
LONG = Utility.batch(calls=(System.remark(remark=b"xx"),) * 1_000)


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the lengths of the decoded calls."""
    lengths: list[int] = []
    decode = Envelope.decode

    def note(envelope: Envelope, runtime: Runtime) -> object:
        lengths.append(len(envelope.call_bytes))
        return decode(envelope, runtime)

    monkeypatch.setattr(Envelope, "decode", note)
    return lengths


def forged(raw: bytes) -> bytes:
    """Return the extrinsic with another signature."""
    start = 2 + len(encode_compact(len(raw))) + 33
    return raw[:start] + bytes(byte ^ 1 for byte in raw[start : start + 8]) + raw[start + 8 :]


def signed_bytes(maker: Maker, call_bytes: bytes, nonce: int = 0) -> bytes:
    """Return Alice's signature over any bytes in the place of a call."""
    seed = dev_accounts.key_seed("Alice", dev_accounts.PROVIDER)
    public, secret = signatures.keypair_from_seed(Scheme.ED25519, seed)
    runtime, extra = maker.chain.runtime, Extra(nonce=nonce)
    proper = payload_head(runtime, PAY, extra)
    head = call_bytes + proper[len(runtime.call_codec.encode(PAY)) :]
    version, genesis = runtime.version, maker.chain.genesis
    payload = signing_payload(head, Additional(version.spec_version, version.transaction_version, genesis, genesis))
    signature = MultiSignature(Scheme.ED25519, signatures.sign(Scheme.ED25519, public, secret, payload))
    whole = encode_signed(runtime, PAY, extra, public, signature)
    body = whole[len(encode_compact(len(whole))) :].removesuffix(runtime.call_codec.encode(PAY)) + call_bytes
    return encode_compact(len(body)) + body


def signed_by_nobody(maker: Maker, call: Call) -> bytes:
    """Return a call signed by an account without money."""
    signature = MultiSignature(Scheme.ED25519, bytes(64))
    return encode_signed(maker.chain.runtime, call, Extra(), b"n" * 32, signature)


@pytest.mark.trio
async def test_no_call_is_decoded_before_signer_fee_nonce_and_signature_are_good(
    maker: Maker, decoded: list[int]
) -> None:
    async with running(maker) as played:
        first = maker.transfer(PAY, 0)
        await played.pool.submit(first)
        block = maker.make(None, first)
        decoded.clear()
        played.pool.on_tip(block.facts.id)
        bad = [forged(maker.transfer(LONG, 1)), signed_by_nobody(maker, LONG), maker.transfer(LONG, 0)]
        outcomes = await played.pool.submit_many(bad)
        assert [outcome.data for outcome in outcomes if isinstance(outcome, Refusal)] == [
            "bad_proof", "payment", "stale"
        ]  # fmt: skip
        assert decoded == []
        assert await played.pool.submit_many([maker.transfer(LONG, 1)]) == [blake2_256(maker.transfer(LONG, 1))]
        assert decoded == [len(maker.chain.runtime.call_codec.encode(LONG))]


@pytest.mark.trio
async def test_a_replacement_without_a_chance_is_refused_before_its_signature_is_checked(
    maker: Maker, decoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(maker) as played:
        await played.pool.submit(maker.transfer(LETTER, 0, tip=100))
        decoded.clear()
        monkeypatch.setattr(played.verifier, "begin", None)  # no signature may be checked
        (outcome,) = await played.pool.submit_many([maker.transfer(LETTER, 0, tip=105)])
        assert isinstance(outcome, Refusal)
        assert outcome.code == 1014
        assert decoded == []


@pytest.mark.trio
async def test_who_signs_a_long_call_that_is_none_is_believed_no_more_for_a_while(
    maker: Maker, decoded: list[int]
) -> None:
    async with running(maker) as played:
        junk = [signed_bytes(maker, bytes([0xFF, number]) * 4_000) for number in range(2)]
        outcomes = await played.pool.submit_many(junk)
        assert [outcome.code for outcome in outcomes if isinstance(outcome, Refusal)] == [1001, 1012]
        assert len(decoded) == 1


@pytest.mark.trio
async def test_a_long_replacement_that_pays_too_little_is_decoded_once(maker: Maker, decoded: list[int]) -> None:
    async with running(maker) as played:
        await played.pool.submit(maker.transfer(LONG, 0, tip=100))
        decoded.clear()
        outcomes = await played.pool.submit_many([maker.transfer(LONG, 0, tip=tip) for tip in range(101, 106)])
        codes = [outcome.code for outcome in outcomes if isinstance(outcome, Refusal)]
        assert codes == [1014, *[1012] * 4]
        assert len(decoded) == 1


class CountingExaminer:
    """Takes `cost` seconds for each, of a clock that moves only then."""

    def __init__(self, cost: float) -> None:
        self.now = 0.0
        self.cost = cost
        self.looked_at: list[bytes] = []

    def seconds(self) -> float:
        return self.now

    def check_outside(self, arrival: Arrival) -> entrance.Vetted:
        self.now += self.cost
        self.looked_at.append(arrival.raw)
        raise PoolRefusalError(1001, "Extrinsic has invalid format", "")

    def enter(self, checked: entrance.Vetted, *, is_signed: bool) -> None:
        raise AssertionError("what was refused outside never enters")


def test_a_turn_is_bounded_in_time_not_in_number() -> None:
    for cost, most in ((0.001, 4), (0.003, 2), (0.020, 1), (0.00002, 200)):
        judge = CountingExaminer(cost)
        door = entrance.Entrance(judge, None, lambda *_: None, judge.seconds)  # type: ignore[arg-type]  # never asked
        for number in range(600):
            door.arrivals.offer(Arrival(b"%d" % number, str(number % 7), b"%d" % number))
        door._one_turn()
        assert most <= len(judge.looked_at) <= most + 1


def test_a_peer_that_sends_rubbish_is_blamed_and_then_not_looked_at() -> None:
    judge = CountingExaminer(0.001)
    blamed: list[str] = []
    door = entrance.Entrance(judge, None, lambda peer, _: blamed.append(peer), judge.seconds)  # type: ignore[arg-type]  # never asked
    taken = 0
    for number in range(1_000):
        taken += door.offer(b"%d" % number, "bad", b"%d" % number)
        door._one_turn()
    assert taken == len(judge.looked_at) < 60
    assert set(blamed) == {"bad"}
    assert len(blamed) == taken // 8
    assert door.offer(b"other", "good", b"other")


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.freeze()  # skip the objects of other tests
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


def leftovers() -> list[object]:
    kinds = (PoolRefusalError, DecodeError, InvalidTransaction)
    return [each for each in gc.get_objects() if isinstance(each, kinds)]


@pytest.mark.trio
async def test_what_was_refused_leaves_nothing_for_the_collector(maker: Maker, no_collector: None) -> None:
    async with running(maker) as played:
        await played.pool.submit(maker.transfer(PAY, 0))
        bad = [
            b"nonsense" * 1_000,
            forged(maker.transfer(LONG, 1)),
            signed_by_nobody(maker, LONG),
            signed_bytes(maker, b"\xff\xff" * 4_000),
            maker.transfer(LONG, 0),
        ]
        for raw in bad:
            with pytest.raises(PoolRefusalError):
                await played.pool.submit(raw)
            played.pool.on_gossip(FrameKind.TX, raw[:-1] + b"\0", "peer")
            await played.settled()
        del raw
        assert leftovers() == []
        held = [sys.getrefcount(bad[number]) for number in range(len(bad))]
        assert set(held) == {2}, "the list's and the call's"


@pytest.mark.trio
async def test_only_what_is_ready_is_passed_on_and_a_nonce_is_replaced_a_few_times(maker: Maker) -> None:
    async with running(maker) as played:
        pool = played.pool
        waiting = [maker.transfer(PAY, 1, tip=tip) for tip in (1_000, 2_000, 4_000)]
        await pool.submit_many(waiting)
        assert played.told("peer") == []
        first = maker.transfer(PAY, 0)
        await pool.submit_many([first])
        assert played.told("peer") == [first, waiting[-1]]
        ladder = [maker.transfer(PAY, 1, tip=4_000 * 2**step) for step in range(1, 12)]
        outcomes = await pool.submit_many(ladder)
        refused = [outcome for outcome in outcomes if isinstance(outcome, Refusal)]
        assert (len(refused), {outcome.code for outcome in refused}) == (5, {1014})
        assert played.told("peer") == [first, waiting[-1], *ladder[:6]]


@pytest.mark.trio
async def test_a_peer_passes_on_nothing_twice_and_a_ready_one_is_not_sent_back(maker: Maker) -> None:
    async with running(maker) as played:
        raw = maker.transfer(PAY, 0)
        for _ in range(3):
            played.pool.on_gossip(FrameKind.TX, raw, "peer")
            await played.settled()
        assert (played.told("peer"), played.told("other")) == ([], [raw])


@pytest.mark.trio
async def test_the_tip_may_move_while_a_signature_is_checked(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(maker) as played:
        first, second = maker.transfer(PAY, 0), maker.transfer(PAY, 1)
        block = maker.make(None, first)
        checked = [played.pool.check_outside(played.arrival(raw)) for raw in (first, second)]
        played.pool.on_tip(block.facts.id)
        monkeypatch.delattr(transaction_pool, "open_envelope")  # judged again, by its account, and not decoded again
        with pytest.raises(PoolRefusalError, match="stale"):
            played.pool.enter(checked[0], is_signed=True)
        played.pool.enter(checked[1], is_signed=True)
        assert played.pool.queue.ready_count == 1


@pytest.mark.trio
async def test_a_signature_for_the_fork_that_was_left_is_none_on_the_new_one(maker: Maker) -> None:
    async with running(maker) as played:
        checked = played.pool.check_outside(played.arrival(maker.transfer(PAY, 0)))
        played.pool.on_tip(maker.make().facts.id)
        elsewhere = checked._replace(claim=checked.claim._replace(payload=b"with another block of birth"))
        with pytest.raises(PoolRefusalError, match="another fork"):
            played.pool.enter(elsewhere, is_signed=True)


@pytest.mark.trio
async def test_a_long_one_that_waits_for_a_nonce_is_not_decoded(maker: Maker, decoded: list[int]) -> None:
    """It may never pay. 2.8 MB of such took 3.3 s of the node, from any account with a few oGPU."""
    async with running(maker) as played:
        ahead = maker.transfer(LONG, 2)
        played.pool.on_gossip(FrameKind.TX, ahead, "peer")
        await played.settled()
        (outcome,) = await played.pool.submit_many([ahead])
        assert isinstance(outcome, Refusal)
        assert "lower nonce" in str(outcome.data)
        assert decoded == []
        in_order = [maker.transfer(LONG, nonce) for nonce in range(3)]
        assert await played.pool.submit_many(in_order) == list(map(blake2_256, in_order)), "each is ready in its turn"
        short = maker.transfer(PAY, 9)
        assert await played.pool.submit_many([short]) == [blake2_256(short)]
        assert not played.transport.banned


@pytest.mark.trio
async def test_refused_extrinsics_however_many_end_no_ban_of_a_signer(maker: Maker, decoded: list[int]) -> None:
    async with running(maker) as played:
        junk = [signed_bytes(maker, bytes([0xFF, number]) * 4_000) for number in range(2)]
        await played.pool.submit_many(junk[:1])
        for number in range(BANNED_LIMIT + 1):
            played.pool.queue.ban(number.to_bytes(32, "big"), played.pool._now_seconds())
        (outcome,) = await played.pool.submit_many(junk[1:])
        assert isinstance(outcome, Refusal)
        assert outcome.code == 1012
        assert len(decoded) == 1


@pytest.mark.trio
async def test_who_hands_in_what_somebody_else_signed_has_nobody_banned(
    maker: Maker, decoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signature is valid for any sender. The signer was banned for two minutes on every connection."""
    async with running(maker) as played:
        monkeypatch.setattr(transaction_queue, "READY_LIMIT", 1)
        await played.pool.submit(maker.transfer(PAY, 0, tip=100))
        decoded.clear()
        old = maker.transfer(LONG, 1)
        for _ in range(3):
            played.pool.on_gossip(FrameKind.TX, old, "peer")
            await played.settled()
        assert len(decoded) == 1, "a second time it costs a look-up"
        monkeypatch.undo()
        own = maker.transfer(LONG, 1, tip=1)
        assert await played.pool.submit(own) == blake2_256(own)


@pytest.mark.trio
async def test_a_long_one_that_fell_out_of_a_full_pool_is_decoded_once_and_its_signer_is_heard(
    maker: Maker, decoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(maker) as played:
        await played.pool.submit(maker.transfer(PAY, 0))
        long = maker.transfer(LONG, 1)
        await played.pool.submit(long)
        monkeypatch.setattr(transaction_queue, "READY_LIMIT", 1)
        await played.pool.submit(maker.transfer(PAY, 0, tip=1_000))  # one too many: the last nonce leaves
        assert (blake2_256(long), "dropped") in {(name, status) for name, status, _ in played.statuses}
        monkeypatch.undo()
        decoded.clear()
        (repeated,) = await played.pool.submit_many([long])
        assert isinstance(repeated, Refusal)
        assert (repeated.code, decoded) == (1012, [])
        other = maker.transfer(PAY, 1)
        assert await played.pool.submit(other) == blake2_256(other)
