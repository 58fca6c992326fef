"""Nodes announce their addresses, find each other again without the first contact, and report failures."""

import logging
from dataclasses import replace

import pytest
import trio

from node.p2p.address_book import Source
from node.p2p.addresses import Address
from node.p2p.discovery import encode_peers
from node.p2p.frames import FrameKind, encode_frame
from node.p2p.libp2p_transport import Libp2pTransport
from p2p_hosts import CONFIG, handshaker, identity, peer_ids, running, socket_to, transport, until

pytestmark = pytest.mark.trio


def book_of(node: Libp2pTransport, number: int) -> dict[Address, Source]:
    """Return a node's known addresses of another."""
    entry = node._address_book._entries.get(identity(number).peer_id)
    return {place.address: place.source for place in entry.known_places} if entry is not None else {}


async def test_m2_a_node_announces_what_it_is_told_to_and_never_0_0_0_0() -> None:
    anywhere = transport(5, config=replace(CONFIG, listen_host="0.0.0.0"))
    public = replace(CONFIG, public_addresses=("/ip4/203.0.113.9/tcp/30333",))
    async with running() as nursery:
        await anywhere.start(nursery)
        assert not any("0.0.0.0" in address for address in anywhere.addresses)
        assert f"/ip4/127.0.0.1/tcp/{anywhere.port}/p2p/{anywhere.peer_id}" in anywhere.addresses
        first, told = transport(1, config=public), Address(identity(1).peer_id, "203.0.113.9", 30333)
        await first.start(nursery)
        assert first.addresses == (str(told),)
        dialled = f"/ip4/127.0.0.1/tcp/{first.port}/p2p/{first.peer_id}"
        second = transport(2)
        await second.start(nursery)
        second.connect(dialled)
        await until(lambda: book_of(second, 1).get(told) is Source.OWN_WORD)
        third = transport(3, second)
        await third.start(nursery)
        await until(lambda: book_of(third, 1).get(told) is Source.HEARSAY)


async def test_m3_addresses_that_led_to_peers_are_kept_and_lead_there_again_without_a_bootnode() -> None:
    kept: list[Address] = []
    async with running() as nursery:
        first = transport(1)
        await first.start(nursery)
        second = transport(2, first, config=replace(CONFIG, keep=kept.extend))
        await second.start(nursery)
        await until(lambda: peer_ids(second) == {first.peer_id})
        await second.stop()
        assert kept == []  # the operator's addresses need no storage
        third = transport(3, config=replace(CONFIG, known=[Address(first.peer_id, "127.0.0.1", first.port)]))
        await third.start(nursery)
        await until(lambda: peer_ids(third) == {first.peer_id})


async def test_m3_a_liar_does_not_keep_a_healed_network_apart() -> None:
    """A third node names two connected peers at dead addresses. Then they lose each other."""
    kept: list[list[Address]] = []
    async with running() as nursery:
        boot = transport(1)
        await boot.start(nursery)
        nodes = [
            transport(number, boot, config=replace(CONFIG, keep=lambda a: kept.append(list(a)))) for number in (2, 3)
        ]
        for node in nodes:
            await node.start(nursery)
        await until(lambda: all(len(node.peers()) == 2 for node in nodes))
        await boot.stop()
        for node in nodes:
            liar, _ = await handshaker(9).dial(await socket_to(node), node.peer_id)
            for number in range(72):
                lies = [Address(identity(honest).peer_id, "127.0.77.99", 1 + number) for honest in (2, 3)]
                await liar.send(encode_frame([(FrameKind.PEERS, encode_peers(lies))]))
        await until(lambda: all(len(book_of(node, other)) > 1 for node, other in zip(nodes, (3, 2), strict=True)))
        for node in nodes:
            for link in list(node._peer_table):
                await link.connection.close()
        await until(
            lambda: all({2, 3} & {n for n in (2, 3) if identity(n).peer_id in peer_ids(node)} for node in nodes)
        )


async def test_f2_a_bootnode_that_cannot_be_reached_or_is_somebody_else_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running() as nursery:
        node = transport(1)
        await node.start(nursery)
        lonely = transport(2)
        await lonely.start(nursery)
        with caplog.at_level(logging.WARNING, logger="node.p2p"):
            lonely.connect(f"/ip4/127.0.0.1/tcp/{node.port}/p2p/{identity(7).peer_id}")
            lonely.connect(f"/ip4/127.0.0.1/tcp/1/p2p/{identity(8).peer_id}")
            with trio.fail_after(10):
                await until(lambda: lonely.counters["dials_failed"] >= 2)
        assert any("the handshake fails" in message for message in caplog.messages)
        assert any(identity(8).peer_id in message and "cannot be reached" in message for message in caplog.messages)
