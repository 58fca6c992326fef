"""Attacks of an authenticated stranger on the peer-to-peer port: requests, records, polls, votes, gossip, names."""

from __future__ import annotations

import asyncio
import os
import random
import struct
from dataclasses import replace

import trio

from consensus.certificates import VERSION_ED25519, Certificate
from consensus.wire import CERTIFICATES_PER_MESSAGE_MAX, MESSAGE, Certified, Chits, NeedCerts, PullQuery, Vote
from devnet.launcher import processes
from devnet.launcher.layout import Devnet, NodeLayout
from devnet.launcher.lifecycle import ready
from devnet.launcher.status import ask_all
from devnet.proofs.flood.attack import Door, Needs, Scene, attack
from devnet.proofs.flood.intruder import (
    FloodMessage,
    HostilePeer,
    ServeConnection,
    assail,
    cycled,
    dial,
    flooding,
    fresh_identity,
)
from devnet.proofs.flood.network import node_of
from devnet.proofs.flood.peer_blocks import header, tiny_body
from genesis import dev_accounts
from node.duty.keystore import KeyPair
from node.p2p.addresses import Address, parse_address
from node.p2p.channel import MAX_RECORD_PLAINTEXT_BYTES
from node.p2p.discovery import encode_peers
from node.p2p.frames import FrameKind
from node.p2p.handshake import HandshakeFailed
from node.p2p.hello import Role
from node.peers.messages import BLOCKS, GET_BLOCKS, STATUS, GetBlocks, PeerStatus
from node.peers.peer_proof import prove
from node.pool.heartbeat_pool import HEARTBEAT
from runtime.blocks.block import HEADER, block_id
from runtime.blocks.evidence import EVIDENCE, DoubleBallot
from runtime.blocks.votes import Ballot, BallotKind, SignedBallot
from runtime.pallets.im_online import Heartbeat, SeenFinal


@attack("own", messages_max=700_000)
async def statuses(scene: Scene) -> None:
    """STATUS with the tip that everybody knows, 5,000 a second to each validator."""

    def make(intruder: HostilePeer, _: int) -> FloodMessage:
        standing = intruder.standing or PeerStatus(os.urandom(32), 1, os.urandom(32), 0)
        return FrameKind.STATUS, STATUS.encode(standing)

    await assail(scene, scene.validators, flooding(scene, 5_000, make))


@attack("own", messages_max=200_000)
async def block_requests(scene: Scene) -> None:
    """GET_BLOCKS for the whole chain, 1,000 a second to each validator: a small question, a megabyte of an answer."""

    def make(intruder: HostilePeer, _: int) -> FloodMessage:
        tip = intruder.standing.tip if intruder.standing else bytes(32)
        return FrameKind.GET_BLOCKS, GET_BLOCKS.encode(GetBlocks(tip, 0))

    await assail(scene, scene.validators, flooding(scene, 1_000, make))


@attack("own", messages_max=500_000)
async def certificate_requests(scene: Scene) -> None:
    """GET_CERTS from rounds of the past, and every other one from an epoch far ahead, 3,000 a second to each."""

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        epoch, round_ = intruder.position or (0, 1)
        need = NeedCerts(epoch + 1_000 * (number % 2), max(1, round_ - number % 20), 0, 0, b"")
        return FrameKind.GET_CERTS, MESSAGE.encode(need)

    await assail(scene, scene.validators, flooding(scene, 3_000, make))


@attack("own", messages_max=700_000)
async def pings(scene: Scene) -> None:
    """PING, 5,000 a second to each validator, each of which has to be answered."""
    serve = flooding(scene, 5_000, lambda *_: (FrameKind.PING, bytes(8)))
    await assail(scene, scene.validators, serve)


UPDATE = struct.pack(">BBHII", 0, 1, 0, 1, 0)
"""yamux: the window of the stream that carries the frames is larger by nothing."""
FULL = UPDATE * (MAX_RECORD_PLAINTEXT_BYTES // len(UPDATE))


def _writing(scene: Scene, record: bytes, per_second: float, at_once: int) -> ServeConnection:
    async def serve(intruder: HostilePeer) -> None:
        async for due in scene.paced(per_second, at_once):
            for _ in range(due):
                if not await intruder.write_record(record):
                    return

    return serve


@attack("R1", messages_max=200_000)
async def small_records(scene: Scene) -> None:
    """Records of twelve bytes, 4,000 a second to each validator: each has to be decrypted."""
    await assail(scene, scene.validators, _writing(scene, UPDATE, 4_000, 100))


@attack("R1", messages_max=20_000)
async def muxer_frames(scene: Scene) -> None:
    """Records full of window updates, 5,458 in each, 300 a second to each validator: 10 ms of the loop for a record."""
    await assail(scene, scene.validators, _writing(scene, FULL, 300, 8))


POLL_VARIETY = 2_000
POLL_IDENTITIES = 8


@attack("own", messages_max=700_000)
async def poll_queries(scene: Scene) -> None:
    """Queries about the tip that everybody knows, 5,000 a second to each validator: more than it must answer."""

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        standing = intruder.standing
        tip, height = (standing.tip, standing.tip_height) if standing else (bytes(32), 0)
        return FrameKind.POLL_QUERY, MESSAGE.encode(PullQuery(number, tip, height))

    await assail(scene, scene.validators, flooding(scene, 5_000, make, at_once=500))


@attack("own", messages_max=700_000)
async def unasked_chits(scene: Scene) -> None:
    """Answers to polls that nobody asked, 5,000 a second to each validator, from one that is no validator."""
    answers = cycled(
        [
            MESSAGE.encode(Chits(number, os.urandom(32), os.urandom(32), os.urandom(32), number, number))
            for number in range(POLL_VARIETY)
        ]
    )
    serve = flooding(scene, 5_000, lambda _, number: (FrameKind.CHITS, answers(number)))
    await assail(scene, scene.validators, serve)


@attack("F5", messages_max=200_000)
async def wanted_ids(scene: Scene) -> None:
    """Eight identities of one client name 500 random blocks a second in queries and statuses.

    They filled the list of wanted blocks, and a leader's block was asked for 3 s late.
    """

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        height = intruder.standing.tip_height if intruder.standing else 1
        if number % 2:
            return FrameKind.POLL_QUERY, MESSAGE.encode(PullQuery(number, os.urandom(32), height))
        standing = PeerStatus(os.urandom(32), height, os.urandom(32), max(0, height - 1))
        return FrameKind.STATUS, STATUS.encode(standing)

    await assail(scene, scene.validators, flooding(scene, 500 / POLL_IDENTITIES, make), POLL_IDENTITIES)


VARIETY = 2_000
FAR_ROUND = 1_000_000
NEAR_ROUNDS = 20
"""Ahead of the round that was heard of: within what a node takes, and not over before the attack is."""
FORGERIES_PER_VISIT = 50
BACK_SECONDS, VISIT_SECONDS = 0.2, 5.0
FORGED_RULE = "signatures that do not verify"


def ballot(epoch: int, round_: int, voter: bytes, kind: BallotKind = BallotKind.NOTARISE) -> bytes:
    """An encoded vote whose signature is random."""
    said = Ballot(kind, epoch, round_, 5, os.urandom(32))
    return MESSAGE.encode(Vote(SignedBallot(said, voter, os.urandom(64)), None))


def near(intruder: HostilePeer) -> tuple[int, int]:
    """An epoch and a round that the node will be in soon."""
    epoch, round_ = intruder.position or (0, 1)
    return epoch, round_ + NEAR_ROUNDS


@attack("N1", rule="votes for rounds far beyond what may be ahead", messages_max=2_500_000)
async def far_votes(scene: Scene) -> None:
    """Votes for a round a million ahead, 18,000 a second to each validator.

    They were dropped without a look at the signature, after 40 us of the loop each, and cost their sender nothing.
    """
    votes = cycled([ballot(0, FAR_ROUND + number, os.urandom(32)) for number in range(VARIETY)])
    serve = flooding(scene, 18_000, lambda _, number: (FrameKind.VOTE, votes(number)))
    await assail(scene, scene.validators, serve)


@attack("N7", rule=FORGED_RULE, messages_max=700_000)
async def own_key_ballots(scene: Scene) -> None:
    """Votes in the receiver's own name, near and far in turn, 5,000 a second to each validator.

    The signature was checked before round and duplicates, because a copy of the validator's key must be noticed.
    """
    keys = {member.name: dev_accounts.key(member.name, dev_accounts.SESSION) for member in scene.validators}
    variety = {
        name: [ballot(0, FAR_ROUND + number if number % 2 else number, key) for number in range(VARIETY)]
        for name, key in keys.items()
    }

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        return FrameKind.VOTE, variety[intruder.member.name][number % VARIETY]

    await assail(scene, scene.validators, flooding(scene, 5_000, make))


@attack("N1", rule=FORGED_RULE, messages_max=700_000)
async def forged_votes(scene: Scene) -> None:
    """Votes for a round that is near, in the name of each validator, 5,000 a second: each must be checked."""
    voters = [dev_accounts.key(member.name, dev_accounts.SESSION) for member in scene.validators]

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        return FrameKind.VOTE, ballot(*near(intruder), voters[number % len(voters)])

    await assail(scene, scene.validators, flooding(scene, 5_000, make, at_once=200))


@attack("N8", rule=FORGED_RULE, messages_max=200_000)
async def forgers_with_new_names(scene: Scene) -> None:
    """Forged votes until the node has enough, and back at once under a new identity: a ban alone ends nothing."""
    voter = dev_accounts.key(scene.validators[0].name, dev_accounts.SESSION)
    await scene.begin()
    async for _ in scene.paced(1 / BACK_SECONDS, at_once=1):
        try:
            intruder = await dial(scene, scene.victim, fresh_identity())
        except (HandshakeFailed, OSError, trio.TooSlowError):
            scene.note("refused at the door")
            continue
        async with trio.open_nursery() as nursery:
            nursery.start_soon(intruder.listen)
            with trio.move_on_after(VISIT_SECONDS):
                await intruder.heard.wait()
                await intruder.send(
                    (FrameKind.VOTE, ballot(*near(intruder), voter)) for _ in range(FORGERIES_PER_VISIT)
                )
                await intruder.gone.wait()
            nursery.cancel_scope.cancel()


@attack("own", rule=FORGED_RULE, messages_max=20_000)
async def forged_certificates(scene: Scene) -> None:
    """Certificates for a round that is near, 32 a message, all signers named and no signature good; 100 a second."""
    signers = bytes([(1 << len(scene.validators)) - 1])

    def make(intruder: HostilePeer, _: int) -> FloodMessage:
        epoch, round_ = near(intruder)
        said = Ballot(BallotKind.NOTARISE, epoch, round_, 5, os.urandom(32))
        first = Certificate(VERSION_ED25519, said, signers, tuple(os.urandom(64) for _ in scene.validators))
        many = [replace(first, ballot=replace(said, round=round_ + offset)) for offset in range(8)]
        return FrameKind.CERT, MESSAGE.encode(Certified((tuple(many) * 4)[:CERTIFICATES_PER_MESSAGE_MAX]))

    await assail(scene, scene.validators, flooding(scene, 100, make, at_once=20))


PER_SECOND = 1_500
GOSSIP_IDENTITIES = 2
GOSSIP_AHEAD = 60
"""Blocks above the final one that heartbeats name: nodes take so many, and cannot know their hashes."""
GOSSIP_RULE = "gossip whose signature does not verify"


@attack("S68", rule=GOSSIP_RULE, messages_max=250_000, hogged=True)
async def forged_heartbeats(scene: Scene) -> None:
    """Heartbeats of real candidates for blocks to come, with random hashes and signatures, by two identities.

    1,500 a second of each to each validator; without a penalty they took what CPU the nodes had, and finality stood.
    """
    stashes = [dev_accounts.stash(member.name) for member in scene.validators]

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        final = 0 if intruder.standing is None else intruder.standing.final_height
        seen = SeenFinal(stashes[number % len(stashes)], final + random.randint(1, GOSSIP_AHEAD), os.urandom(32))
        return FrameKind.HEARTBEAT, HEARTBEAT.encode(Heartbeat(seen, os.urandom(64)))

    await assail(scene, scene.validators, flooding(scene, PER_SECOND, make), GOSSIP_IDENTITIES)


@attack("S72", rule=GOSSIP_RULE, messages_max=250_000, hogged=True)
async def forged_evidence(scene: Scene) -> None:
    """Two ballots of one round in the name of a validator, with random signatures; as many as of heartbeats."""
    keys = [dev_accounts.key(member.name, dev_accounts.SESSION) for member in scene.validators]

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        epoch, round_ = intruder.position or (0, 1)
        ballots = [Ballot(BallotKind.NOTARISE, epoch, round_, 5, os.urandom(32)) for _ in range(2)]
        accused = keys[number % len(keys)]
        evidence = DoubleBallot(accused, ballots[0], os.urandom(64), ballots[1], os.urandom(64))
        return FrameKind.EVIDENCE, EVIDENCE.encode(evidence)

    await assail(scene, scene.validators, flooding(scene, PER_SECOND, make), GOSSIP_IDENTITIES)


AHEAD, STATUSES_PER_SECOND = 30, 5
BLOCKS_IN_ANSWER = 8


@attack("R2", rule="answers whose blocks nobody sealed", messages_max=5_000)
async def made_up_answers(scene: Scene) -> None:
    """Say that a tip 30 blocks ahead is known; when asked for it, answer with eight blocks of 50,000 extrinsics."""
    body, root = tiny_body()

    def answer(intruder: HostilePeer, payload: bytes) -> list[FloodMessage]:
        asked = GET_BLOCKS.decode(payload)
        scene.note("was asked")
        parent, height = (intruder.standing.tip, intruder.standing.tip_height) if intruder.standing else (bytes(32), 0)
        made_up: list[bytes] = []
        for step in range(BLOCKS_IN_ANSWER):
            head = header(parent, max(height, asked.above) + 1 + step, root, "Alice")
            made_up.append(HEADER.encode(head) + body)
            parent = block_id(head)
        return [(FrameKind.BLOCKS, BLOCKS.encode(tuple(made_up)))]

    async def serve(intruder: HostilePeer) -> None:
        intruder.answers[FrameKind.GET_BLOCKS] = lambda payload: answer(intruder, payload)
        async for due in scene.paced(STATUSES_PER_SECOND, at_once=1):
            known = intruder.standing or PeerStatus(os.urandom(32), 1, os.urandom(32), 0)
            status = PeerStatus(os.urandom(32), known.tip_height + AHEAD * due, known.final, known.final_height)
            if not await intruder.send([(FrameKind.STATUS, STATUS.encode(status))]):
                return

    await assail(scene, scene.validators, serve)


CLAIMANTS = 96


@attack("M2", messages_max=20_000, doors=(Door.SLOTS,), needs=Needs.STRICT_NODE)
async def self_made_validators(scene: Scene) -> None:
    """96 connections that prove a session key of their own make, to a node with 64 slots, and back when refused.

    Anybody can make a key: the half of the slots that is kept for validators must stay free for those of the epoch.
    """
    strict = scene.net.members[-1]
    await scene.begin()
    async with trio.open_nursery() as nursery:
        for _ in range(CLAIMANTS):
            nursery.start_soon(_claim, scene, strict)


async def _claim(scene: Scene, member: NodeLayout) -> None:
    """One claimant: stay if taken, come again if not."""
    async for _ in scene.paced(1.0, at_once=1):
        identity = fresh_identity()
        made = KeyPair.from_seed(os.urandom(32))
        proof = prove([(made.public, made.secret)], scene.genesis, identity.peer_id)
        try:
            intruder = await dial(scene, member, identity, Role.VALIDATOR, proof)
        except (HandshakeFailed, OSError, trio.TooSlowError) as error:
            scene.note(f"refused: {error}")
            continue
        scene.note("taken")
        scene.sent(1, len(proof))
        await intruder.listen()


@attack("N8", messages_max=20_000, doors=(Door.PEERS,))
async def identity_churn(scene: Scene) -> None:
    """A new identity connects, says hello and leaves, as fast as one client can, at each validator in turn.

    Each cost the node 3.5 ms, and names are free; peers that come from where a validator is must still get in.
    """
    members = scene.validators
    await scene.begin()
    number = 0
    async for _ in scene.paced(300, at_once=1):
        number += 1
        try:
            intruder = await dial(scene, members[number % len(members)], fresh_identity())
        except (HandshakeFailed, OSError, trio.TooSlowError):
            scene.note("refused at the door")
            continue
        scene.sent(1, 0)
        await intruder.leave()


NOWHERE = "127.0.0.99"
HEAL_SECONDS = 30.0
HEALED_BLOCKS = 3


async def _without_the_first(net: Devnet) -> list[str]:
    """The node that all others began with dies, another one is started again: the others must find it by themselves."""
    first, second, third = (node_of(net, member) for member in net.members[:3])
    before = (await _finals(net))[third.label]
    for process in (first, second):
        await trio.to_thread.run_sync(processes.kill, process)
    processes.start(second)  # in this thread: a child dies with the thread that started it
    found = ["the validators that were left did not find each other again"]
    with trio.move_on_after(HEAL_SECONDS):
        await _reaches(net, third.label, before + HEALED_BLOCKS)
        found = []
    processes.start(first)
    await trio.to_thread.run_sync(lambda: asyncio.run(ready(net)))
    return found


async def _reaches(net: Devnet, name: str, height: int) -> None:
    """Wait until that node has seen that final height."""
    while True:
        if (await _finals(net))[name] >= height:
            return
        await trio.sleep(0.25)


async def _finals(net: Devnet) -> dict[str, int]:
    standing = await trio.to_thread.run_sync(lambda: asyncio.run(ask_all(net)))
    return {node.name: node.final for node in standing}


@attack("M3", messages_max=20_000, aftermath=_without_the_first)
async def false_addresses(scene: Scene) -> None:
    """PEERS messages that name every validator at an address where nobody is, 6 a second to each.

    What a peer said replaced what had led to a connection. Afterwards the node that all others were started with dies
    and another one restarts: those that are left must still find it.
    """
    named = [parse_address(member.address) for member in scene.validators]
    payload = encode_peers([Address(address.peer_id, NOWHERE, 1) for address in named])
    await assail(scene, scene.validators, flooding(scene, 6, lambda *_: (FrameKind.PEERS, payload), at_once=8))
