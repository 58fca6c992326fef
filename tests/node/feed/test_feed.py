"""The feed over a real Unix socket: trio on the node's side, asyncio on the RPC process's."""

from __future__ import annotations

import asyncio
import gc
import stat
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Self

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from node.feed import messages as feed
from node.feed import server as server_room
from node.feed.client import FeedClient, RequestRefusedError
from node.feed.readers import Readers
from node.feed.server import FeedServer
from node.pool.refusal import PoolRefusalError

HELLO = feed.FeedHello("Development", "dev", "Development", "devnet", b"g" * 32, "{}", 1, "Alice", "0.1", True, "", [])
STATUS = feed.NodeStatus(b"a" * 32, 2, b"f" * 32, 1, 2, False, 3, 4, 5)


TOO_MANY = feed.pack(feed.SubmitMany(1, [b""] * (feed.SUBMIT_MANY_MAX + 1)))
NO_BYTES = feed.pack(feed.SubmitMany(1, ["text"]))  # type: ignore[list-item]  # what the test is about


def opening() -> Iterator[feed.ToRpc]:
    yield HELLO
    yield feed.Snapshot(b"header", [[b"k", b"v"]], True)


async def answer(request: feed.Request) -> feed.Value:
    match request:
        case feed.Submit(_, extrinsic) if extrinsic:
            return b"h" * 32
        case feed.Submit():
            raise PoolRefusalError(1010, "Invalid Transaction", "empty")
        case feed.SubmitMany(_, extrinsics):
            return [
                extrinsic * 32 if extrinsic != b"" else [1010, "Invalid Transaction", "empty"]
                for extrinsic in extrinsics
            ]
        case feed.IdAt(_, height):
            return None if height else b"0" * 32
        case feed.Prove():
            return [b"node"]
        case feed.Pending():
            return [bytes(1024 * 1024)] * 33  # a full pool, and blocks that are not final
        case _:
            raise ZeroDivisionError


class Served:
    """A feed server in a thread of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.readers = Readers()
        self.server = FeedServer(path, self.readers, opening, answer)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._main,))

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(trio.RunFinishedError):
            self.call(self._scope.cancel)
        self._thread.join(10)

    def call(self, function: Callable[..., object], *args: object) -> None:
        trio.from_thread.run_sync(function, *args, trio_token=self._token)

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with trio.CancelScope() as self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.server.run, await self.server.listen())
                self._ready.set()


def test_opening_then_live_frames_then_answers(tmp_path: Path) -> None:
    async def talk(served: Served) -> None:
        client = await FeedClient.connect(served.path)
        frames = client.frames()
        assert [await anext(frames), await anext(frames)] == list(opening())
        served.call(served.readers.publish, STATUS)
        assert await anext(frames) == STATUS
        assert await client.submit(b"x") == b"h" * 32
        with pytest.raises(RequestRefusedError) as refused:
            await client.submit(b"")
        assert (refused.value.code, refused.value.data) == (1010, "empty")
        with pytest.raises(RequestRefusedError, match="Internal error"):
            await client.inspect("consensus")
        assert await asyncio.gather(*(client.id_at(n % 2) for n in range(100))) == [b"0" * 32, None] * 50
        await client.close()

    with Served(tmp_path / "rpc.sock") as served:
        assert stat.S_IMODE(served.path.stat().st_mode) == 0o600
        asyncio.run(talk(served))
    assert not served.path.exists()


def test_many_are_one_frame_and_each_is_answered_in_order(tmp_path: Path) -> None:
    async def talk(served: Served) -> None:
        client = await FeedClient.connect(served.path)
        outcomes = await client.submit_many([b"a", b"", b"b"])
        assert [str(outcome) if isinstance(outcome, Exception) else outcome for outcome in outcomes] == [
            b"a" * 32, "Invalid Transaction: empty", b"b" * 32
        ]  # fmt: skip
        assert await client.submit_many([]) == []
        more_than_a_frame = await client.submit_many([b"x"] * (2 * feed.SUBMIT_MANY_MAX + 1))
        assert more_than_a_frame == [b"x" * 32] * (2 * feed.SUBMIT_MANY_MAX + 1)
        await client.close()

    with Served(tmp_path / "rpc.sock") as served:
        asyncio.run(talk(served))


def test_every_extrinsic_of_a_frame_counts_for_the_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "SUBMIT_PER_SECOND", 1)

    async def talk(served: Served) -> None:
        client = await FeedClient.connect(served.path)
        assert len(await client.submit_many([b"x"] * 500)) == 500
        (refused,) = await client.submit_many([b"x"])
        assert "Too many requests" in str(refused)
        await client.close()

    with Served(tmp_path / "rpc.sock") as served:
        asyncio.run(talk(served))


def test_a_part_that_is_refused_takes_nothing_back(tmp_path: Path) -> None:
    """A batch in parts: one part without room made the whole batch appear refused."""
    turns: list[int] = []

    @asynccontextmanager
    async def two_turns(count: int, _size: int) -> AsyncIterator[None]:
        turns.append(count)
        if len(turns) == 2:
            raise RequestRefusedError(-32009, "Server is busy, try again later", "64 wait")
        yield

    async def talk(served: Served) -> None:
        client = await FeedClient.connect(served.path)
        client.ask_in_turn(nullcontext, two_turns)
        outcomes = await client.submit_many([b"x"] * (2 * feed.SUBMIT_MANY_MAX + 7))
        assert outcomes[: feed.SUBMIT_MANY_MAX] == [b"x" * 32] * feed.SUBMIT_MANY_MAX
        late = outcomes[feed.SUBMIT_MANY_MAX :]
        assert [getattr(outcome, "code", None) for outcome in late] == [-32009] * (feed.SUBMIT_MANY_MAX + 7)
        assert len(turns) == 2, "what follows is to enter after it"
        await client.close()

    with Served(tmp_path / "rpc.sock") as served:
        asyncio.run(talk(served))


def test_what_waits_for_the_pool_is_bounded_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "SUBMIT_BYTES_IN_FLIGHT", 1_000)
    answering: list[int] = []
    most: list[int] = []

    async def slowly(request: feed.Request) -> feed.Value:
        answering.append(request.request_id)
        most.append(len(answering))
        await trio.sleep(0.001)
        answering.remove(request.request_id)
        return [b"h" * 32] * len(feed.submitted(request))

    async def talk(served: Served) -> None:
        client = await FeedClient.connect(served.path)
        await asyncio.gather(*(client.submit_many([bytes(600)]) for _ in range(50)))
        await client.close()

    monkeypatch.setitem(globals(), "answer", slowly)
    with Served(tmp_path / "rpc.sock") as served:
        asyncio.run(talk(served))
    assert max(most) == 2


def test_a_refusal_is_held_by_nobody(tmp_path: Path) -> None:
    async def talk(served: Served) -> None:
        client = await FeedClient.connect(served.path)
        gc.collect()
        gc.disable()
        try:
            for _ in range(10):
                with suppress(RequestRefusedError):
                    await client.submit(b"")
            assert not [each for each in gc.get_objects() if isinstance(each, RequestRefusedError)]
        finally:
            gc.enable()
        await client.close()

    with Served(tmp_path / "rpc.sock") as served:
        asyncio.run(talk(served))


def test_an_answer_that_is_longer_than_a_frame_is_refused_and_ends_nothing(tmp_path: Path) -> None:
    async def talk(served: Served) -> None:
        client = await FeedClient.connect(served.path)
        with pytest.raises(RequestRefusedError, match="too large"):
            await client.pending()
        assert await client.submit(b"x") == b"h" * 32
        await client.close()

    with Served(tmp_path / "rpc.sock") as served:
        asyncio.run(talk(served))


def test_questions_beyond_the_quota_wait_and_extrinsics_do_not_wait_behind_them(tmp_path: Path) -> None:
    async def talk(served: Served) -> None:
        client = await FeedClient.connect(served.path)
        questions = [asyncio.create_task(client.id_at(0)) for _ in range(1000)]
        await asyncio.sleep(0)
        assert await client.submit(b"x") == b"h" * 32
        assert not all(question.done() for question in questions)
        assert await asyncio.gather(*questions) == [b"0" * 32] * 1000
        await client.close()

    with Served(tmp_path / "rpc.sock") as served:
        asyncio.run(talk(served))


def test_dear_questions_get_a_share_of_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"now": 0.0, "cpu": 0.0}

    async def sleep(seconds: float) -> None:
        clock["now"] += seconds

    async def ask() -> None:
        questions = server_room._Questions()
        for _ in range(20):
            async with questions.turn():
                clock["cpu"] += 0.1

    monkeypatch.setattr(server_room, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(server_room, "thread_time", lambda: clock["cpu"])
    monkeypatch.setattr(trio, "sleep", sleep)
    trio.run(ask)
    assert clock["now"] > 0
    assert clock["cpu"] <= server_room.QUESTIONS_SHARE * clock["now"] + server_room.QUESTIONS_BURST_SECONDS + 0.1 + 1e-9


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff\xff", b"\0\0\0\1x", feed.pack(STATUS), b"\0\0\0\2\x91\x07", TOO_MANY, NO_BYTES]
)
def test_what_is_no_request_cuts_only_that_link(tmp_path: Path, data: bytes) -> None:
    async def talk(served: Served) -> None:
        reader, writer = await asyncio.open_unix_connection(str(served.path))
        writer.write(data)
        while await asyncio.wait_for(reader.read(65536), 10):
            pass
        writer.close()
        await writer.wait_closed()
        client = await FeedClient.connect(served.path)
        assert await client.submit(b"x") == b"h" * 32
        await client.close()

    with Served(tmp_path / "rpc.sock") as served:
        asyncio.run(talk(served))


def test_the_nodes_end_ends_everything(tmp_path: Path) -> None:
    async def talk(served: Served) -> None:
        client = await FeedClient.connect(served.path)
        try:
            async for _ in client.frames():
                with suppress(trio.RunFinishedError):  # frames that were on their way still arrive
                    served.call(served._scope.cancel)
        finally:
            await client.close()

    with Served(tmp_path / "rpc.sock") as served, pytest.raises(ConnectionError):
        asyncio.run(talk(served))


@given(
    st.lists(
        st.sampled_from([HELLO, STATUS, feed.Submit(7, b"x" * 300), feed.RequestResult(1, [b"", None, {"a": 1}])])
    ),
    st.integers(1, 50),
)
def test_frames_survive_any_cutting(frames: list[feed.Frame], size: int) -> None:
    data = b"".join(map(feed.pack, frames))
    decoder = feed.Decoder()
    assert [f for at in range(0, len(data), size) for f in decoder.feed(data[at : at + size])] == frames


@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_a_feed_error(data: bytes) -> None:
    with suppress(feed.FeedError):
        feed.unpack(data)
