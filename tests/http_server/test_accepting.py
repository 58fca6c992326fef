"""Connections that the system cannot accept: they do not fill the log with traces."""

import asyncio
import errno
import logging
import subprocess
import sys

import pytest
from aiohttp import web

from http_server.door import DoorLimits
from http_server.places import PlaceLimits
from http_server.server import HttpServer, QuietAccepting

FULL = """
import asyncio, resource, socket
from aiohttp import web
from http_server.door import DoorLimits
from http_server.server import HttpServer
from http_server.places import PlaceLimits

async def main():
    server = HttpServer(web.Application(), DoorLimits(PlaceLimits(500, 500), 20.0), 20.0)
    port = await server.listen("127.0.0.1", 0)
    held = [socket.create_connection(("127.0.0.1", port)) for _ in range(30)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    await asyncio.sleep(2.5)
    print("inside", len(server.door))

asyncio.run(main())
"""


def test_no_stack_trace_is_logged_where_files_are_used_up() -> None:
    ended = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout.startswith("inside ")
    assert int(ended.stdout.split()[1]) < 30
    assert "Traceback" not in ended.stderr
    assert len(ended.stderr.splitlines()) == 1, ended.stderr


def test_a_system_without_files_is_one_line_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        server = HttpServer(web.Application(), DoorLimits(PlaceLimits(6, 3), 20.0), 20.0)
        await server.listen("127.0.0.1", 0)
        loop = asyncio.get_running_loop()
        full = {"message": "no", "exception": OSError(errno.EMFILE, "Too many open files"), "socket": None}
        with caplog.at_level(logging.WARNING):
            for _ in range(100):
                loop.call_exception_handler(full)
            assert [record.exc_info for record in caplog.records] == [None]
            loop.call_exception_handler({"message": "other", "exception": OSError(errno.EIO, "broken"), "socket": None})
            loop.call_exception_handler(
                {"message": "a file", "exception": OSError(errno.EMFILE, "Too many open files")}
            )
        assert [bool(record.exc_info) for record in caplog.records] == [False, True, True]
        assert isinstance(loop.get_exception_handler().__self__, QuietAccepting)  # type: ignore[union-attr]
        await server.close()

    asyncio.run(asyncio.wait_for(main(), 30))
