"""Transports on loopback: they find each other, exchange, survive restarts, and keep strangers out."""

import random
from dataclasses import replace

import pytest
import trio

from node.p2p import address_book
from node.p2p.admission import AdmissionLimits
from node.p2p.frames import FrameKind
from node.p2p.handshake import HandshakeFailed
from node.p2p.hello import GoodbyeReason, Role
from node.p2p.inbox import InboxMessage
from node.p2p.libp2p_transport import Libp2pTransport, TransportConfig
from node.p2p.transport import PeerDown, PeerUp, PortInUse, Transport, TransportError
from p2p_hosts import CONFIG, GENESIS, handshaker, identity, peer_ids, running, socket_to, transport, until

pytestmark = pytest.mark.trio


async def test_three_nodes_find_each_other_through_one_and_exchange_every_class() -> None:
    async with running() as nursery:
        first = transport(1)
        await first.start(nursery)
        nodes = [first, transport(2, first), transport(3, first)]
        for node in nodes[1:]:
            await node.start(nursery)
        await until(lambda: all(len(node.peers()) == 2 for node in nodes))
        block = random.Random(0).randbytes(2_000_000)
        assert first.broadcast(FrameKind.BLOCK, block) == 2
        assert first.broadcast(FrameKind.TX, b"tx", exclude={nodes[2].peer_id}) == 1
        assert await nodes[1].inbound.receive() == InboxMessage(first.peer_id, FrameKind.BLOCK, block)
        assert await nodes[1].inbound.receive() == InboxMessage(first.peer_id, FrameKind.TX, b"tx")
        assert await nodes[2].inbound.receive() == InboxMessage(first.peer_id, FrameKind.BLOCK, block)
        assert nodes[1].send(nodes[2].peer_id, FrameKind.GET_BLOCKS, b"1..2")
        assert await nodes[2].inbound.receive() == InboxMessage(nodes[1].peer_id, FrameKind.GET_BLOCKS, b"1..2")
        assert len(nodes[2].inbound) == 0
        assert [node.faults for node in nodes] == [0, 0, 0]


async def test_it_is_a_transport() -> None:
    node: Transport = transport(1)
    assert node.send("12D3KooWnobody", FrameKind.VOTE, b"") is False
    assert node.broadcast(FrameKind.VOTE, b"") == 0
    with pytest.raises(ValueError, match="transport's own"):
        node.send("12D3KooWnobody", FrameKind.PING, b"")
    with pytest.raises(TransportError, match="32 bytes"):
        Libp2pTransport(TransportConfig(genesis=b"short"), identity(9), lambda *_: True, random.Random(0))


async def test_both_dialling_at_once_leaves_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address_book, "HIGHER_ID_DELAY_SECONDS", 0.0)
    async with running() as nursery:
        nodes = [transport(number) for number in range(1, 6)]
        for node in nodes:
            await node.start(nursery)
        for node in nodes:
            for other in nodes:
                if other is not node:
                    node.connect(other.address)
        await until(lambda: all(len(node.peers()) == 4 for node in nodes))
        await until(lambda: sum(len(node._admission) for node in nodes) == 10)
        for node in nodes:
            outbound = {info.peer: info.outbound for info in node.peers()}
            for other in nodes:
                if other is not node:
                    mirrored = {info.peer: info.outbound for info in other.peers()}[node.peer_id]
                    assert outbound[other.peer_id] is not mirrored
        assert [node.faults for node in nodes] == [0] * 5


async def test_a_restarted_node_is_redialled() -> None:
    async with running() as nursery:
        stays, goes = transport(1), transport(2)
        await goes.start(nursery)
        stays.connect(goes.address)
        await stays.start(nursery)
        assert await stays.events.receive() == PeerUp(goes.peer_id, Role.FULL)
        for _ in range(2):
            await goes.stop()
            assert await stays.events.receive() == PeerDown(goes.peer_id, "peer left: SHUTDOWN")
            goes = transport(2, config=replace(CONFIG, listen_port=goes.port))
            await goes.start(nursery)
            assert await stays.events.receive() == PeerUp(goes.peer_id, Role.FULL)
        goes.broadcast(FrameKind.VOTE, b"again")
        assert await stays.inbound.receive() == InboxMessage(goes.peer_id, FrameKind.VOTE, b"again")


@pytest.mark.parametrize("genesis", [bytes(32), GENESIS[:31] + b"x"], ids=["other protocol id", "same protocol id"])
async def test_another_chain_is_refused_with_a_reason_and_left_alone(genesis: bytes) -> None:
    async with running() as nursery:
        ours, theirs = transport(1), transport(2, config=replace(CONFIG, genesis=genesis))
        await theirs.start(nursery)
        ours.connect(theirs.address)
        await ours.start(nursery)
        await until(lambda: ours.counters["dials_failed"] == 1)
        await until(lambda: len(theirs._admission) == 0)
        assert ours.peers() == theirs.peers() == ()
        assert ours._address_book.due(trio.current_time() + address_book.WRONG_CHAIN_BACKOFF_SECONDS - 5) == []
        dialler = handshaker(3, genesis=GENESIS, protocol=theirs.protocol)
        with pytest.raises(HandshakeFailed, match="WRONG_CHAIN"):
            await dialler.dial(await socket_to(theirs), theirs.peer_id)


async def test_the_caller_judges_proofs_and_its_exceptions_refuse() -> None:
    seen: list[tuple[str, Role, bytes]] = []

    def judge(peer: str, role: Role, proof: bytes) -> bool:
        seen.append((peer, role, proof))
        if proof == b"bomb":
            raise KeyError(proof)
        return proof == b"good"

    async with running() as nursery:
        node = transport(1, on_hello=judge)
        await node.start(nursery)
        for number, proof in [(2, b"bad"), (3, b"bomb"), (4, b"good")]:
            peer = transport(number, node, config=replace(CONFIG, hello=proof, role=Role.VALIDATOR))
            await peer.start(nursery)
            await until(lambda peer=peer: bool(peer.counters["dials_failed"] or peer.peers()))  # type: ignore[misc]
            assert bool(peer.peers()) == (proof == b"good")
            assert {claim for claim in seen if claim[0] == peer.peer_id} == {(peer.peer_id, Role.VALIDATOR, proof)}
            if proof != b"good":
                await peer.stop()
        assert [info.role for info in node.peers()] == [Role.VALIDATOR]


async def test_a_port_in_use_is_refused_with_a_clear_error() -> None:
    async with running() as nursery:
        node = transport(1)
        await node.start(nursery)
        second = transport(2, config=replace(CONFIG, listen_port=node.port))
        with pytest.raises(PortInUse, match=f"127.0.0.1:{node.port}"):
            await second.start(nursery)


async def test_banned_is_closed_and_refused() -> None:
    async with running() as nursery:
        node = transport(1)
        await node.start(nursery)
        peer = transport(2, node)
        await peer.start(nursery)
        await until(lambda: bool(node.peers()))
        node.ban(peer.peer_id, 1000.0)
        assert await peer.events.receive() == PeerUp(node.peer_id, Role.FULL)
        assert await peer.events.receive() == PeerDown(node.peer_id, "peer left: BANNED")
        await until(lambda: peer.counters["dials_failed"] > 0)
        assert node.peers() == ()
        with pytest.raises(HandshakeFailed, match="peer refused: BANNED"):
            await handshaker(2).dial(await socket_to(node), node.peer_id)


async def test_own_address_is_recognised() -> None:
    async with running() as nursery:
        node = transport(1)
        await node.start(nursery)
        with pytest.raises(HandshakeFailed, match="SELF"):
            await handshaker(1).dial(await socket_to(node), node.peer_id)


async def test_someone_else_at_the_address_is_not_taken_for_the_peer() -> None:
    async with running() as nursery:
        node = transport(1)
        await node.start(nursery)
        with pytest.raises(HandshakeFailed):
            await handshaker(3).dial(await socket_to(node), transport(2).peer_id)


async def test_inbound_caps_leave_room_for_validators() -> None:
    limits = replace(AdmissionLimits.devnet(), max_inbound=2, reserved_for_validators=1)
    async with running() as nursery:
        in_office = identity(4).peer_id
        node = transport(1, config=replace(CONFIG, admission=limits), is_validator=lambda peer: peer == in_office)
        await node.start(nursery)
        await handshaker(2).dial(await socket_to(node), node.peer_id)
        with pytest.raises(HandshakeFailed) as refused:
            await handshaker(3).dial(await socket_to(node), node.peer_id)
        assert refused.value.reason is GoodbyeReason.TOO_MANY_PEERS
        claims = transport(5, node, config=replace(CONFIG, role=Role.VALIDATOR))
        await claims.start(nursery)
        await until(lambda: claims.counters["dials_failed"] > 0)
        assert not node.counters["faults"]
        validator = transport(4, node, config=replace(CONFIG, role=Role.VALIDATOR))
        await validator.start(nursery)
        await until(lambda: validator.peer_id in peer_ids(node))
