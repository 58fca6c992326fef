"""Customers in their containers, over real HTTP to real daemons on real pallets; the engine is a fake."""

import asyncio
import contextlib
import gc
import os
import re
import shutil
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from entered_lease import entering
from error_codes import raises_code
from gpu_tasks.client.commands.shell import forward
from gpu_tasks.client.tasks.tunnel import copy_in, copy_out
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.provider.execution.containers.refusals import ContainerError
from gpu_tasks.provider.tunnel import program_access, tunnel_server
from gpu_tasks.provider.tunnel.access import TunnelTarget, TunnelTargets
from gpu_tasks.provider.tunnel.program_access import PROGRAMS_OF_ROOM_MAX, RunningPrograms
from gpu_tasks.provider.tunnel.streams import COPIES_MAX, CopySpool
from gpu_tasks.tunnel.frames import ERR, OUT, Converse, RunProgram, TunnelAsk
from gpu_tasks.tunnel.handshake import READY, SealedLine, TunnelName
from gpu_tasks.tunnel.tunnel import Tunnel, TunnelError, TunnelStream
from provider_chain import CUSTOMER_SEAL
from simulation.chains.market_chain import GENESIS_HASH

ECHO = ("cat", "-")
NOWHERE = re.compile("is not under|too deep")


async def begun(tunnel: Tunnel, *command: str, window: tuple[int, int] | None = None) -> TunnelStream:
    rows, columns = window or (0, 0)
    return await tunnel.open(RunProgram(command, is_terminal=window is not None, rows=rows, columns=columns))


async def said(stream: Any) -> dict[int, bytes]:
    found = {OUT: b"", ERR: b""}
    while (piece := await stream.read()) is not None:
        found[piece[0]] += piece[1]
    return found


async def test_a_program_is_run_with_its_input_outputs_and_exit_code(tmp_path: Path) -> None:
    async with entering(tmp_path) as entered:
        async with entered.tunnel() as tunnel:
            stream = await begun(tunnel, *ECHO)
            await stream.write(b"words ")
            await stream.write(b"err that is one")
            await stream.end_input()
            assert await said(stream) == {OUT: b"cat -\nWORDS ", ERR: b"ERR THAT IS ONE"}
            assert (await stream.end).code == 7
        (program,) = entered.engine.inside.streams
        assert program.command == ECHO
        assert program.is_closed


async def test_a_terminal_has_the_size_of_the_window(tmp_path: Path) -> None:
    async with entering(tmp_path) as entered:
        async with entered.tunnel() as tunnel:
            stream = await begun(tunnel, "sh", window=(24, 80))
            assert await stream.read() == (OUT, b"sh\n")
            (program,) = entered.engine.inside.streams
            assert (program.is_terminal, program.size) == (True, (24, 80))
            await stream.resize(50, 0)
            await stream.write(b"x")
            assert await stream.read() == (OUT, b"X")
            assert program.size == (50, 1)
        for _ in range(100):
            await asyncio.sleep(0.01)
            if program.is_closed:
                break
        assert program.is_closed, "it ends with the connection"


async def test_files_go_in_and_out(tmp_path: Path) -> None:
    async with entering(tmp_path) as entered:
        folder = tmp_path / "data"
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / "rows").write_bytes(b"r" * 300_000)
        (folder / "link").symlink_to("/etc/passwd")
        async with entered.tunnel() as tunnel:
            await copy_in(tunnel, folder, "workspace/in")
            await copy_in(tunnel, folder / "deep" / "rows", "workspace")
            names = await copy_out(tunnel, "workspace/model", tmp_path / "back")
            with raises_code(TunnelError, "file_exists"):
                await copy_out(tunnel, "workspace/model", tmp_path / "back")
        files = entered.engine.inside.files
        assert files["workspace/in/data/deep/rows"] == b"r" * 300_000
        assert files["workspace/rows"] == b"r" * 300_000
        assert not any("link" in name for name in files)
        assert names == ["model/weights"]
        assert (tmp_path / "back" / "model" / "weights").read_bytes() == b"w" * 100_000
        spool = entered.village.miner(entered.stash).daemon.settings.base_path / "tunnel"
        assert not list(spool.iterdir()), "nothing is left of copies"


@pytest.mark.parametrize(
    "path", ["etc/passwd", "workspace/../etc", "", "in/words", "secrets/x", "workspace/\0", "workspace/" + "a/" * 20]
)
async def test_files_are_put_and_fetched_under_its_own_folders_alone(tmp_path: Path, path: str) -> None:
    async with entering(tmp_path) as entered:
        (tmp_path / "file").write_bytes(b"x")
        async with entered.tunnel() as tunnel:
            with pytest.raises(TunnelError, match=NOWHERE):
                await copy_in(tunnel, tmp_path / "file", path)
            with pytest.raises(TunnelError, match=NOWHERE):
                await copy_out(tunnel, path, tmp_path / "back")


def taken_port() -> tuple[socket.socket, int]:
    """Reserve a port without a listener."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    return taken, int(taken.getsockname()[1])


async def answered(server: asyncio.Server, said: bytes) -> bytes:
    """Return the answer from a port of this machine."""
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(said)
    try:
        return await reader.read()
    except ConnectionResetError:  # it was closed before it had read the request
        return b""
    finally:
        writer.close()


async def test_a_port_that_the_task_names_is_reached_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_access, "enter_network", lambda _process: None)
    (served, port), (quiet, silent) = taken_port(), taken_port()
    async with entering(tmp_path, ports=(port, silent)) as entered:

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write((await reader.readline()).upper())
            writer.close()

        service = await asyncio.start_server(answer, sock=served)
        entered.engine.inside.process = os.getpid()
        problems: list[str] = []
        async with entered.tunnel() as tunnel:
            servers = [await forward(tunnel, 0, remote, problems.append) for remote in (port, silent, 22)]
            assert await answered(servers[0], b"hello\n") == b"HELLO\n"
            assert await answered(servers[1], b"hello\n") == b""
            assert await answered(servers[2], b"hello\n") == b""
            while len(problems) < 2:
                await asyncio.sleep(0.01)
            for server in servers:
                server.close()
        service.close()
        quiet.close()
        assert any("nothing listens on port" in problem for problem in problems)
        assert any("not name port 22" in problem for problem in problems)


def test_a_port_of_the_machine_is_not_reached_as_one_of_a_container() -> None:
    """For an engine with other process numbers, or a number that another process has taken."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with raises_code(ContainerError, "networks_closed"):
            asyncio.run(program_access.open_port(os.getpid(), port))


async def test_ports_that_answer_nobody_hold_no_thread_of_the_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    going = threading.Event()
    monkeypatch.setattr(program_access, "enter_network", lambda _process: going.wait(20))
    waiting = [asyncio.create_task(program_access.open_port(1, 9)) for _ in range(64)]
    await asyncio.sleep(0)
    await asyncio.wait_for(asyncio.to_thread(lambda: None), 10)
    going.set()
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)


async def test_a_connection_that_nobody_waits_for_any_more_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    going, closed = threading.Event(), asyncio.Event()
    late = SimpleNamespace(close=closed.set)
    monkeypatch.setattr(program_access, "enter_network", lambda _process: going.wait(20))
    monkeypatch.setattr(socket, "create_connection", lambda *_: late)
    reaching = asyncio.create_task(program_access.open_port(1, 9))
    await asyncio.sleep(0)
    reaching.cancel()
    await asyncio.wait([reaching])
    going.set()
    await asyncio.wait_for(closed.wait(), 20)


def test_copies_that_a_daemon_before_left_are_taken_away(tmp_path: Path) -> None:
    spool = tmp_path / "new" / "copies"
    (spool / "left" / "deep").mkdir(parents=True)
    for _ in range(2):
        CopySpool.cleared(spool)
        assert not list(spool.iterdir())
        assert spool.stat().st_mode & 0o777 == 0o700
        shutil.rmtree(spool.parent)


async def test_who_is_not_its_customer_is_not_let_in(tmp_path: Path) -> None:
    async with entering(tmp_path) as entered:
        with pytest.raises(TunnelError, match="refuses the connection"):
            async with entered.tunnel(SealKey(b"z" * 32)):
                pass
        with pytest.raises(TunnelError, match="runs there now"):
            async with entered.tunnel(task=b"?" * 32):
                pass
        assert not entered.engine.inside.streams


async def test_a_hello_that_somebody_copied_holds_nothing(tmp_path: Path) -> None:
    async with entering(tmp_path) as entered:
        name = TunnelName(GENESIS_HASH, entered.task, entered.stash)
        hello = SealedLine(name, CUSTOMER_SEAL, entered.provider.seal_key, is_customer=True).hello()
        async with aiohttp.ClientSession() as session:
            sockets = [await session.ws_connect(f"{entered.url}/tunnel/{entered.task.hex()}") for _ in range(2)]
            for each in sockets:
                await each.send_bytes(hello)
                await each.receive()
                await each.send_bytes(b"x" * 21)
            await asyncio.sleep(0.1)
            assert entered.door.count == 0
            for each in sockets:
                await each.close()


async def test_handshakes_that_failed_leave_nothing(tmp_path: Path) -> None:
    def sockets() -> int:
        gc.collect()
        return sum(type(found) is web.WebSocketResponse for found in gc.get_objects())

    async with entering(tmp_path) as entered:
        before = sockets()
        async with aiohttp.ClientSession() as session:
            for _ in range(10):
                each = await session.ws_connect(f"{entered.url}/tunnel/{entered.task.hex()}")
                await each.send_bytes(os.urandom(48))
                assert (await each.receive()).type is aiohttp.WSMsgType.CLOSE
                await each.close()
        await asyncio.sleep(0.1)
        assert sockets() <= before + 1


async def test_a_tunnel_is_kept_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnel_server, "PING_SECONDS", 0.01)
    pings = 0
    ping = web.WebSocketResponse.ping

    async def counted(socket: web.WebSocketResponse, message: bytes = b"") -> None:
        nonlocal pings
        pings += 1
        await ping(socket, message)

    monkeypatch.setattr(web.WebSocketResponse, "ping", counted)
    async with entering(tmp_path) as entered, entered.tunnel() as tunnel:
        stream = await begun(tunnel, *ECHO)
        while pings < 3:
            await asyncio.sleep(0.01)
        assert await stream.read() == (OUT, b"cat -\n")


def test_strangers_need_many_addresses_to_keep_customers_out() -> None:
    of_all, of_address = tunnel_server.HANDSHAKES
    assert of_all >= 64 * of_address


async def test_tunnels_of_a_task_are_bounded(tmp_path: Path) -> None:
    async with entering(tmp_path) as entered:
        async with contextlib.AsyncExitStack() as exits:
            for _ in range(tunnel_server.TUNNELS_OF_TARGET_MAX):
                tunnel = await exits.enter_async_context(entered.tunnel())
                await (await begun(tunnel, *ECHO)).read()
            with pytest.raises(TunnelError, match="tunnels are open"):
                await exits.enter_async_context(entered.tunnel())
        for _ in range(500):
            if not entered.door.count:
                break
            await asyncio.sleep(0.01)
        assert entered.door.count == 0
        async with entered.tunnel() as tunnel:
            assert await (await begun(tunnel, *ECHO)).read()


async def test_programs_beside_the_container_s_own_are_bounded_and_those_that_are_over_count_no_more(
    tmp_path: Path,
) -> None:
    async with entering(tmp_path) as entered, entered.tunnel() as tunnel:
        for _ in range(PROGRAMS_OF_ROOM_MAX + 1):
            assert "no such program" in (await (await begun(tunnel, "missing")).end).problem
        running = [await begun(tunnel, *ECHO) for _ in range(PROGRAMS_OF_ROOM_MAX)]
        assert all([await each.read() for each in running])
        assert "programs run beside" in (await (await begun(tunnel, *ECHO)).end).problem
        await running[0].end_input()
        assert (await running[0].end).code == 7
        assert await (await begun(tunnel, *ECHO)).read()


async def test_tunnels_that_begin_together_are_bounded_too(tmp_path: Path) -> None:
    async with entering(tmp_path) as entered:
        name = TunnelName(GENESIS_HASH, entered.task, entered.stash)
        async with aiohttp.ClientSession() as session:
            begun = []
            for _ in range(2 * tunnel_server.TUNNELS_OF_TARGET_MAX):
                socket = await session.ws_connect(f"{entered.url}/tunnel/{entered.task.hex()}")
                line = SealedLine(name, CUSTOMER_SEAL, entered.provider.seal_key, is_customer=True)
                await socket.send_bytes(line.hello())
                line.hear((await socket.receive()).data)
                begun.append((socket, line))
            for socket, line in begun:
                await socket.send_bytes(line.seal(READY))
            await asyncio.sleep(0.2)
            assert entered.door.count == tunnel_server.TUNNELS_OF_TARGET_MAX
            for socket, _ in begun:
                await socket.close()


async def test_copies_under_way_are_bounded(tmp_path: Path) -> None:
    async with entering(tmp_path) as entered:
        places = cast("RunningPrograms", entered.door.targets[0]).spool.places
        for _ in range(COPIES_MAX):
            await asyncio.wait_for(places.acquire(), 1)
        async with entered.tunnel() as tunnel:
            copying = asyncio.create_task(copy_out(tunnel, "workspace/model", tmp_path / "back"))
            await asyncio.sleep(0.2)
            assert not copying.done()
            places.release()
            assert await copying == ["model/weights"]


async def test_a_command_that_cannot_be_run_says_why(tmp_path: Path) -> None:
    async with entering(tmp_path) as entered, entered.tunnel() as tunnel:
        for command, says in (
            (("missing",), "no such program"),
            ((), "a command has"),
            (("x" * 4_000,) * 5, "bytes"),
        ):
            stream = await begun(tunnel, *command)
            await said(stream)
            assert says in (await stream.end).problem


async def test_a_container_has_no_session(tmp_path: Path) -> None:
    async with entering(tmp_path) as entered, entered.tunnel() as tunnel:
        end = await (await tunnel.open(Converse(0))).end
        assert (end.code, "no session" in end.problem) == (1, True)
        assert await (await begun(tunnel, *ECHO)).read()


async def test_sessions_are_entered_beside_containers_by_their_ids_and_keys(tmp_path: Path) -> None:
    async def repeat(stream: TunnelStream, ask: TunnelAsk) -> None:
        while (found := await stream.read()) is not None:
            await stream.write(found[1])
        await stream.finish(ask.period if isinstance(ask, Converse) else 1)

    customer_key = SealKey(b"s" * 32)
    sessions = {b"s" * 32: TunnelTarget(customer_key.public, repeat)}
    async with entering(tmp_path) as entered:
        entered.door.targets = [*entered.door.targets, cast("TunnelTargets", SimpleNamespace(find=sessions.get))]
        async with entered.tunnel(customer_key, b"s" * 32) as tunnel:
            stream = await tunnel.open(Converse(9))
            await stream.write(b"words")
            await stream.end_input()
            assert await said(stream) == {OUT: b"words", ERR: b""}
            assert (await stream.end).code == 9
        with raises_code(TunnelError, "not_admitted"):
            async with entered.tunnel(task=b"s" * 32):
                pass
        async with entered.tunnel() as tunnel:
            assert await (await begun(tunnel, *ECHO)).read()


async def test_once_its_program_has_ended_files_are_fetched_and_nothing_is_run(tmp_path: Path) -> None:
    async with entering(tmp_path) as entered:
        entered.engine.end()
        async with entered.tunnel() as tunnel:
            stream = await begun(tunnel, *ECHO)
            await said(stream)
            assert "its program has ended" in (await stream.end).problem
            assert await copy_out(tunnel, "workspace/model", tmp_path / "back") == ["model/weights"]
