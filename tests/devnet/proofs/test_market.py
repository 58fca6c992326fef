"""The bars of a measured market, and the attribution of processor time."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devnet.launcher.layout import Devnet, NodeLayout, Ports
from devnet.proofs.market import __main__ as market
from devnet.proofs.market.__main__ import REQUIRED_SHARES, Trade, failures_of
from devnet.proofs.market.bare import BareBatch, BareThroughput
from devnet.proofs.market.processes import descendants_of, in_turns, is_descendant, standing_still
from devnet.stage.actors.model_sale import ModelSale
from devnet.stage.network import Stage
from devnet.stage.report import Narrator

MEMBERS = tuple(
    NodeLayout(name, is_validator=True, ports=Ports(1, 2, 3, 4), address="")
    for name in ("Alice", "Bob", "Charlie", "Dave")
)
BARE = BareThroughput(tokens_per_second=1_000.0, cpu_per_token=0.001)
GOOD = Trade(
    requests=256, racers=1, units=4, settled=4, tokens=1_000, seconds=2.0, tokens_per_second=600.0,
    blocks_p50=5, blocks_p95=9, paid_per_thousand=1.0, duties_per_thousand=1.0, cpu_seconds=3.0, bare=BARE,
)  # fmt: skip


def test_what_reaches_its_bar_passes() -> None:
    assert REQUIRED_SHARES == {(64, 1): 0.6, (256, 1): 0.6, (256, 2): 0.3}
    assert failures_of([GOOD, replace(GOOD, racers=2, tokens_per_second=300.0)]) == []
    assert failures_of([replace(GOOD, requests=1, tokens_per_second=10.0)]) == []


@pytest.mark.parametrize(
    ("trade", "says"),
    [
        (
            replace(GOOD, tokens_per_second=590.0),
            "59 % of the bare tokens with 256 requests a unit and 1 racing: 60 are wanted",
        ),
        (replace(GOOD, racers=2, tokens_per_second=290.0), "29 % .* 2 racing: 30 are wanted"),
        (replace(GOOD, requests=1, settled=3), "1 of 4 units of 1 requests, 1 racing, were not settled"),
    ],
)
def test_what_does_not_is_said(trade: Trade, says: str) -> None:
    (failure,) = failures_of([GOOD, trade])
    assert re.search(says, failure)


def test_a_trade_stands_beside_the_mean_of_what_was_measured_before_and_after() -> None:
    beside = BARE.mean(BareThroughput(tokens_per_second=2_000.0, cpu_per_token=0.003))
    assert beside == BareThroughput(tokens_per_second=1_500.0, cpu_per_token=0.002)
    trade = replace(GOOD, bare=beside)
    assert (trade.of_bare, trade.times_bare_cpu) == (0.4, 1.5)


@pytest.mark.parametrize(
    ("arguments", "service", "batch", "sizes"),
    [
        ([], 0, BareBatch("decoder-int8:ogpu-bytes", 128), [(1, 1), (16, 1), (256, 1), (1, 2), (16, 2), (256, 2)]),
        (["--model", "small"], 7, BareBatch("decoder-int8:small", 64), [(64, 1)]),
    ],
)
def test_a_model_is_sold_in_its_own_sizes(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    service: int,
    batch: BareBatch,
    sizes: list[tuple[int, int]],
) -> None:
    traded, sold = [], []

    def trade(
        _: Stage, devices: market.OfferedDevices, requests: int, __: int, racers: int, bare: BareThroughput
    ) -> Any:
        traded.append((devices.service, devices.batch, (requests, racers)))
        return GOOD, bare

    def sell(_: Stage, sale: ModelSale) -> int:
        sold.append(sale.workload)
        return 7

    monkeypatch.setattr(market, "provider_process_of", lambda *_: 1)
    monkeypatch.setattr(market.OfferedDevices, "bare", lambda *_: BARE)
    monkeypatch.setattr(market, "trade_units", trade)
    monkeypatch.setattr(market, "sell_model", sell)
    options = market.PROOF.parse(["--largest", "256", *arguments])
    market.trade_all_sizes(Stage(Devnet(tmp_path, MEMBERS), Narrator(1), options))
    assert traded == [(service, batch, size) for size in sizes]
    assert sold == ([batch.workload] if service else [])


def test_only_descendants_of_the_network_count() -> None:
    parents = {10: 1, 11: 10, 12: 11, 20: 1, 21: 20}
    assert [pid for pid in parents if is_descendant(pid, {10}, parents)] == [10, 11, 12]
    assert not is_descendant(99, {10}, parents)


def test_what_stands_still_takes_no_processor_and_goes_on_afterwards() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True) as root:
        try:
            until(lambda: len(descendants_of(root.pid)) == 1)
            (child,) = descendants_of(root.pid)
            with standing_still({root.pid}):
                until(lambda: (state_of(root.pid), state_of(child)) == ("T", "T"))
            until(lambda: (state_of(root.pid), state_of(child)) == ("S", "R"))
        finally:
            os.killpg(root.pid, signal.SIGKILL)


@pytest.mark.nightly
def test_devices_take_turns_and_all_go_on_afterwards() -> None:
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    pids = [process.pid for process in spinning]
    try:
        with in_turns(lambda: [[pid] for pid in pids], 1 / 4):
            until(lambda: [state_of(pid) for pid in pids] == ["R", "T"])
            until(lambda: [state_of(pid) for pid in pids] == ["T", "R"])
            until(lambda: [state_of(pid) for pid in pids] == ["T", "T"])
        until(lambda: [state_of(pid) for pid in pids] == ["R", "R"])
    finally:
        for process in spinning:
            process.kill()
            process.wait()


@pytest.mark.nightly
@pytest.mark.parametrize("held", ["standing_still([{0}])", "in_turns(lambda: [[{0}]], 0.1)"])
def test_what_was_stopped_goes_on_also_where_the_measuring_process_is_killed(held: str) -> None:
    code = (
        "import time\nfrom devnet.proofs.market.processes import standing_still\n"
        "from devnet.proofs.market.processes import in_turns\nwith {}:\n    time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinning:
        try:
            with subprocess.Popen([sys.executable, "-c", code.format(held.format(spinning.pid))]) as measuring:
                until(lambda: state_of(spinning.pid) == "T")
                measuring.kill()
            until(lambda: all(state_of(spinning.pid) == "R" for _ in range(100)))
        finally:
            spinning.kill()


def until(condition: Callable[[], bool]) -> None:
    for _ in range(4_000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("it does not come to that")


def state_of(pid: int) -> str:
    """The states of proc(5): R runs, S waits, T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
