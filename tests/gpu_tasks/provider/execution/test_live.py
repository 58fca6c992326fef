"""Streamed answers of a live worker process: the same as alone, and no request harms the daemon or another one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict, replace

import pytest

import hostile_live_worker
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.provider.execution import worker_wire as wire
from gpu_tasks.provider.execution.executor import BadRequestError, ExecutionError
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.limits import Limits, limits_for
from gpu_tasks.provider.execution.live import AllPlacesTaken, LiveHost, LivePiece, _Worker
from gpu_tasks.provider.execution.worker_start import live_hosts_with, worker_command
from gpu_tasks.workloads.decoder_int8.request import OUTPUT, GenerationOutput
from gpu_tasks.workloads.model_forms import form_named, open_workload
from started_workers import TIGHT
from text_requests import TEXTS, text_request

PLACES = 3


@contextlib.asynccontextmanager
async def closing(host: LiveHost) -> AsyncIterator[LiveHost]:
    try:
        yield host
    finally:
        await host.close()


def hostile(limits: Limits = TIGHT, places: int = PLACES) -> LiveHost:
    command = [sys.executable, hostile_live_worker.__file__, json.dumps(asdict(limits)), str(places)]
    return LiveHost(command, limits, places)


async def answer_of(host: LiveHost, request: bytes) -> list[LivePiece]:
    return [piece async for piece in host.generate(request)]


async def pid_of(host: LiveHost) -> int:
    """Return the process of a hostile worker, which answers."""
    ((pid,), finish), *rest = await answer_of(host, b"once")
    assert (finish, rest) == (0, [])
    return pid


def output_of(pieces: list[LivePiece]) -> bytes:
    finish = pieces[-1].finish
    assert finish is not None
    tokens = tuple(token for piece in pieces for token in piece.tokens)
    assert all(1 <= len(piece.tokens) <= wire.LIVE_WINDOW for piece in pieces)
    return OUTPUT.encode(GenerationOutput(tokens, finish, ()))


async def test_the_real_worker_streams_what_the_workload_gives() -> None:
    """With a customer that is slow, one that leaves, one that comes late, and a request that is none."""
    workload = open_workload(TEXTS)
    requests = [text_request(b"It was " * (1 + 4 * place), 90, 700 * (place % 2), bytes(32)) for place in range(4)]
    expected = [workload.run(request) for request in requests]
    assert len(OUTPUT.decode(expected[0]).tokens) > 2 * wire.LIVE_WINDOW
    form = form_named(TEXTS)
    host = live_hosts_with("numpy")(Hardware("cpu", "here", DeviceClass.CPU, 0, None), form, PLACES)

    async def slow() -> list[LivePiece]:
        pieces = []
        async with contextlib.aclosing(host.generate(requests[0])) as answer:
            async for piece in answer:
                pieces.append(piece)
                if len(pieces) == 1:
                    await others_are_done.wait()
        return pieces

    async with closing(host):
        others_are_done = asyncio.Event()
        slow_answer = asyncio.create_task(slow())
        async with contextlib.aclosing(host.generate(requests[1])) as left:
            first = await anext(left)
            assert OUTPUT.decode(expected[1]).tokens[: len(first.tokens)] == first.tokens
        found = await asyncio.gather(*(answer_of(host, request) for request in requests[2:]))
        assert [output_of(pieces) for pieces in found] == expected[2:]
        for wrong in (b"no request", text_request(b"a", 60_000)):
            with pytest.raises(BadRequestError):
                await answer_of(host, wrong)
        assert output_of(await answer_of(host, requests[1])) == expected[1]
        others_are_done.set()
        pieces = await slow_answer
        assert output_of(pieces) == expected[0]
        assert any(len(piece.tokens) > 1 for piece in pieces)


@pytest.mark.parametrize(
    ("attack", "code"),
    [
        (b"die", "worker_ended"),
        (b"loop", "worker_ended"),
        (b"memory", "execution_failed"),
        (b"garbage", "worker_ended"),
        (b"ready", "wrong_worker_answer"),
        (b"flood", "wrong_worker_answer"),
        (b"empty", "wrong_worker_answer"),
    ],
)
async def test_an_attack_ends_the_open_requests_once_and_no_later_one(attack: bytes, code: str) -> None:
    async with closing(hostile()) as host:
        first = await pid_of(host)
        beside = asyncio.create_task(answer_of(host, b"wait"))
        await asyncio.sleep(0.1)
        with pytest.raises(ExecutionError) as stopped:
            await answer_of(host, attack)
        with pytest.raises(ExecutionError) as beside_stopped:
            await beside
        assert (stopped.value.code, beside_stopped.value.code) == (code, code)
        assert await pid_of(host) != first


async def test_a_worker_that_is_killed_starts_again_for_the_next_request() -> None:
    async with closing(hostile()) as host:
        first = await pid_of(host)
        async with contextlib.aclosing(host.generate(b"wait")) as answer:
            assert (await anext(answer)).tokens
            os.kill(first, signal.SIGKILL)
            with pytest.raises(ExecutionError) as ended:
                while True:
                    await anext(answer)
        assert ended.value.code == "worker_ended"
        assert await pid_of(host) != first
        second = await pid_of(host)
        os.kill(second, signal.SIGKILL)  # without a request, nobody is told
        await asyncio.sleep(0.2)
        assert await pid_of(host) not in (first, second)


async def test_a_silent_worker_is_killed() -> None:
    async with closing(hostile(replace(TIGHT, wall_seconds=1))) as host:
        with pytest.raises(ExecutionError) as stopped:
            await answer_of(host, b"sleep")
        assert stopped.value.code == "execution_too_long"
        await pid_of(host)


async def test_places_are_taken_and_given_back() -> None:
    async with closing(hostile()) as host:
        answers = [host.generate(b"wait") for _ in range(PLACES)]
        for answer in answers:
            await anext(answer)
        with pytest.raises(AllPlacesTaken):
            await anext(host.generate(b"once"))
        await answers[1].aclose()
        pid = await pid_of(host)
        waiting = asyncio.create_task(answer_of(host, b"wait"))
        await asyncio.sleep(0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(BadRequestError):
            await answer_of(host, b"bad")
        assert await pid_of(host) == pid
        for answer in answers:
            await answer.aclose()


async def test_the_worker_itself_has_no_more_places() -> None:
    async with closing(hostile(places=1)) as host:
        await pid_of(host)
        host._places = 2
        async with contextlib.aclosing(host.generate(b"wait")) as answer:
            await anext(answer)
            with pytest.raises(ExecutionError) as refused:
                await pid_of(host)
            assert refused.value.code == "execution_failed"
            await anext(answer)


async def test_a_customer_that_does_not_read_stops_its_own_answer_only() -> None:
    async with closing(hostile()) as host, contextlib.aclosing(host.generate(b"wait")) as unread:
        await anext(unread)
        async with contextlib.aclosing(host.generate(b"wait")) as read:
            taken = 0
            while taken < 4 * wire.LIVE_WINDOW:
                taken += len((await anext(read)).tokens)
        assert host._worker is not None
        kept = host._worker._answers[min(host._worker._answers)]
        held = len(kept.tokens)
        assert wire.LIVE_WINDOW // 2 <= held <= wire.LIVE_WINDOW
        assert len((await anext(unread)).tokens) == held
        assert (await anext(unread)).tokens


async def test_an_idle_worker_is_replaced_before_its_cpu_time_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with closing(hostile()) as host:
        first = await pid_of(host)
        async with contextlib.aclosing(host.generate(b"wait")) as answer:
            await anext(answer)
            monkeypatch.setattr(_Worker, "age", lambda _: 1e9)
            assert await pid_of(host) == first
            await anext(answer)
        assert await pid_of(host) != first


async def test_a_worker_that_does_not_start_fails_the_request() -> None:
    for command in ([sys.executable, "-c", ""], worker_command("abacus", "numpy", limits_for("numpy"), 2)):
        host = LiveHost(command, limits_for("numpy"), 1)
        for _ in range(2):
            with pytest.raises(ExecutionError):
                await answer_of(host, b"once")
        await host.close()


@pytest.mark.parametrize(("workload", "places"), [(TEXTS, 65), ("matmul-hash", 1)])
async def test_too_many_places_and_work_that_does_not_stream_do_not_start(workload: str, places: int) -> None:
    limits = limits_for("numpy", 0, 1 << 31)
    async with closing(LiveHost(worker_command(workload, "numpy", limits, places), limits, places)) as host:
        with pytest.raises(ExecutionError) as refused:
            await host.start()
        assert refused.value.code == "worker_not_started"


async def test_a_closed_host_fails_its_requests_and_starts_again() -> None:
    async with closing(hostile()) as host:
        waiting = asyncio.create_task(answer_of(host, b"wait"))
        await asyncio.sleep(0.5)
        await host.close()
        with pytest.raises(ExecutionError):
            await waiting
        await pid_of(host)
