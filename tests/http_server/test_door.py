"""A door (the connections of a server) without a server: closed, and as the transport of a protocol."""

import asyncio
from unittest.mock import Mock, call

import pytest

from http_server.door import HEAD_BYTES_MAX, ConnectionDoor, DoorLimits, PacedTransport, Visitor
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


def test_what_happens_to_a_connection_reaches_the_protocol_behind_the_door() -> None:
    async def main() -> None:
        real, inner = Mock(spec=asyncio.Transport), Mock(spec=asyncio.Protocol)
        real.get_extra_info.return_value = (HOST, 1)
        visitor = ConnectionDoor(lambda: inner, DoorLimits(PLACES, 20.0))()
        assert isinstance(visitor, Visitor)
        visitor.connection_made(real)
        inner.reset_mock()
        inner.eof_received.return_value = True
        assert visitor.eof_received() is True
        visitor.pause_writing()
        visitor.resume_writing()
        assert inner.method_calls == [call.eof_received(), call.pause_writing(), call.resume_writing()]
        visitor.buffer_updated(HEAD_BYTES_MAX - 1)
        visitor.buffer_updated(1)
        assert [len(heard.args[0]) for heard in inner.data_received.call_args_list] == [HEAD_BYTES_MAX - 1, 1]
        real.abort.assert_not_called()
        visitor.buffer_updated(1)
        real.abort.assert_called_once()
        assert inner.data_received.call_count == 2
        visitor.connection_lost(None)

    asyncio.run(asyncio.wait_for(main(), 10))


def test_a_connection_that_used_up_its_share_waits_for_its_turn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr("http_server.door.STEP_SECONDS_MIN", 1_000.0)
        monkeypatch.setattr("http_server.door.SHARE_SECONDS", 2_000.0)
        real = Mock(spec=asyncio.Transport)
        real.get_extra_info.return_value = (HOST, 1)
        visitor = ConnectionDoor(Mock(side_effect=asyncio.Protocol), DoorLimits(PLACES, 20.0))()
        assert isinstance(visitor, Visitor)
        visitor.connection_made(real)
        for share in (0, 1):
            visitor.buffer_updated(1)
            assert real.pause_reading.call_count == share
            visitor.buffer_updated(1)
            turn = visitor._turn
            assert turn is not None
            visitor.buffer_updated(1)
            assert visitor._turn is turn
            assert real.pause_reading.call_count == share + 1
            await turn
            assert real.resume_reading.call_count == share + 1
        assert visitor.caller.used == 6_000.0
        visitor.connection_lost(None)

    asyncio.run(asyncio.wait_for(main(), 10))
