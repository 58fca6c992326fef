"""Waiting for nodes as long as they make progress, with a clock of ten seconds a look."""

import asyncio
import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from devnet.launcher import layout, lifecycle, processes
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet
from devnet.launcher.status import MemberStatus
from standing_member import ALICE

GOAL = 100


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Devnet:
    clock = itertools.count(0, 10)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(lifecycle, "ASK_SECONDS", 0)
    monkeypatch.setattr(processes, "running", lambda _: 1)
    return layout.create(tmp_path / "net", 1, providers=False, any_ports=True)


def standing_at(finals: Iterator[int], monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask_all(net: Devnet) -> list[MemberStatus]:
        return [replace(ALICE, final=next(finals))]

    monkeypatch.setattr(lifecycle, "ask_all", ask_all)


def test_a_node_that_comes_nearer_is_waited_for(net: Devnet, monkeypatch: pytest.MonkeyPatch) -> None:
    standing_at(iter(range(1, GOAL + 1)), monkeypatch)
    assert [status.final for status in asyncio.run(lifecycle.ready(net, 60, final=GOAL))] == [GOAL]


def test_a_node_that_stands_still_is_named(net: Devnet, monkeypatch: pytest.MonkeyPatch) -> None:
    standing_at(itertools.chain(range(1, 50), itertools.repeat(50)), monkeypatch)
    with pytest.raises(DevnetError, match="Alice has not seen final block 100, and came no nearer for 60 s"):
        asyncio.run(lifecycle.ready(net, 60, final=GOAL))
