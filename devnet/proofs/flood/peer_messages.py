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
from devnet.proofs.flood.attack import Attack, AttackAction, AttackScene, Door, ExtraProcess
from devnet.proofs.flood.intruder import (
    FloodMessage,
    HostilePeer,
    MakeMessage,
    connect_and_attack,
    connect_intruder,
    cycle_through,
    flood_action,
    fresh_identity,
    prepared_flood_action,
)
from devnet.proofs.flood.network import node_of
from devnet.proofs.flood.peer_blocks import header_naming, tiny_body
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

# A yamux window update: it enlarges the window of the stream that carries the frames by 0.
WINDOW_UPDATE = struct.pack(">BBHII", 0, 1, 0, 1, 0)
# One record carries thousands of frames, so a limit on records alone bounds nothing.
FULL_RECORD = WINDOW_UPDATE * (MAX_RECORD_PLAINTEXT_BYTES // len(WINDOW_UPDATE))
POLL_IDENTITIES, GOSSIP_IDENTITIES = 8, 2
VARIETY_COUNT = 2_000
FAR_ROUND = 1_000_000
# Rounds ahead of the node's: near enough to be accepted, and far enough to last for the whole attack.
NEAR_ROUNDS = 20
FORGERIES_PER_VISIT = 50
BACK_SECONDS, VISIT_SECONDS = 0.2, 5.0
GOSSIP_PER_SECOND = 1_500
# Blocks above the final one that forged heartbeats name. Nodes accept this range, and cannot know the hashes yet.
GOSSIP_AHEAD = 60
TIP_AHEAD_BLOCKS, STATUSES_PER_SECOND = 30, 5
BLOCKS_IN_ANSWER = 8
CLAIMANT_COUNT = 96
NOWHERE_ADDRESS = "127.0.0.99"
HEAL_SECONDS, HEALED_BLOCKS = 30.0, 3
FORGED_RULE = "signatures that do not verify"
GOSSIP_RULE = "gossip with invalid signatures"


def _status_of(intruder: HostilePeer) -> PeerStatus:
    return intruder.peer_status or PeerStatus(os.urandom(32), 1, os.urandom(32), 0)


def _status_message(intruder: HostilePeer, _: int) -> FloodMessage:
    return FrameKind.STATUS, STATUS.encode(_status_of(intruder))


def _block_request(intruder: HostilePeer, _: int) -> FloodMessage:
    return FrameKind.GET_BLOCKS, GET_BLOCKS.encode(GetBlocks(_status_of(intruder).tip, 0))


def _certificate_request(intruder: HostilePeer, number: int) -> FloodMessage:
    epoch, vote_round = intruder.position or (0, 1)
    certificates_needed = NeedCerts(epoch + 1_000 * (number % 2), max(1, vote_round - number % 20), 0, 0, b"")
    return FrameKind.GET_CERTS, MESSAGE.encode(certificates_needed)


def _record_action(record: bytes, per_second: float, at_once: int) -> AttackAction:
    """Return an act that writes one record of the muxer repeatedly."""

    async def act(scene: AttackScene) -> None:
        async def serve(intruder: HostilePeer) -> None:
            async for due_count in scene.paced(per_second, at_once):
                for _ in range(due_count):
                    if not await intruder.write_record(record):
                        return

        await connect_and_attack(scene, scene.validators, serve)

    return act


# Honest validators poll too, so a node may slow a stranger down but not refuse all queries.
def _poll_query(intruder: HostilePeer, number: int) -> FloodMessage:
    status = _status_of(intruder)
    return FrameKind.POLL_QUERY, MESSAGE.encode(PullQuery(number, status.tip, status.tip_height))


def _unasked_chits(_: AttackScene) -> MakeMessage:
    encoded_chits = cycle_through(
        [
            MESSAGE.encode(Chits(number, os.urandom(32), os.urandom(32), os.urandom(32), number, number))
            for number in range(VARIETY_COUNT)
        ]
    )
    return lambda _, number: (FrameKind.CHITS, encoded_chits(number))


# Identities are free, so a limit on wanted blocks for each peer must not hold for a client in total.
def _wanted_id_message(intruder: HostilePeer, number: int) -> FloodMessage:
    tip_height = _status_of(intruder).tip_height
    if number % 2:
        return FrameKind.POLL_QUERY, MESSAGE.encode(PullQuery(number, os.urandom(32), tip_height))
    status = PeerStatus(os.urandom(32), tip_height, os.urandom(32), max(0, tip_height - 1))
    return FrameKind.STATUS, STATUS.encode(status)


def encoded_ballot(epoch: int, round_: int, voter: bytes, ballot_kind: BallotKind = BallotKind.NOTARISE) -> bytes:
    """Return an encoded vote with a random signature."""
    ballot_said = Ballot(ballot_kind, epoch, round_, 5, os.urandom(32))
    return MESSAGE.encode(Vote(SignedBallot(ballot_said, voter, os.urandom(64)), None))


def near_position(intruder: HostilePeer) -> tuple[int, int]:
    """Return an epoch and a round that the node will reach soon."""
    epoch, vote_round = intruder.position or (0, 1)
    return epoch, vote_round + NEAR_ROUNDS


def _session_keys(scene: AttackScene) -> list[bytes]:
    return [dev_accounts.key(member.name, dev_accounts.SESSION) for member in scene.validators]


# A vote for a far round needs no verification to be dropped, and must still cost its sender something.
def _far_votes(_: AttackScene) -> MakeMessage:
    encoded_votes = cycle_through(
        [encoded_ballot(0, FAR_ROUND + number, os.urandom(32)) for number in range(VARIETY_COUNT)]
    )
    return lambda _, number: (FrameKind.VOTE, encoded_votes(number))


# A node must notice a copy of its own key, so it verifies votes in its own name first.
def _own_key_ballots(scene: AttackScene) -> MakeMessage:
    ballots_by_member = {
        member.name: [
            encoded_ballot(0, FAR_ROUND + number if number % 2 else number, session_key)
            for number in range(VARIETY_COUNT)
        ]
        for member, session_key in zip(scene.validators, _session_keys(scene), strict=True)
    }
    return lambda intruder, number: (FrameKind.VOTE, ballots_by_member[intruder.member.name][number % VARIETY_COUNT])


# Rounds near the node's own must be verified at once, because honest votes come for them.
def _forged_votes(scene: AttackScene) -> MakeMessage:
    voter_of = cycle_through(_session_keys(scene))
    return lambda intruder, number: (FrameKind.VOTE, encoded_ballot(*near_position(intruder), voter_of(number)))


# A ban by identity ends nothing where identities are free (Douceur, "The Sybil Attack", 2002).
async def _forge_with_new_names(scene: AttackScene) -> None:
    voter = _session_keys(scene)[0]
    await scene.begin()
    async for _ in scene.paced(1 / BACK_SECONDS, at_once=1):
        intruder = await _connect_newcomer(scene, scene.victim)
        if intruder is None:
            continue
        async with trio.open_nursery() as nursery:
            nursery.start_soon(intruder.listen)
            with trio.move_on_after(VISIT_SECONDS):
                await intruder.heard.wait()
                await intruder.send(
                    (FrameKind.VOTE, encoded_ballot(*near_position(intruder), voter))
                    for _ in range(FORGERIES_PER_VISIT)
                )
                await intruder.gone.wait()
            nursery.cancel_scope.cancel()


async def _connect_newcomer(scene: AttackScene, member: NodeLayout) -> HostilePeer | None:
    """Connect with a new identity. Return None if the node refuses."""
    try:
        return await connect_intruder(scene, member, fresh_identity())
    except (HandshakeFailed, OSError, trio.TooSlowError):
        scene.count_outcome("refused at the door")
        return None


# A certificate carries as many signatures as there are validators, and 32 fit into a message.
def _forged_certificates(scene: AttackScene) -> MakeMessage:
    signer_bits = bytes([(1 << len(scene.validators)) - 1])

    def make(intruder: HostilePeer, _: int) -> FloodMessage:
        epoch, vote_round = near_position(intruder)
        ballot_said = Ballot(BallotKind.NOTARISE, epoch, vote_round, 5, os.urandom(32))
        first_certificate = Certificate(
            VERSION_ED25519, ballot_said, signer_bits, tuple(os.urandom(64) for _ in scene.validators)
        )
        certificates = [
            replace(first_certificate, ballot=replace(ballot_said, round=vote_round + offset)) for offset in range(8)
        ]
        return FrameKind.CERT, MESSAGE.encode(Certified((tuple(certificates) * 4)[:CERTIFICATES_PER_MESSAGE_MAX]))

    return make


# Gossip is passed on, so a node must verify it before it relays, or one sender reaches all.
def _forged_heartbeats(scene: AttackScene) -> MakeMessage:
    stash_of = cycle_through([dev_accounts.stash(member.name) for member in scene.validators])

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        final_height = 0 if intruder.peer_status is None else intruder.peer_status.final_height
        seen_final = SeenFinal(stash_of(number), final_height + random.randint(1, GOSSIP_AHEAD), os.urandom(32))
        return FrameKind.HEARTBEAT, HEARTBEAT.encode(Heartbeat(seen_final, os.urandom(64)))

    return make


# Two signatures must be verified before a node may believe or relay the evidence.
def _forged_evidence(scene: AttackScene) -> MakeMessage:
    accused_of = cycle_through(_session_keys(scene))

    def make(intruder: HostilePeer, number: int) -> FloodMessage:
        epoch, vote_round = intruder.position or (0, 1)
        conflicting_ballots = [Ballot(BallotKind.NOTARISE, epoch, vote_round, 5, os.urandom(32)) for _ in range(2)]
        evidence = DoubleBallot(
            accused_of(number), conflicting_ballots[0], os.urandom(64), conflicting_ballots[1], os.urandom(64)
        )
        return FrameKind.EVIDENCE, EVIDENCE.encode(evidence)

    return make


# The node asked for these blocks, so a limit on unasked messages does not apply.
async def _make_up_answers(scene: AttackScene) -> None:
    body, body_root = tiny_body()

    def answer(intruder: HostilePeer, payload: bytes) -> list[FloodMessage]:
        request, status = GET_BLOCKS.decode(payload), _status_of(intruder)
        scene.count_outcome("was asked")
        parent_hash, made_up = status.tip, list[bytes]()
        for block_index in range(BLOCKS_IN_ANSWER):
            made_up_header = header_naming(
                parent_hash, max(status.tip_height, request.above) + 1 + block_index, body_root, "Alice"
            )
            made_up.append(HEADER.encode(made_up_header) + body)
            parent_hash = block_id(made_up_header)
        return [(FrameKind.BLOCKS, BLOCKS.encode(tuple(made_up)))]

    async def serve(intruder: HostilePeer) -> None:
        intruder.answers[FrameKind.GET_BLOCKS] = lambda payload: answer(intruder, payload)
        async for due_count in scene.paced(STATUSES_PER_SECOND, at_once=1):
            known_status = _status_of(intruder)
            status = PeerStatus(
                os.urandom(32),
                known_status.tip_height + TIP_AHEAD_BLOCKS * due_count,
                known_status.final,
                known_status.final_height,
            )
            if not await intruder.send([(FrameKind.STATUS, STATUS.encode(status))]):
                return

    await connect_and_attack(scene, scene.validators, serve)


# A proof shows only that the peer holds a key. The active set decides whether the key counts.
async def _claim_slots(scene: AttackScene) -> None:
    strict_node = scene.devnet.members[-1]
    await scene.begin()
    async with trio.open_nursery() as nursery:
        for _ in range(CLAIMANT_COUNT):
            nursery.start_soon(_claim_slot, scene, strict_node)


async def _claim_slot(scene: AttackScene, member: NodeLayout) -> None:
    """Claim a slot once a second, and keep it if accepted."""
    async for _ in scene.paced(1.0, at_once=1):
        identity = fresh_identity()
        made_keys = KeyPair.from_seed(os.urandom(32))
        proof = prove([(made_keys.public, made_keys.secret)], scene.genesis, identity.peer_id)
        try:
            intruder = await connect_intruder(scene, member, identity, Role.VALIDATOR, proof)
        except (HandshakeFailed, OSError, trio.TooSlowError) as refusal:
            scene.count_outcome(f"refused: {refusal}")
            continue
        scene.count_outcome("taken")
        scene.sent(1, len(proof))
        await intruder.listen()


# A handshake cost the node 3.5 ms, and identities are free.
async def _churn_identities(scene: AttackScene) -> None:
    members, visit_number = scene.validators, 0
    await scene.begin()
    async for _ in scene.paced(300, at_once=1):
        visit_number += 1
        intruder = await _connect_newcomer(scene, members[visit_number % len(members)])
        if intruder is not None:
            scene.sent(1, 0)
            await intruder.leave()


# Address tables that strangers can fill isolate a node (Heilman and others, eclipse attacks on Bitcoin, 2015).
def _false_addresses(scene: AttackScene) -> MakeMessage:
    named_addresses = [parse_address(member.address) for member in scene.validators]
    payload = encode_peers([Address(address.peer_id, NOWHERE_ADDRESS, 1) for address in named_addresses])
    return lambda *_: (FrameKind.PEERS, payload)


async def _without_the_first(devnet: Devnet) -> list[str]:
    """Kill the bootnode of all others and restart a second node: the rest must find each other without the bootnode."""
    first_certificate, restarted, watched_node = (node_of(devnet, member) for member in devnet.members[:3])
    final_before = (await _final_heights(devnet))[watched_node.label]
    for process in (first_certificate, restarted):
        await trio.to_thread.run_sync(processes.kill, process)
    processes.start(restarted)  # in this thread: a child dies with the thread that started it
    problems = ["the validators that were left did not find each other again"]
    with trio.move_on_after(HEAL_SECONDS):
        await _wait_for_final(devnet, watched_node.label, final_before + HEALED_BLOCKS)
        problems = []
    processes.start(first_certificate)
    await trio.to_thread.run_sync(lambda: asyncio.run(ready(devnet)))
    return problems


async def _wait_for_final(devnet: Devnet, name: str, tip_height: int) -> None:
    """Wait until that node has seen that final height."""
    while True:
        if (await _final_heights(devnet))[name] >= tip_height:
            return
        await trio.sleep(0.25)


async def _final_heights(devnet: Devnet) -> dict[str, int]:
    status = await trio.to_thread.run_sync(lambda: asyncio.run(ask_all(devnet)))
    return {node_status.name: node_status.final for node_status in status}


REQUESTS = (
    Attack("pings", "own", "PING, 5,000 a second to each validator, each of which has to be answered.",
           flood_action(5_000, lambda *_: (FrameKind.PING, bytes(8))), 700_000),
    Attack("statuses", "own", "STATUS with the tip that everybody knows, 5,000 a second to each validator.",
           flood_action(5_000, _status_message), 700_000),
    Attack("block_requests", "own", "GET_BLOCKS for the whole chain, 1,000 a second to each validator: a small "
           "question, a megabyte of an answer.", flood_action(1_000, _block_request), 200_000),
    Attack("certificate_requests", "own", "GET_CERTS from rounds of the past, and every other one from an epoch far "
           "ahead, 3,000 a second to each.", flood_action(3_000, _certificate_request), 500_000),
    Attack("small_records", "R1", "Records of twelve bytes, 4,000 a second to each validator: each has to be "
           "decrypted.", _record_action(WINDOW_UPDATE, 4_000, 100), 200_000),
    Attack("muxer_frames", "R1", "Records full of window updates, 5,458 in each, 300 a second to each validator: 10 ms "
           "of the loop for a record.", _record_action(FULL_RECORD, 300, 8), 20_000),
    Attack("poll_queries", "own", "Queries about the tip that everybody knows, 5,000 a second to each validator: more "
           "than it must answer.", flood_action(5_000, _poll_query, at_once=500), 700_000),
    Attack("unasked_chits", "own", "Answers to polls that nobody asked, 5,000 a second to each validator, from one "
           "that is no validator.", prepared_flood_action(5_000, _unasked_chits), 700_000),
    Attack("wanted_ids", "F5", "Eight identities of one client name 500 random blocks a second in queries and "
           "statuses. They filled the list of wanted blocks, and a leader's block was asked for 3 s late.",
           flood_action(500 / POLL_IDENTITIES, _wanted_id_message, identities=POLL_IDENTITIES), 200_000),
    Attack("far_votes", "N1", "Votes for a round a million ahead, 18,000 a second to each validator. They were dropped "
           "without a look at the signature, after 40 us of the loop each, and cost their sender nothing.",
           prepared_flood_action(18_000, _far_votes), 2_500_000, "votes for rounds far beyond the limit"),
    Attack("own_key_ballots", "N7", "Votes in the receiver's own name, near and far in turn, 5,000 a second to each "
           "validator. The signature was checked before round and duplicates, because a copy of the validator's key "
           "must be noticed.", prepared_flood_action(5_000, _own_key_ballots), 700_000, FORGED_RULE),
    Attack("forged_votes", "N1", "Votes for a round that is near, in the name of each validator, 5,000 a second: each "
           "must be checked.", prepared_flood_action(5_000, _forged_votes, at_once=200), 700_000, FORGED_RULE),
    Attack("forgers_with_new_names", "N8", "Forged votes until the node has enough, and back at once under a new "
           "identity: a ban alone ends nothing.", _forge_with_new_names, 200_000, FORGED_RULE),
    Attack("forged_certificates", "own", "Certificates for a round that is near, 32 a message, all signers named and "
           "no signature good; 100 a second.", prepared_flood_action(100, _forged_certificates, at_once=20), 20_000,
           FORGED_RULE),
    Attack("forged_heartbeats", "S68", "Heartbeats of real candidates for blocks to come, with random hashes and "
           "signatures, by two identities. 1,500 a second of each to each validator; without a penalty they took all "
           "CPU that the nodes had, and finality stood.",
           prepared_flood_action(GOSSIP_PER_SECOND, _forged_heartbeats, identities=GOSSIP_IDENTITIES), 250_000,
           GOSSIP_RULE,
           hogged=True),
    Attack("forged_evidence", "S72", "Two ballots of one round in the name of a validator, with random signatures; as "
           "many as of heartbeats.",
           prepared_flood_action(GOSSIP_PER_SECOND, _forged_evidence, identities=GOSSIP_IDENTITIES), 250_000,
           GOSSIP_RULE,
           hogged=True),
    Attack("made_up_answers", "R2", "Say that a tip 30 blocks ahead is known; when asked for it, answer with eight "
           "blocks of 50,000 extrinsics.", _make_up_answers, 5_000, "answers with unsealed blocks"),
)  # fmt: skip
NEWCOMERS = (
    Attack("identity_churn", "N8", "A new identity connects, says hello and leaves, as fast as one client can, at each "
           "validator in turn. Each cost the node 3.5 ms, and names are free; peers that come from where a validator "
           "is must still get in.", _churn_identities, 20_000, beside=(Door.PEERS,)),
    Attack("self_made_validators", "M2", "96 connections that prove a session key of their own make, to a node with 64 "
           "slots, and back when refused. Anybody can make a key: the half of the slots that is kept for validators "
           "must stay free for those of the epoch.", _claim_slots, 20_000, beside=(Door.SLOTS,),
           needs=ExtraProcess.STRICT_NODE),
)  # fmt: skip
FALSE_ADDRESSES = Attack(
    "false_addresses", "M3", "PEERS messages that name every validator at an address where nobody is, 6 a second to "
    "each. They replaced what had led to a connection. Afterwards the node that all others were started with dies and "
    "another one restarts: those that are left must still find it.",
    prepared_flood_action(6, _false_addresses, at_once=8),
    20_000, aftermath=_without_the_first,
)  # fmt: skip
