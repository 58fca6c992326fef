"""The attacks: bounded, named, and valid where the attack needs validity."""

import random
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from consensus.wire import MESSAGE, Vote
from devnet.launcher import layout
from devnet.launcher.folder import DevnetError
from devnet.proofs.flood import __main__ as flood
from devnet.proofs.flood import intruder as intruders
from devnet.proofs.flood import network
from devnet.proofs.flood import rpc_attacks as crowds
from devnet.proofs.flood.attack import Attack, AttackAccount, AttackScene, Door
from devnet.proofs.flood.attacker import ATTACKS
from devnet.proofs.flood.clients import BadAnswerError, HttpAnswer, parse_answer
from devnet.proofs.flood.course import Course
from devnet.proofs.flood.intruder import connect_intruder, fresh_identity
from devnet.proofs.flood.network import lay_out, node_of
from devnet.proofs.flood.peer_blocks import (
    REMARK_BYTES,
    SIGNATURE_MARK,
    TINY_COUNT,
    FloodSigner,
    header_naming,
    tiny_body,
)
from devnet.proofs.flood.peer_messages import FULL_RECORD, WINDOW_UPDATE, encoded_ballot
from devnet.proofs.flood.rpc_attacks import FORGED, FUTURES_AT_ONCE, LONG_REMARK_BYTES, MAX_REQUEST_BYTES, nested_batch
from devnet.stage.report import Narrator
from genesis import dev_accounts
from genesis.chain import runtime_for
from node.p2p.admission import AdmissionLimits
from node.p2p.channel import MAX_RECORD_PLAINTEXT_BYTES
from node.p2p.frames import MAX_SMALL_PAYLOAD_BYTES, FrameKind
from node.pool.heartbeat_pool import HEARTBEAT
from node.rpc.server import ServerOptions
from p2p_hosts import CONFIG, running, transport
from runtime.blocks.block import BLOCK, HEADER, extrinsics_root
from runtime.blocks.evidence import EVIDENCE, DoubleBallot
from runtime.blocks.extrinsic import decode_extrinsic
from runtime.frame.weights import SIGNED_LENGTH_MAX_BYTES
from runtime.pallets.system import System
from runtime.pallets.utility import Utility
from streams.yamux import YamuxSession
from wallet.suri import keypair_from_suri


@pytest.fixture
def scene(tmp_path: Path) -> AttackScene:
    return AttackScene(layout.create(tmp_path, 2, any_ports=True), 1.0, 100, random.Random(1))


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_attack_says_what_it_tries_and_is_bounded(attack: Attack) -> None:
    assert attack.tries.endswith(".")
    assert attack.finding
    assert 0 < attack.messages_max <= 2_500_000
    assert attack.doors[0] == "rpc"


def test_every_finding_that_floods_try_is_tried() -> None:
    tried = {attack.finding for attack in ATTACKS.values()}
    audited = "C1 C2 C3 M1 M2 M3 M4 M5 M6 M7 N1 N2 N3 N3b N4 N5 N6 N7 N8 N9 F5 A15 A16"
    assert set(audited.split()) <= tried


@pytest.mark.trio
async def test_no_more_is_given_out_than_allowed(scene: AttackScene, autojump_clock: trio.testing.MockClock) -> None:
    given = [0, 0]

    async def take(place: int) -> None:
        async for due in scene.paced(1e6, at_once=7):
            assert 0 < due <= 7
            given[place] += due
            await trio.sleep(0.01)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take, 0)
        nursery.start_soon(take, 1)
    assert sum(given) == 100
    assert all(given)


@pytest.mark.trio
async def test_what_is_paced_is_as_fast_as_it_says(scene: AttackScene, autojump_clock: trio.testing.MockClock) -> None:
    began, given = trio.current_time(), 0
    async for due in scene.paced(10, at_once=5):
        given += due
    assert given == 100
    assert 9.8 < trio.current_time() - began < 10.2


def test_the_account_goes_through_a_line() -> None:
    account = AttackAccount(3, 400, cut_seconds=[None, 1.5], violations=["text"])
    account.outcomes["goodbye"] += 2
    assert AttackAccount.from_json(account.to_json()) == account


def test_tiny_extrinsics_are_a_valid_body() -> None:
    body, root = tiny_body()
    data = HEADER.encode(header_naming(b"\1" * 32, 7, root, "Alice")) + body
    block = BLOCK.decode(data)
    assert len(block.extrinsics) == TINY_COUNT
    assert block.header.extrinsics_root == extrinsics_root(block.extrinsics) == root


def test_extrinsics_fit_a_message_and_decode(scene: AttackScene) -> None:
    signer, key = FloodSigner.of(scene), keypair_from_suri("//Ferdie")
    raw = signer.signed(System.remark(remark=bytes(REMARK_BYTES)), key, nonce=3, tip=9)
    assert len(raw) <= MAX_SMALL_PAYLOAD_BYTES
    decoded = decode_extrinsic(runtime_for("devnet", is_development=True), raw)
    assert decoded.authorization is not None
    assert (decoded.authorization.extra.nonce, decoded.authorization.extra.tip) == (3, 9)
    assert signer.unsigned(System.remark(remark=b""), dev_accounts.stash("Alice")).count(SIGNATURE_MARK) == 1


def test_a_forged_ballot_decodes() -> None:
    message = MESSAGE.decode(encoded_ballot(2, 9, b"\7" * 32))
    assert isinstance(message, Vote)
    assert (message.vote.ballot.epoch, message.vote.ballot.round, message.vote.voter) == (2, 9, b"\7" * 32)


@pytest.mark.trio
@pytest.mark.parametrize("name", ["forged_heartbeats", "forged_evidence"])
async def test_forged_gossip_is_what_a_node_must_check(
    scene: AttackScene, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It names real keys, a height that nodes accept, and the present round. Its signatures are invalid."""
    made: list[Any] = []

    async def assail(_scene: AttackScene, members: Any, serve: Any, identities: int) -> None:
        made.append((members, serve, identities))

    monkeypatch.setattr(intruders, "connect_and_attack", assail)
    monkeypatch.setattr(intruders, "flooding", lambda _scene, per_second, make, _: (per_second, make))
    await ATTACKS[name].act(scene)
    ((members, (per_second, make), identities),) = made
    assert (members, per_second, identities) == (scene.validators, 1_500, 2)
    intruder = SimpleNamespace(peer_status=SimpleNamespace(final_height=100), position=(3, 7))
    frames = [make(intruder, number) for number in range(40)]
    accused = set()
    for kind, body in frames:
        if name == "forged_heartbeats":
            seen = HEARTBEAT.decode(body).seen
            assert (kind, seen.number in range(101, 161)) == (FrameKind.HEARTBEAT, True)
            accused.add(seen.stash)
        else:
            found = EVIDENCE.decode(body)
            assert kind is FrameKind.EVIDENCE
            assert isinstance(found, DoubleBallot)
            assert [(ballot.epoch, ballot.round) for ballot in (found.first, found.second)] == [(3, 7)] * 2
            assert found.first != found.second
            accused.add(found.accused)
    role = dev_accounts.stash if name == "forged_heartbeats" else session_key
    assert accused == {role(member.name) for member in scene.validators}
    assert len(set(frames)) == 40


def session_key(name: str) -> bytes:
    return dev_accounts.key(name, dev_accounts.SESSION)


@pytest.mark.parametrize(
    ("answer", "is_whole"),
    [
        (b"", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", False),
        (b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 3\r\nX: y\r\n\r\nabc", True),
        (b"HTTP/1.1 204 OK\r\n\r\n", True),
    ],
)
def test_an_answer_is_whole_when_its_body_is(answer: bytes, is_whole: bool) -> None:
    assert crowds._is_whole(answer) is is_whole


def test_crumbs_are_chunks_of_a_byte() -> None:
    assert crowds.TINY_CHUNKS.count(b"1\r\n") * len(b"1\r\na\r\n") == len(crowds.TINY_CHUNKS)
    assert len(crowds.ADDRESSES) * crowds.SUBSCRIBERS_OF_ADDRESS == ServerOptions().max_connections


def test_busy_processors_are_what_an_attack_or_the_run_asks_for(scene: AttackScene) -> None:
    """Proofs have to succeed beside them."""
    plain, hogged, proving = (ATTACKS[name] for name in ("parse_bomb", "forged_evidence", "proving_crowd"))
    usual = Course(scene.devnet, 1.0, Narrator(1))
    busy = replace(usual, is_hogged=True)
    assert [usual._is_hogged(attack) for attack in (plain, hogged)] == [False, True]
    assert busy._is_hogged(plain)
    assert usual._judged_doors(plain) == plain.doors
    assert busy._judged_doors(plain) == (*plain.doors, Door.PROOFS)
    assert usual._judged_doors(hogged) == (*hogged.doors, Door.PROOFS)
    assert usual._judged_doors(proving) == proving.doors
    assert proving.doors.count(Door.PROOFS) == 1


@pytest.mark.trio
async def test_an_attacker_gives_way_to_the_nodes_but_beside_busy_processors(
    scene: AttackScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    async def opened(words: list[str], **_: Any) -> Any:
        started.append(words)
        raise EOFError

    monkeypatch.setattr(trio.lowlevel, "open_process", opened)
    usual = Course(scene.devnet, 7.0, Narrator(1))
    for course, name in (
        (usual, "parse_bomb"),
        (usual, "proving_crowd"),
        (replace(usual, is_hogged=True), "parse_bomb"),
    ):
        with pytest.raises(EOFError):
            await course._attacked(ATTACKS[name])
    assert [words[-3:] for words in started] == [
        ["parse_bomb", "7.0", "10"],
        ["proving_crowd", "7.0", "0"],
        ["parse_bomb", "7.0", "0"],
    ]


@pytest.mark.parametrize("words", [(), ("--hog",)])
def test_the_run_keeps_processors_busy_when_it_is_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    ran: list[Course] = []

    async def live(course: Course, ready: Callable[[trio.lowlevel.TrioToken], None]) -> None:
        ready(trio.lowlevel.current_trio_token())
        with course.cancel_scope:
            await trio.sleep_forever()

    async def judged(course: Course, _: Attack) -> SimpleNamespace:
        ran.append(course)
        return SimpleNamespace(misses=[])

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(network, "start_nodes", lambda _: None)
    monkeypatch.setattr(Course, "live", live)
    monkeypatch.setattr(Course, "judged", judged)
    proof = replace(flood.PROOF, line=lambda _: "")
    assert proof.main(["--folder", str(tmp_path / "net"), "--seconds", "7", "--only", "pings", *words]) == 0
    assert [(course.is_hogged, course.seconds) for course in ran] == [(bool(words), 7.0)]


@pytest.mark.parametrize("is_ready", [False, True])
def test_a_course_that_breaks_off_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_ready: bool) -> None:
    async def live(_: Course, ready: Callable[[trio.lowlevel.TrioToken], None]) -> None:
        if is_ready:
            ready(trio.lowlevel.current_trio_token())
        raise DevnetError("the RPC process did not start again")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(network, "start_nodes", lambda _: None)
    monkeypatch.setattr(Course, "live", live)
    with pytest.raises(DevnetError):
        flood.PROOF.main(["--folder", str(tmp_path / "net"), "--only", "pings"])


def test_all_but_the_first_node_begin_with_the_first(tmp_path: Path) -> None:
    net = lay_out(tmp_path / "net")
    told = [node_of(net, member).arguments.count("--bootnodes") for member in net.members]
    assert told == [0, 1, 1, 1]
    assert net.members[0].address in node_of(net, net.members[3]).arguments


def test_answers_of_http() -> None:
    assert parse_answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") == HttpAnswer(200, b"{}")
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"
    assert parse_answer(chunked) == HttpAnswer(200, b"abcd")
    with pytest.raises(BadAnswerError):
        parse_answer(b"")


@pytest.mark.trio
async def test_an_intruder_knows_that_it_was_cut_off(scene: AttackScene) -> None:
    config = replace(CONFIG, genesis=scene.genesis, admission=AdmissionLimits.devnet())
    async with running() as nursery:
        node = transport(1, config=config)
        await node.start(nursery)
        member = replace(scene.victim, address=node.address)
        intruder = await connect_intruder(scene, member, fresh_identity())
        nursery.start_soon(intruder.listen)
        assert await intruder.send([(FrameKind.VOTE, b"x")] * 600)
        for _ in range(600):
            assert (await node.inbound.receive()).payload == b"x"
        assert intruder.cut_seconds is None
        (info,) = node.peers()
        node.ban(info.peer, 9.0)
        await intruder.gone.wait()
        assert not await intruder.send([(FrameKind.VOTE, b"x")])
        assert scene.close().cut_seconds == [intruder.cut_seconds]
        assert scene.account.messages == 600
        assert scene.account.outcomes["goodbye"] == 1
        await intruder.leave()


def test_the_longest_extrinsic_decodes_and_a_batch_of_them_is_one_request(scene: AttackScene) -> None:
    raw = nested_batch(scene)
    assert raw.count(SIGNATURE_MARK) == 1
    assert 100_000 < len(raw) <= SIGNED_LENGTH_MAX_BYTES
    assert decode_extrinsic(runtime_for("devnet", is_development=True), raw).authorization is not None
    assert FORGED * 2 * len(raw) < MAX_REQUEST_BYTES
    assert FUTURES_AT_ONCE * 2 * (2 * LONG_REMARK_BYTES + 1_000) < MAX_REQUEST_BYTES
    long = Utility.batch(calls=(System.remark(remark=bytes(LONG_REMARK_BYTES)),) * 2)
    assert len(FloodSigner.of(scene).signed(long, keypair_from_suri("//Ferdie"), 7)) <= SIGNED_LENGTH_MAX_BYTES


def test_a_full_record_holds_nothing_but_frames_of_the_muxer() -> None:
    session = YamuxSession(initiator=False)
    session.feed(struct.pack(">BBHII", 0, 1, 1, 1, 0))
    assert len(FULL_RECORD) <= MAX_RECORD_PLAINTEXT_BYTES < len(FULL_RECORD) + len(WINDOW_UPDATE)
    assert len(session.feed(FULL_RECORD)) == 5_459
