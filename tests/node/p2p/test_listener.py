"""The listening socket, before any connection is accepted."""

import socket

import pytest

from node.p2p.listener import listen

CROWD = 512


@pytest.mark.trio
async def test_a_crowd_at_the_door_keeps_nobody_from_connecting() -> None:
    (listener,) = await listen("127.0.0.1", 0)
    async with listener:
        at = listener.socket.getsockname()
        # No one accepts: each connects at once, because the system has room for it, or waits until it gives up.
        crowd = [socket.create_connection(at, timeout=10) for _ in range(CROWD)]
    for connection in crowd:
        connection.close()
