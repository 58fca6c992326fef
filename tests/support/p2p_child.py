"""A node in a separate process for tests. It prints its address, answers every POLL_QUERY, and runs until killed.

Usage: python p2p_child.py NUMBER PORT [BOOTNODE]
"""

import sys
from dataclasses import replace

import trio

from node.p2p.frames import FrameKind
from p2p_hosts import CONFIG, transport


async def main(number: int, port: int, bootnodes: list[str]) -> None:
    node = transport(number, config=replace(CONFIG, listen_port=port))
    async with trio.open_nursery() as nursery:
        await node.start(nursery)
        for bootnode in bootnodes:
            node.connect(bootnode)
        print(node.address, flush=True)  # noqa: T201 - the parent reads it
        async for message in node.inbound:
            if message.kind is FrameKind.POLL_QUERY:
                node.send(message.peer, FrameKind.CHITS, message.payload)


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
