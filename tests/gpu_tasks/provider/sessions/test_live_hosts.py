"""The live workers of a machine: none for a workload that does not stream, and none that was not asked for."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpu_tasks.provider.execution.device_times import DeviceTimes
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.sessions.live_hosts import LiveHosts
from played_sessions import DEVICE, EchoHost, StreamedEcho


def hosts() -> LiveHosts:
    return LiveHosts(lambda _hardware, _form, places: EchoHost(places=places), DeviceTimes())


async def test_a_workload_that_does_not_stream_has_no_worker() -> None:
    form: Any = SimpleNamespace(name="a tile", workload_id=bytes(32), model_id=bytes(32), is_streamed=False)
    with pytest.raises(ExecutionError) as refused:
        await hosts().host(DEVICE, cast("Any", None), form, 1, 0, is_busy=False)
    assert refused.value.code == "not_streamed"


async def test_a_worker_that_was_not_made_answers_nothing() -> None:
    name = DEVICE, StreamedEcho.workload_id, StreamedEcho.model_id
    with pytest.raises(ExecutionError) as refused:
        await anext(hosts().generate(name, b"\x01x"))
    assert refused.value.code == "worker_not_ready"


async def test_more_places_replace_a_worker_that_nobody_uses() -> None:
    found, form = hosts(), cast("Any", StreamedEcho())
    first = cast("EchoHost", await found.host(DEVICE, cast("Any", None), form, 1, 0, is_busy=False))
    assert await found.host(DEVICE, cast("Any", None), form, 2, 0, is_busy=True) is first
    second = cast("EchoHost", await found.host(DEVICE, cast("Any", None), form, 2, 0, is_busy=False))
    assert (first.is_closed, second.places) == (True, 2)
