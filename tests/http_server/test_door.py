"""A door without a server behind it: closed, and as the transport of a protocol."""

import asyncio
from unittest.mock import Mock, call

from http_server.door import ConnectionDoor, DoorLimits, PacedTransport
from http_server.places import PlaceLimits

HOST = "127.0.0.1"
PLACES = PlaceLimits(6, 3, 2)


def test_a_door_that_is_closed_lets_nobody_in() -> None:
    async def main() -> None:
        make, problems = Mock(side_effect=asyncio.Protocol), Mock()
        door, loop = ConnectionDoor(make, DoorLimits(PLACES, 20.0)), asyncio.get_running_loop()
        loop.set_exception_handler(problems)
        listener = await loop.create_server(door, HOST, 0)
        door.close()
        client = await asyncio.open_connection(*listener.sockets[0].getsockname())
        assert await client[0].read() == b""
        assert len(door) == 0
        make.assert_not_called()
        problems.assert_not_called()
        with door.serving(None):
            client[1].close()
        listener.close()

    asyncio.run(asyncio.wait_for(main(), 10))


def test_what_a_protocol_says_of_its_writing_reaches_the_transport() -> None:
    real = Mock(spec=asyncio.Transport)
    paced = PacedTransport(real)
    paced.set_write_buffer_limits(2, 1)
    paced.write_eof()
    assert real.method_calls == [call.set_write_buffer_limits(2, 1), call.write_eof()]
