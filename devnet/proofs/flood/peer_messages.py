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
from devnet.proofs.flood.attack import Act, Attack, Door, Needs, Scene
from devnet.proofs.flood.intruder import (
    FloodMessage,
    HostilePeer,
    Make,
    assail,
    cycled,
    dial,
    floods,
    fresh_identity,
    prepared_floods,
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

UPDATE = struct.pack(">BBHII", 0, 1, 0, 1, 0)
"""A yamux window update: it enlarges the window of the stream that carries the frames by 0."""
FULL = UPDATE * (MAX_RECORD_PLAINTEXT_BYTES // len(UPDATE))
POLL_IDENTITIES, GOSSIP_IDENTITIES = 8, 2
VARIETY = 2_000
FAR_ROUND = 1_000_000
NEAR_ROUNDS = 20
"""Rounds ahead of the node's: near enough to be accepted, and far enough to last for the whole attack."""
FORGERIES_PER_VISIT = 50
BACK_SECONDS, VISIT_SECONDS = 0.2, 5.0
GOSSIP_PER_SECOND = 1_500
GOSSIP_AHEAD = 60
"""Blocks above the final one that forged heartbeats name. Nodes accept this range, and cannot know the hashes yet."""
AHEAD, STATUSES_PER_SECOND = 30, 5
BLOCKS_IN_ANSWER = 8
CLAIMANTS = 96
NOWHERE = "127.0.0.99"
HEAL_SECONDS, HEALED_BLOCKS = 30.0, 3
FORGED_RULE = "signatures that do not verify"
GOSSIP_RULE = "gossip whose signature does not verify"


def _standing(intruder: HostilePeer) -> PeerStatus:
    return intruder.standing or PeerStatus(os.urandom(32), 1, os.urandom(32), 0)


def _status(intruder: HostilePeer, _: int) -> FloodMessage:
    return FrameKind.STATUS, STATUS.encode(_standing(intruder))


def _block_request(intruder: HostilePeer, _: int) -> FloodMessage:
    return FrameKind.GET_BLOCKS, GET_BLOCKS.encode(GetBlocks(_standing(intruder).tip, 0))


def _certificate_request(intruder: HostilePeer, number: int) -> FloodMessage:
    epoch, round_ = intruder.position or (0, 1)
    need = NeedCerts(epoch + 1_000 * (number % 2), max(1, round_ - number % 20), 0, 0, b"")
    return FrameKind.GET_CERTS, MESSAGE.encode(need)


def _records(record: bytes, per_second: float, at_once: int) -> Act:
    """Return an act that writes one record of the muxer repeatedly."""

    async def act(scene: Scene) -> None:
        async def serve(intruder: HostilePeer) -> None:
            async for due in scene.paced(per_second, at_once):
                for _ in range(due):
                    if not await intruder.write_record(record):
                        return

        await assail(scene, scene.validators, serve)

    return act


def _poll_query(intruder: HostilePeer, number: int) -> FloodMessage:
    standing = _standing(intruder)
    return FrameKind.POLL_QUERY, MESSAGE.encode(PullQuery(number, standing.tip, standing.tip_height))


def _unasked_chits(_: Scene) -> Make:
    answers = cycled(
        [
            MESSAGE.encode(Chits(number, os.urandom(32), os.urandom(32), os.urandom(32), number, number))
            for number in range(VARIETY)
        ]
    )
    return lambda _, number: (FrameKind.CHITS, answers(number))


def _wanted_id(intruder: HostilePeer, number: int) -> FloodMessage:
    height = _standing(intruder).tip_height
    if number % 2:
        return FrameKind.POLL_QUERY, MESSAGE.encode(PullQuery(number, os.urandom(32), height))
    standing = PeerStatus(os.urandom(32), height, os.urandom(32), max(0, height - 1))
    return FrameKind.STATUS, STATUS.encode(standing)


def ballot(epoch: int, round_: int, voter: bytes, kind: BallotKind = BallotKind.NOTARISE) -> bytes:
    """Return an encoded vote with a random signature."""
    said = Ballot(kind, epoch, round_, 5, os.urandom(32))
    return MESSAGE.encode(Vote(SignedBallot(said, voter, os.urandom(64)), None))


def near(intruder: HostilePeer) -> tuple[int, int]:
    """Return an epoch and a round that the node will reach soon."""
    epoch, round_ = intruder.position or (0, 1)
    return epoch, round_ + NEAR_ROUNDS


def _session_keys(scene: Scene) -> list[bytes]:
    return [dev_accounts.key(member.name, dev_accounts.SESSION) for member in scene.validators]


def _far_votes(_: Scene) -> Make:
    votes = cycled([ballot(0, FAR_ROUND + number, os.urandom(32)) for number in range(VARIETY)])
    return lambda _, number: (FrameKind.VOTE, votes(number))


def _own_key_ballots(scene: Scene) -> Make:
    variety = {
        member.name: [ballot(0, FAR_ROUND + number if number % 2 else number, key) for number in range(VARIETY)]
        for member, key in zip(scene.validators, _session_keys(scene), strict=True)
    }
    return lambda intruder, number: (FrameKind.VOTE, variety[intruder.member.name][number % VARIETY])


def _forged_votes(scene: Scene) -> Make:
    voter = cycled(_session_keys(scene))
    return lambda intruder, number: (FrameKind.VOTE, ballot(*near(intruder), voter(number)))


async def _forge_with_new_names(scene: Scene) -> None:
    voter = _session_keys(scene)[0]
    await scene.begin()
    async for _ in scene.paced(1 / BACK_SECONDS, at_once=1):
        intruder = await _let_in(scene, scene.victim)
        if intruder is None:
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


async def _let_in(scene: Scene, member: NodeLayout) -> HostilePeer | None:
    """Connect with a new identity. Return None if the node refuses."""
    try:
        return await dial(scene, member, fresh_identity())
    except (HandshakeFailed, OSError, trio.TooSlowError):
        scene.note("refused at the door")
        return None


def _forged_certificates(scene: Scene) -> Make:
    signers = bytes([(1 << len(scene.validators)) - 1])

    def make(intruder: HostilePeer, _: int) -> FloodMessage:
        epoch, round_ = near(intruder)
        said = Ballot(BallotKind.NOTARISE, epoch, round_, 5, os.urandom(32))
        first = Certificate(VERSION_ED25519, said, signers, tuple(os.urandom(64) for _ in scene.validators))
        many = [replace(first, ballot=replace(said, round=round_ + offset)) for offset in range(8)]
        return FrameKind.CERT, MESSAGE.encode(Certified((tuple(many) * 4)[:CERTIFICATES_PER_MESSAGE_MAX]))

    return make


def _forged_heartbeats(scene: Scene) -> Make:
    stash = cycled([dev_accounts.stash(member.name) for member in scene.validators])

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        final = 0 if intruder.standing is None else intruder.standing.final_height
        seen = SeenFinal(stash(number), final + random.randint(1, GOSSIP_AHEAD), os.urandom(32))
        return FrameKind.HEARTBEAT, HEARTBEAT.encode(Heartbeat(seen, os.urandom(64)))

    return make


def _forged_evidence(scene: Scene) -> Make:
    accused = cycled(_session_keys(scene))

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        epoch, round_ = intruder.position or (0, 1)
        ballots = [Ballot(BallotKind.NOTARISE, epoch, round_, 5, os.urandom(32)) for _ in range(2)]
        evidence = DoubleBallot(accused(number), ballots[0], os.urandom(64), ballots[1], os.urandom(64))
        return FrameKind.EVIDENCE, EVIDENCE.encode(evidence)

    return make


async def _make_up_answers(scene: Scene) -> None:
    body, root = tiny_body()

    def answer(intruder: HostilePeer, payload: bytes) -> list[FloodMessage]:
        asked, standing = GET_BLOCKS.decode(payload), _standing(intruder)
        scene.note("was asked")
        parent, made_up = standing.tip, list[bytes]()
        for step in range(BLOCKS_IN_ANSWER):
            head = header(parent, max(standing.tip_height, asked.above) + 1 + step, root, "Alice")
            made_up.append(HEADER.encode(head) + body)
            parent = block_id(head)
        return [(FrameKind.BLOCKS, BLOCKS.encode(tuple(made_up)))]

    async def serve(intruder: HostilePeer) -> None:
        intruder.answers[FrameKind.GET_BLOCKS] = lambda payload: answer(intruder, payload)
        async for due in scene.paced(STATUSES_PER_SECOND, at_once=1):
            known = _standing(intruder)
            status = PeerStatus(os.urandom(32), known.tip_height + AHEAD * due, known.final, known.final_height)
            if not await intruder.send([(FrameKind.STATUS, STATUS.encode(status))]):
                return

    await assail(scene, scene.validators, serve)


async def _claim_slots(scene: Scene) -> None:
    strict = scene.devnet.members[-1]
    await scene.begin()
    async with trio.open_nursery() as nursery:
        for _ in range(CLAIMANTS):
            nursery.start_soon(_claim, scene, strict)


async def _claim(scene: Scene, member: NodeLayout) -> None:
    """Claim a slot once a second, and keep it if accepted."""
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


async def _churn(scene: Scene) -> None:
    members, number = scene.validators, 0
    await scene.begin()
    async for _ in scene.paced(300, at_once=1):
        number += 1
        intruder = await _let_in(scene, members[number % len(members)])
        if intruder is not None:
            scene.sent(1, 0)
            await intruder.leave()


def _false_addresses(scene: Scene) -> Make:
    named = [parse_address(member.address) for member in scene.validators]
    payload = encode_peers([Address(address.peer_id, NOWHERE, 1) for address in named])
    return lambda *_: (FrameKind.PEERS, payload)


async def _without_the_first(devnet: Devnet) -> list[str]:
    """Kill the bootnode of all others and restart a second node: the rest must find each other without the bootnode."""
    first, second, third = (node_of(devnet, member) for member in devnet.members[:3])
    before = (await _finals(devnet))[third.label]
    for process in (first, second):
        await trio.to_thread.run_sync(processes.kill, process)
    processes.start(second)  # in this thread: a child dies with the thread that started it
    found = ["the validators that were left did not find each other again"]
    with trio.move_on_after(HEAL_SECONDS):
        await _reaches(devnet, third.label, before + HEALED_BLOCKS)
        found = []
    processes.start(first)
    await trio.to_thread.run_sync(lambda: asyncio.run(ready(devnet)))
    return found


async def _reaches(devnet: Devnet, name: str, height: int) -> None:
    """Wait until that node has seen that final height."""
    while True:
        if (await _finals(devnet))[name] >= height:
            return
        await trio.sleep(0.25)


async def _finals(devnet: Devnet) -> dict[str, int]:
    standing = await trio.to_thread.run_sync(lambda: asyncio.run(ask_all(devnet)))
    return {node.name: node.final for node in standing}


REQUESTS = (
    Attack("pings", "own", "PING, 5,000 a second to each validator, each of which has to be answered.",
           floods(5_000, lambda *_: (FrameKind.PING, bytes(8))), 700_000),
    Attack("statuses", "own", "STATUS with the tip that everybody knows, 5,000 a second to each validator.",
           floods(5_000, _status), 700_000),
    Attack("block_requests", "own", "GET_BLOCKS for the whole chain, 1,000 a second to each validator: a small "
           "question, a megabyte of an answer.", floods(1_000, _block_request), 200_000),
    Attack("certificate_requests", "own", "GET_CERTS from rounds of the past, and every other one from an epoch far "
           "ahead, 3,000 a second to each.", floods(3_000, _certificate_request), 500_000),
    Attack("small_records", "R1", "Records of twelve bytes, 4,000 a second to each validator: each has to be "
           "decrypted.", _records(UPDATE, 4_000, 100), 200_000),
    Attack("muxer_frames", "R1", "Records full of window updates, 5,458 in each, 300 a second to each validator: 10 ms "
           "of the loop for a record.", _records(FULL, 300, 8), 20_000),
    Attack("poll_queries", "own", "Queries about the tip that everybody knows, 5,000 a second to each validator: more "
           "than it must answer.", floods(5_000, _poll_query, at_once=500), 700_000),
    Attack("unasked_chits", "own", "Answers to polls that nobody asked, 5,000 a second to each validator, from one "
           "that is no validator.", prepared_floods(5_000, _unasked_chits), 700_000),
    Attack("wanted_ids", "F5", "Eight identities of one client name 500 random blocks a second in queries and "
           "statuses. They filled the list of wanted blocks, and a leader's block was asked for 3 s late.",
           floods(500 / POLL_IDENTITIES, _wanted_id, identities=POLL_IDENTITIES), 200_000),
    Attack("far_votes", "N1", "Votes for a round a million ahead, 18,000 a second to each validator. They were dropped "
           "without a look at the signature, after 40 us of the loop each, and cost their sender nothing.",
           prepared_floods(18_000, _far_votes), 2_500_000, "votes for rounds far beyond what may be ahead"),
    Attack("own_key_ballots", "N7", "Votes in the receiver's own name, near and far in turn, 5,000 a second to each "
           "validator. The signature was checked before round and duplicates, because a copy of the validator's key "
           "must be noticed.", prepared_floods(5_000, _own_key_ballots), 700_000, FORGED_RULE),
    Attack("forged_votes", "N1", "Votes for a round that is near, in the name of each validator, 5,000 a second: each "
           "must be checked.", prepared_floods(5_000, _forged_votes, at_once=200), 700_000, FORGED_RULE),
    Attack("forgers_with_new_names", "N8", "Forged votes until the node has enough, and back at once under a new "
           "identity: a ban alone ends nothing.", _forge_with_new_names, 200_000, FORGED_RULE),
    Attack("forged_certificates", "own", "Certificates for a round that is near, 32 a message, all signers named and "
           "no signature good; 100 a second.", prepared_floods(100, _forged_certificates, at_once=20), 20_000,
           FORGED_RULE),
    Attack("forged_heartbeats", "S68", "Heartbeats of real candidates for blocks to come, with random hashes and "
           "signatures, by two identities. 1,500 a second of each to each validator; without a penalty they took all "
           "CPU that the nodes had, and finality stood.",
           prepared_floods(GOSSIP_PER_SECOND, _forged_heartbeats, identities=GOSSIP_IDENTITIES), 250_000, GOSSIP_RULE,
           hogged=True),
    Attack("forged_evidence", "S72", "Two ballots of one round in the name of a validator, with random signatures; as "
           "many as of heartbeats.",
           prepared_floods(GOSSIP_PER_SECOND, _forged_evidence, identities=GOSSIP_IDENTITIES), 250_000, GOSSIP_RULE,
           hogged=True),
    Attack("made_up_answers", "R2", "Say that a tip 30 blocks ahead is known; when asked for it, answer with eight "
           "blocks of 50,000 extrinsics.", _make_up_answers, 5_000, "answers whose blocks nobody sealed"),
)  # fmt: skip
NEWCOMERS = (
    Attack("identity_churn", "N8", "A new identity connects, says hello and leaves, as fast as one client can, at each "
           "validator in turn. Each cost the node 3.5 ms, and names are free; peers that come from where a validator "
           "is must still get in.", _churn, 20_000, beside=(Door.PEERS,)),
    Attack("self_made_validators", "M2", "96 connections that prove a session key of their own make, to a node with 64 "
           "slots, and back when refused. Anybody can make a key: the half of the slots that is kept for validators "
           "must stay free for those of the epoch.", _claim_slots, 20_000, beside=(Door.SLOTS,),
           needs=Needs.STRICT_NODE),
)  # fmt: skip
FALSE_ADDRESSES = Attack(
    "false_addresses", "M3", "PEERS messages that name every validator at an address where nobody is, 6 a second to "
    "each. They replaced what had led to a connection. Afterwards the node that all others were started with dies and "
    "another one restarts: those that are left must still find it.", prepared_floods(6, _false_addresses, at_once=8),
    20_000, aftermath=_without_the_first,
)  # fmt: skip
