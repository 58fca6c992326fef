"""The metrics server against clients that open connections and send nothing, or too much."""

import contextlib
import gc
import os
import selectors
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from node.errors import BadInputError
from node.monitoring.metrics_server import (
    ANSWERED_PER_SECOND,
    CONNECTIONS_MAX,
    OF_NETWORK_MAX,
    QUEUE,
    REQUEST_BYTES_MAX,
    REQUEST_SECONDS,
    MetricsServer,
)

WAIT_SECONDS = 20


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    registry = CollectorRegistry()
    Gauge("height", "How high", registry=registry).set(7)
    made = MetricsServer(registry, 0, external=False)
    yield made
    made.close()


def fetched(server: MetricsServer, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=WAIT_SECONDS) as response:
        return str(response.read().decode())


def connected(server: MetricsServer, said: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_SECONDS, source_address=(source, 0))
    made.sendall(said)
    return made


def is_ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def open_files() -> int:
    return len(list(Path(f"/proc/{os.getpid()}/fd").iterdir()))


def test_a_silent_connection_keeps_the_server_from_no_sleep(
    server: MetricsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float | None] = []
    select = server._selector.select

    def noted(wait: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        waits.append(wait)
        return select(wait)

    monkeypatch.setattr(server._selector, "select", noted)
    silent = connected(server)
    for _ in range(2):
        fetched(server)
    time.sleep(3 / ANSWERED_PER_SECOND)
    assert len(waits) < 50
    assert any(wait is not None and 0 < wait <= 1 / ANSWERED_PER_SECOND for wait in waits), "until the next figures"
    silent.close()


def test_figures_are_answered(server: MetricsServer) -> None:
    assert "height 7.0" in fetched(server)
    assert "height 7.0" in fetched(server, "/?name=x")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        fetched(server, "/other")
    with connected(server, b"POST /metrics HTTP/1.1\r\n\r\n") as posting:
        assert answer_of(posting).startswith(b"HTTP/1.1 405 ")


def test_idle_connections_take_few_files_and_nobodys_place(server: MetricsServer) -> None:
    before = open_files()
    idle = [connected(server, b"GET /metrics HTTP/1.1\r\n") for _ in range(4 * CONNECTIONS_MAX)]
    assert "height 7.0" in fetched(server)
    assert len(server._open_requests) <= CONNECTIONS_MAX
    assert open_files() - before <= len(idle) + CONNECTIONS_MAX + 4  # both ends are in this process
    assert is_ended(idle[0])
    for made in idle:
        made.close()


def test_who_opens_most_connections_has_them_closed(server: MetricsServer) -> None:
    honest = connected(server, b"GET /metrics HTTP/1.1\r\n")
    strangers = [connected(server, b"GET /", source="127.0.0.66") for _ in range(3 * CONNECTIONS_MAX)]
    assert all(is_ended(stranger) for stranger in strangers[:CONNECTIONS_MAX])
    honest.sendall(b"\r\n")
    assert b"height 7.0" in honest.makefile("rb").read()
    for connection in (honest, *strangers):
        connection.close()


@contextlib.contextmanager
def held_up(server: MetricsServer) -> Iterator[None]:
    """Keep the server's thread busy with one answer until the end."""
    goes_on, begun = threading.Event(), threading.Event()

    class Slow(Collector):
        def collect(self) -> Iterator[GaugeMetricFamily]:
            if is_armed:
                begun.set()
                goes_on.wait(WAIT_SECONDS)
            yield GaugeMetricFamily("slow", "Comes late", value=1)

    is_armed = False
    server._registry.register(Slow())
    is_armed = True
    with connected(server, b"GET / HTTP/1.1\r\n\r\n"):
        assert begun.wait(WAIT_SECONDS)
        is_armed = False
        try:
            yield
        finally:
            goes_on.set()


def test_a_crowd_at_the_door_keeps_nobody_from_connecting(server: MetricsServer) -> None:
    with held_up(server):
        crowd = [connected(server) for _ in range(QUEUE // 4)]
    assert "height 7.0" in fetched(server)
    for connection in crowd:
        connection.close()


ASK = b"GET / HTTP/1.1\r\n\r\n"


def answer_of(connection: socket.socket) -> bytes:
    try:
        return connection.makefile("rb").read()
    except ConnectionResetError:
        return b""


def counted(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the number of waiting clients at each computation of the figures."""
    waiting: list[int] = []
    figures = server._figures

    def noted() -> bytes:
        waiting.append(len(server._due_requests()))
        return figures()

    monkeypatch.setattr(server, "_figures", noted)
    return waiting


def test_a_crowd_of_many_addresses_keeps_no_scraper_waiting(
    server: MetricsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.monitoring.metrics_server.REQUEST_SECONDS", 1_000.0)
    monkeypatch.setattr("node.monitoring.metrics_server.ACCEPTED_AT_ONCE", 12)  # 32 is no multiple of it
    waiting = counted(server, monkeypatch)
    addresses = [f"127.0.1.{number}" for number in range(1, 3 * CONNECTIONS_MAX)]
    with held_up(server):
        idle = [connected(server, b"GET / HTTP/1.1\r\n", f"127.0.2.{number}") for number in range(1, 4)]
        crowd = [connected(server, ASK, address) for address in addresses]
        scrapers = [connected(server, ASK, "127.0.0.90"), connected(server, ASK)]
        crowd += [connected(server, ASK, address) for address in addresses]
    assert all(b"height 7.0" in answer_of(connection) for connection in (*scrapers, *crowd))
    assert len(waiting) < len(crowd) / 8, "all who wait have the same figures"
    assert max(waiting) == CONNECTIONS_MAX
    for connection in (*scrapers, *crowd, *idle):
        connection.close()


def test_one_address_has_a_part_of_the_places(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = counted(server, monkeypatch)
    with held_up(server):
        strangers = [connected(server, ASK, "127.0.0.66") for _ in range(CONNECTIONS_MAX // 2)]
    answers = [answer_of(connection) for connection in strangers]
    assert waiting[1] == OF_NETWORK_MAX
    assert [b"height 7.0" in answer for answer in answers].count(True) == OF_NETWORK_MAX
    for connection in strangers:
        connection.close()


def test_connections_that_do_not_read_yield(server: MetricsServer) -> None:
    for number in range(2_000):
        Gauge(f"figure_{number}", "d" * 2_000, registry=server._registry)
    mute = [connected(server, ASK, f"127.0.1.{number}") for number in range(1, 2 * CONNECTIONS_MAX)]
    assert "height 7.0" in fetched(server)
    for connection in mute:
        connection.close()


def test_while_all_wait_the_server_looks_at_no_newcomer(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.monitoring.metrics_server.ANSWERED_PER_SECOND", 1e-6)
    monkeypatch.setattr("node.monitoring.metrics_server.REQUEST_SECONDS", 1_000.0)
    assert "height 7.0" in fetched(server)
    crowd = [connected(server, ASK, "127.0.0.90")]
    crowd += [connected(server, b"GET / HTTP/1.1\r\n", f"127.0.2.{number}") for number in range(1, CONNECTIONS_MAX)]
    crowd += [connected(server, ASK, f"127.0.1.{number}") for number in range(1, CONNECTIONS_MAX + 10)]
    for _ in range(2_000):
        if server._listener not in server._selector.get_map():
            break
        time.sleep(0.01)
    assert server._listener not in server._selector.get_map()
    assert len(server._due_requests()) == CONNECTIONS_MAX
    for _ in range(2):
        server._listen_or_not()
    assert server._listener not in server._selector.get_map()
    assert "127.0.0.90" in {request.network for request in server._due_requests()}, "idle ones yield, however young"
    for connection in crowd:
        connection.close()


def test_the_limits_are_as_documented() -> None:
    assert (CONNECTIONS_MAX, OF_NETWORK_MAX, ANSWERED_PER_SECOND) == (32, 8, 10)
    assert (REQUEST_SECONDS, REQUEST_BYTES_MAX) == (5.0, 8_192)


def test_the_server_accepts_again_when_those_inside_have_had_their_time(
    server: MetricsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.monitoring.metrics_server.ANSWERED_PER_SECOND", 1e-6)
    monkeypatch.setattr("node.monitoring.metrics_server.REQUEST_SECONDS", 0.2)
    assert "height 7.0" in fetched(server)
    crowd = [connected(server, ASK, f"127.0.1.{number}") for number in range(1, CONNECTIONS_MAX + 1)]
    assert all(is_ended(connection) for connection in crowd)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        fetched(server, "/other")
    for connection in crowd:
        connection.close()


def test_no_more_answers_are_worked_out_than_may_be(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.monitoring.metrics_server.ANSWERED_PER_SECOND", 1e-6)
    monkeypatch.setattr("node.monitoring.metrics_server.REQUEST_SECONDS", 0.2)
    assert "height 7.0" in fetched(server)
    with connected(server, b"GET / HTTP/1.1\r\n\r\n") as late:
        assert is_ended(late)
    with pytest.raises(urllib.error.HTTPError, match="404"):  # costs nothing
        fetched(server, "/other")


def test_connections_that_were_just_accepted_are_closed_with_the_server() -> None:
    server = MetricsServer(CollectorRegistry(), 0, external=False)
    with held_up(server):
        crowd = [connected(server) for _ in range(2 * CONNECTIONS_MAX)]
        closing = threading.Thread(target=server.close)
        closing.start()
    closing.join(WAIT_SECONDS)
    assert not closing.is_alive()
    assert all(is_ended(connection) for connection in crowd)
    gc.collect()  # a socket that was left open is an error here
    for connection in crowd:
        connection.close()


def test_who_reads_late_gets_the_whole_answer(server: MetricsServer) -> None:
    for number in range(2_000):
        Gauge(f"figure_{number}", "d" * 2_000, registry=server._registry)
    with connected(server, b"GET / HTTP/1.1\r\n\r\n") as late:
        assert "height 7.0" in fetched(server, "/").partition("figure_0")[0]  # others are served meanwhile
        head, _, body = late.makefile("rb").read().partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert len(body) > 4_000_000


def test_a_figure_that_cannot_be_read_ends_one_answer(server: MetricsServer) -> None:
    class Broken(Collector):
        def collect(self) -> Iterator[GaugeMetricFamily]:
            if is_armed:
                raise RuntimeError
            yield GaugeMetricFamily("broken", "Cannot be read", value=1)

    is_armed = False
    server._registry.register(Broken())
    is_armed = True
    with connected(server, b"GET / HTTP/1.1\r\n\r\n") as asking:
        assert is_ended(asking)
    is_armed = False
    assert "height 7.0" in fetched(server)


def test_a_slow_request_ends(monkeypatch: pytest.MonkeyPatch, server: MetricsServer) -> None:
    monkeypatch.setattr("node.monitoring.metrics_server.REQUEST_SECONDS", 0.1)
    slow = connected(server, b"GET /metrics HTTP/1.1\r\n")
    assert is_ended(slow)
    slow.close()


def test_an_endless_request_ends(server: MetricsServer) -> None:
    endless = connected(server, b"GET /" + b"a" * 2 * REQUEST_BYTES_MAX)
    assert is_ended(endless)
    endless.close()
    assert "height 7.0" in fetched(server)


def test_a_port_that_is_taken_is_named(server: MetricsServer) -> None:
    with pytest.raises(BadInputError, match=f"port {server.port} for metrics"):
        MetricsServer(CollectorRegistry(), server.port, external=False)


def test_of_a_crowd_a_few_are_taken_in_before_others_are_heard(
    server: MetricsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.monitoring.metrics_server.ACCEPTED_AT_ONCE", 3)
    accept, entered = server._accept, []

    def counted() -> None:
        before = len(server._open_requests)
        accept()
        entered.append(len(server._open_requests) - before)

    monkeypatch.setattr(server, "_accept", counted)
    with held_up(server):
        crowd = [connected(server, source=f"127.0.1.{number}") for number in range(1, 11)]
    assert "height 7.0" in fetched(server)
    assert max(entered) == 3
    for connection in crowd:
        connection.close()
