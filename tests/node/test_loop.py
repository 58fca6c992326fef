"""The loop with the real machine, chain and disk. The network and its peers are scripted."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
import trio.testing

import node.loop
import node.sync.sync
from block_maker import Maker, as_block, as_bytes, open_at
from consensus import events as ev
from consensus.signstate import EMPTY
from consensus.wire import MESSAGE, Certified, NeedCerts, Vote
from handed_history import handed_on
from loop_stage import Stage, about_to_import
from node.clock import Clock
from node.config import Paths
from node.duty.duty import ValidatorDuty
from node.duty.key_watch import KeyWatch
from node.duty.seat_watch import SeatWatch
from node.duty.signing_key import SigningKey
from node.duty.signstate_file import SignStateFile
from node.duty.validator_keys import ValidatorKeys
from node.errors import NodeError
from node.ledger.chain import ExecutedBlock, Foreseen
from node.loop import OWN_VOTES_BURST, TURN_SECONDS
from node.p2p.frames import FrameKind
from node.p2p.inbox import InboxMessage as Arrived
from node.peers.messages import GET_HANDOFFS, HANDOFFS, STATUS, GetHandoffs, PeerStatus, encode_answer
from node.peers.peers import Peers
from node.pool.verifier import Verdicts
from played_transport import PlayedTransport
from runtime.blocks.extrinsic import decode_extrinsic
from runtime.blocks.votes import Ballot, BallotKind, SignedBallot, ballot_payload
from runtime.cryptography import signatures
from runtime.cryptography.signatures import Scheme


def duty_of(maker: Maker, paths: Paths) -> ValidatorDuty:
    watch = KeyWatch(maker.validator, maker.chain, paths, Peers(PlayedTransport()), PlayedTransport.peer_id)
    seats = SeatWatch(maker.validator, maker.chain, paths, Clock())
    return ValidatorDuty(keys=maker.validator, author=maker.author, key_watch=watch, seat_watch=seats)


@pytest.fixture
def alice(tmp_path: Path) -> Stage:
    maker = Maker(tmp_path / "alice")
    return Stage(maker.chain, duty_of(maker, Paths(tmp_path / "alice", "dev")), tmp_path)


def keys_of(stage: Stage) -> ValidatorKeys:
    assert stage.loop.duty is not None
    return stage.loop.duty.keys


def key_of(stage: Stage) -> SigningKey:
    (key,) = keys_of(stage).sessions.values()
    return key


def file_of(stage: Stage) -> SignStateFile:
    file = key_of(stage).file
    assert file is not None
    return file


def test_alone_it_makes_and_finalises_blocks_and_records_what_it_signs(alice: Stage) -> None:
    alice.pass_seconds(5)
    assert alice.chain.final.facts.height >= 3
    assert [block.facts.height for block in alice.heard.final] == list(range(1, alice.chain.final.facts.height + 1))
    file = file_of(alice)
    assert file.final_height == alice.chain.final.facts.height
    assert file.state.header.slot == alice.heard.imported[-1].facts.slot
    assert sum(kind is FrameKind.BLOCK for _, kind, _ in alice.transport.sent) == len(alice.heard.imported)


def test_a_block_is_on_the_disk_before_the_vote_for_it_is_signed(alice: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    validator = keys_of(alice)
    sign, seen = validator.sign_vote, []

    def watched(record: object) -> bytes:
        if isinstance(record, Ballot) and record.kind is BallotKind.NOTARISE:
            kept = {block.block_id for block in alice.chain.storage.pending()}
            seen.append(record.block in kept or alice.chain.storage.header(record.block) is not None)
        return sign(record)  # type: ignore[arg-type]

    monkeypatch.setattr(validator, "sign_vote", watched)
    alice.pass_seconds(4)
    assert len(seen) >= 3
    assert all(seen)


def test_a_rolled_back_database_signs_nothing_until_it_is_there_again(alice: Stage) -> None:
    file = file_of(alice)
    file.final_height = 100
    before, made = file.state, len(alice.heard.imported)
    alice.pass_seconds(3)
    assert len(alice.heard.imported) == made
    assert file.state == before


def test_a_second_machine_with_this_key_silences_this_one(alice: Stage) -> None:
    alice.pass_seconds(2)
    validator = key_of(alice)
    ballot = Ballot(BallotKind.SKIP, 0, 1_000, 0, bytes(32))
    payload = ballot_payload(alice.chain.genesis, ballot)
    pair = validator.pair
    forged = Vote(SignedBallot(ballot, pair.public, bytes(64)), None)
    alice.hear(FrameKind.VOTE, MESSAGE.encode(forged))
    assert not validator.is_copied
    signature = signatures.sign(Scheme.ED25519, pair.public, pair.secret, payload)
    alice.hear(FrameKind.VOTE, MESSAGE.encode(Vote(SignedBallot(ballot, pair.public, signature), None)))
    assert validator.is_copied
    before = len(alice.heard.imported)
    alice.pass_seconds(3)
    assert len(alice.heard.imported) == before


def vote_of(key: SigningKey, stage: Stage, round_: int) -> bytes:
    """A vote with the key's good signature."""
    ballot = Ballot(BallotKind.SKIP, 0, round_, 0, bytes(32))
    payload = ballot_payload(stage.chain.genesis, ballot)
    signature = signatures.sign(Scheme.ED25519, key.pair.public, key.pair.secret, payload)
    return MESSAGE.encode(Vote(SignedBallot(ballot, key.pair.public, signature), None))


@pytest.mark.parametrize("has_begun", [False, True])
def test_an_old_vote_that_a_stranger_replays_is_no_alarm_to_a_key_without_a_past(
    tmp_path: Path, *, has_begun: bool
) -> None:
    """The key has no sign-state and listens, or its new one remembers no vote."""
    maker, paths = Maker(tmp_path / "alice"), Paths(tmp_path / "alice", "dev")
    block = maker.make()
    maker.chain.finalise((block.facts.id,), maker.certify(block, round_=5))
    maker.key.file, maker.key.is_listening = None, True
    duty = duty_of(maker, paths)
    stage = Stage(maker.chain, duty, tmp_path)
    stage.clock.set_ms = block.facts.slot * 1_000
    watch = SeatWatch(maker.validator, maker.chain, paths, stage.clock)
    stage.hear(FrameKind.VOTE, vote_of(maker.key, stage, 6))
    assert not maker.key.is_copied, "what is open at the start may be its own"
    watch.listen(has_peers=True)
    while maker.key.heard_since is None or (has_begun and maker.key.file is None):
        stage.clock.set_ms += 1_000
        watch.listen(has_peers=True)
    stage.hear(FrameKind.VOTE, vote_of(maker.key, stage, 5))
    assert not maker.key.is_copied
    stage.hear(FrameKind.VOTE, vote_of(maker.key, stage, 6))
    assert maker.key.is_copied, "another machine signs with it"


def hear_block(stage: Stage, block: ExecutedBlock) -> None:
    """Let a peer announce a block, and import it."""
    stage.hear(FrameKind.BLOCK, as_bytes(block))
    while stage.sync.has_work:
        stage.loop._import_next()


def test_a_block_that_another_machine_seals_with_this_key_silences_this_one(alice: Stage, tmp_path: Path) -> None:
    alice.pass_seconds(2)
    twin = Maker(tmp_path / "twin")
    for block in alice.heard.imported:
        twin.chain.import_block(as_block(block), alice.clock.now_ms())
    tip = alice.heard.imported[-1].facts
    twin.slot, alice.clock.set_ms = tip.slot, alice.clock.set_ms + alice.chain.parameters.slot_ms
    block = twin.make(tip.id)
    hear_block(alice, block)
    assert block.facts.id in alice.chain
    assert key_of(alice).is_copied
    before = file_of(alice).state
    alice.pass_seconds(3)
    assert file_of(alice).state == before, "it signs nothing more"


def test_own_blocks_of_a_past_that_its_sign_state_forgot_are_no_alarm(tmp_path: Path) -> None:
    """A node that lost database and sign-states reads old blocks sealed by its own key."""
    past, blocks = Maker(tmp_path / "past"), list[ExecutedBlock]()
    for _ in range(3):
        blocks.append(past.make(blocks[-1].facts.id if blocks else None))
    maker, paths = Maker(tmp_path / "alice"), Paths(tmp_path / "alice", "dev")
    stage = Stage(maker.chain, duty_of(maker, paths), tmp_path)
    file_of(stage).state = EMPTY  # it sealed a block at once
    for block in blocks:
        hear_block(stage, block)
    assert all(block.facts.id in stage.chain for block in blocks)
    assert not key_of(stage).is_copied


def test_its_own_block_that_comes_back_is_no_alarm(alice: Stage) -> None:
    alice.pass_seconds(3)
    for block in list(alice.heard.imported):
        hear_block(alice, block)
    assert not key_of(alice).is_copied


def forged_own_votes(stage: Stage) -> list[bytes]:
    """Return different votes with the node's own key, without valid signatures."""
    votes = []
    for number in range(100):
        ballot = Ballot(BallotKind.SKIP, 0, 1_000 + number, 0, bytes(32))
        votes.append(MESSAGE.encode(Vote(SignedBallot(ballot, key_of(stage).pair.public, bytes(64)), None)))
    return votes


def test_n7_votes_in_our_own_name_are_checked_a_few_times_for_each_peer_and_cost_it(
    alice: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice.pass_seconds(2)
    checked: list[SignedBallot] = []

    def is_genuine(vote: SignedBallot) -> bool:
        checked.append(vote)
        return False

    monkeypatch.setattr(alice.loop, "_is_genuine", is_genuine)
    for payload in forged_own_votes(alice):
        alice.hear(FrameKind.VOTE, payload)
    assert len(checked) == OWN_VOTES_BURST
    assert alice.peers.penalties == OWN_VOTES_BURST
    for _, kind, payload in list(alice.transport.sent):
        if kind is FrameKind.VOTE:
            alice.hear(kind, payload, "other")
    assert len(checked) == OWN_VOTES_BURST, "what this node signed itself is known without a check"


def test_c1_the_cpu_that_a_message_takes_is_measured_and_charged_to_its_peer(
    alice: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged: list[tuple[str, float]] = []
    box = alice.transport.inbound
    monkeypatch.setattr(box, "charge", lambda message, seconds: charged.append((message.peer, seconds)))
    times = iter((1.0, 1.25))
    monkeypatch.setattr(node.loop, "thread_time", lambda: next(times))
    assert alice.loop._serve_message(Arrived("dear", FrameKind.STATUS, bytes(3))) == 0.25
    assert charged == [("dear", 0.25)]


@pytest.mark.trio
async def test_c1_a_turn_ends_after_its_time_and_a_block_that_waits_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, block = about_to_import(tmp_path)
    served: list[str] = []

    def dear(arrived: Arrived) -> float:
        served.append(arrived.peer)
        return TURN_SECONDS

    monkeypatch.setattr(stage.loop, "_serve_message", dear)
    for number in range(50):
        await stage.transport.inbound.put(Arrived(f"peer{number}", FrameKind.VOTE, b""))
    with trio.move_on_after(5) as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.loop.run)
            while block.facts.id not in stage.chain:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert not scope.cancelled_caught
    assert len(served) <= 2, "the block did not wait for all of the messages"


@pytest.mark.trio
async def test_the_others_have_a_turn_between_what_is_seen_ahead_and_the_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = Maker(tmp_path / "maker")
    stage = Stage(open_at(tmp_path / "other"), None, tmp_path)
    blocks = [maker.make()]
    blocks.append(maker.make(blocks[0].facts.id))
    stage.sync.fetch(blocks[-1].facts.id, b"peer", 0)
    stage.sync.on_answer(encode_answer(block.stored.header + block.stored.body for block in blocks), b"peer")
    seen = trio.Event()
    fed: list[bool] = []
    monkeypatch.setattr(stage.sync, "_foresee_block", lambda _: seen.set())

    async def worker() -> None:
        await seen.wait()
        fed.append(blocks[0].facts.id not in stage.chain)
        stage.loop.peer_down("peer")  # and its messages are dropped with it, though they were examined

    with trio.move_on_after(5) as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(worker)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(stage.loop.run)
            while not fed:
                await trio.lowlevel.checkpoint()
            for _ in range(5):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert not scope.cancelled_caught
    assert fed == [True], "the worker begins before the import, not after it"
    assert not stage.sync.has_work


@pytest.mark.trio
async def test_a_block_waits_for_the_worker_that_has_its_signatures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = Maker(tmp_path / "maker").make()
    stage = Stage(open_at(tmp_path / "other"), None, tmp_path)
    verdicts = Verdicts([False], 1)
    monkeypatch.setattr(stage.sync, "_foresee_block", lambda _: Foreseen(signatures.verify, decode_extrinsic, verdicts))
    monkeypatch.setattr(node.sync.sync, "WAITS_MAX", 10**9)
    stage.sync.fetch(block.facts.id, b"peer", 0)
    stage.sync.on_answer(encode_answer([block.stored.header + block.stored.body]), b"peer")
    with trio.move_on_after(5) as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.loop.run)
            for _ in range(500):
                await trio.lowlevel.checkpoint()
            assert stage.sync.has_work
            assert block.facts.id not in stage.chain
            verdicts.note([(0, True)])
            while block.facts.id not in stage.chain:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert not scope.cancelled_caught


def test_own_votes_that_come_back_are_no_alarm(alice: Stage) -> None:
    alice.pass_seconds(2)
    for _, kind, payload in list(alice.transport.sent):
        if kind is FrameKind.VOTE:
            alice.hear(kind, payload)
    assert not key_of(alice).is_copied


def test_a_final_block_that_this_node_cannot_execute_stops_it(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "maker")
    block = maker.make()
    stage = Stage(open_at(tmp_path / "other"), None, tmp_path)
    stage.sync.faulty[block.facts.id] = None
    certificate = maker.certify(block)
    forged = MESSAGE.encode(Certified((type(certificate)(1, certificate.ballot, certificate.signers, (bytes(64),)),)))
    stage.hear(FrameKind.CERT, forged)
    with pytest.raises(NodeError, match="fails to execute"):
        stage.hear(FrameKind.CERT, MESSAGE.encode(Certified((certificate,))))


def test_malformed_messages_change_nothing(alice: Stage) -> None:
    alice.pass_seconds(2)
    before = alice.chain.final.facts
    for kind in FrameKind:
        for payload in (b"", b"\0", b"\xff" * 40, secrets.token_bytes(300)):
            alice.hear(kind, payload)
    assert alice.chain.final.facts == before
    alice.pass_seconds(2)
    assert alice.chain.final.facts.height > before.height


def test_what_no_honest_peer_sends_costs_its_peer(alice: Stage) -> None:
    alice.loop.peer_up("peer", ())
    alice.hear(FrameKind.STATUS, b"\xff" * 3)
    assert alice.peers.penalties == 1, "found by the decoder"
    stranger = SignedBallot(Ballot(BallotKind.SKIP, 0, 1, 0, bytes(32)), b"s" * 32, bytes(64))
    alice.hear(FrameKind.VOTE, MESSAGE.encode(Vote(stranger, None)))
    assert alice.peers.penalties == 2, "found by consensus"


def test_a_new_peer_is_told_where_this_node_stands(alice: Stage) -> None:
    alice.transport.sent.clear()
    alice.loop.peer_up("peer", ())
    kinds = [kind for _, kind, _ in alice.transport.sent]
    assert FrameKind.STATUS in kinds
    assert isinstance(
        MESSAGE.decode(next(p for _, k, p in alice.transport.sent if k is FrameKind.GET_CERTS)), NeedCerts
    )
    alice.loop.peer_down("peer")


def deliver(sender: Stage, receiver: Stage, sender_name: str, receiver_name: str) -> int:
    """Carry one node's messages to the other. Return their number."""
    sent, sender.transport.sent = sender.transport.sent, []
    for peer, kind, payload in sent:
        if peer == receiver_name:
            receiver.hear(kind, payload, sender_name)
            while receiver.sync.has_work:
                receiver.loop._import_next()
    return len(sent)


def test_a_node_that_was_down_for_epochs_comes_to_the_same_state(alice: Stage, tmp_path: Path) -> None:
    alice.transport.connected = []
    alice.pass_seconds(150)
    late = Stage(open_at(tmp_path / "late"), None, tmp_path)
    late.clock.set_ms = alice.clock.set_ms
    alice.transport.connected, late.transport.connected = ["late"], ["alice"]
    alice.loop.peer_up("late", ())
    late.loop.peer_up("alice", (key_of(alice).pair.public,))
    for _ in range(200):
        alice.pass_seconds(0.1)
        late.pass_seconds(0.1)
        deliver(alice, late, "alice", "late")
        deliver(late, alice, "late", "alice")
        if late.chain.final.facts == alice.chain.final.facts:
            break
    assert late.chain.final.facts == alice.chain.final.facts
    assert late.chain.final.facts.height > 2 * alice.chain.parameters.epoch_blocks
    assert dict(late.chain.storage.items()) == dict(alice.chain.storage.items())
    assert late.sync.rejected == late.sync.abstained == alice.peers.penalties == 0


def test_a_fault_of_ours_while_building_costs_the_slot_and_not_the_node(
    alice: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert alice.loop.duty is not None
    author = alice.loop.duty.author
    build, slots = author.build, []

    def faulty(request: ev.Build) -> ev.BlockFacts | None:
        slots.append(request.slot)
        if len(slots) < 3:
            raise RuntimeError("a hook of the runtime is broken")
        return build(request)

    monkeypatch.setattr(author, "build", faulty)
    alice.pass_seconds(6)
    assert len(set(slots)) == len(slots) > 3
    assert alice.chain.final.facts.height >= 1


@pytest.mark.trio
async def test_garbage_is_looked_for_where_nothing_is_to_be_done_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, block = about_to_import(tmp_path)
    rested: list[bool] = []
    monkeypatch.setattr(stage.loop._collector, "rest", lambda _: rested.append(block.facts.id in stage.chain))
    with trio.move_on_after(5) as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.loop.run)
            while not rested:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert not scope.cancelled_caught
    assert rested == [True], "after the block that waited, once"


@pytest.mark.trio
async def test_handoffs_are_served_and_followed_one_at_a_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question of a peer, and its answer to one of ours, through the loop itself."""
    stage = Stage(open_at(tmp_path / "other"), None, tmp_path)
    stage.hear(FrameKind.GET_HANDOFFS, GET_HANDOFFS.encode(GetHandoffs(0, 16)))
    assert stage.transport.sent[-1] == ("peer", FrameKind.HANDOFFS, HANDOFFS.encode(()))
    first = stage.chain.epochs(0)
    assert first is not None
    handoffs, sets = handed_on(stage.chain.parameters, stage.chain.genesis, first.validators, [("Bob",), ("Charlie",)])
    height = stage.chain.parameters.boundary(1)
    stage.clock.set_ms += 10**9
    stage.hear(FrameKind.STATUS, STATUS.encode(PeerStatus(b"t" * 32, height, b"f" * 32, height)))
    assert ("peer", FrameKind.GET_HANDOFFS, GET_HANDOFFS.encode(GetHandoffs(0, 16))) in stage.transport.sent
    followed, charged = stage.sync.sets_ahead, []
    monkeypatch.setattr(stage.transport.inbound, "charge", lambda message, _: charged.append(message.kind))
    stage.hear(FrameKind.HANDOFFS, HANDOFFS.encode(tuple(handoffs)))
    assert followed.newest == first.validators
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.loop.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert followed.newest == sets[-1]
    assert charged == [FrameKind.HANDOFFS] * 2
    assert stage.sync.highest_height >= stage.chain.parameters.boundary(1)
