"""False addresses of honest peers."""

from __future__ import annotations

import asyncio

import trio

from devnet.launcher import processes
from devnet.launcher.layout import Devnet
from devnet.launcher.lifecycle import ready
from devnet.launcher.status import ask_all
from devnet.proofs.flood.attack import attack
from devnet.proofs.flood.network import node_of
from devnet.proofs.flood.peers.intruder import assail, flooding
from devnet.proofs.flood.scene import Scene
from node.p2p.addresses import Address, parse_address
from node.p2p.discovery import encode_peers
from node.p2p.frames import FrameKind

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
