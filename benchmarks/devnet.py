"""A live devnet of four validators with providers: latency from slot to accepted and final, CPU and memory by process.

    Run: python -m benchmarks devnet          about a minute

It has two phases: at rest, and under a load of transfers from six senders. CPU is the time in /proc of the first node's
processes over a phase, divided by the blocks finalised in that phase. All nodes share the machine, and latency is wall
time. Latency therefore depends on the machine and has no bar.
"""

import asyncio
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.figures import Figures
from benchmarks.processes import Usage, children, usage
from devnet.launcher import layout, processes
from devnet.launcher import lifecycle as network
from devnet.launcher.layout import Devnet
from devnet.launcher.processes import Process
from devnet.launcher.status import ask_all
from devnet.stage.measuring.latency import Latencies
from devnet.stage.measuring.latency import measure_latencies as listen
from devnet.stage.measuring.load import TransferLoad, send_transfers
from genesis.parameters import CONSENSUS
from wallet.rpc import RpcConnection

VALIDATORS = 4
PHASE_SECONDS = 20.0
SETTLE_SECONDS = 5.0
MILLISECONDS = 1e3
ROLES = {"node.cli": "node", "node.rpc": "rpc", "verify_worker": "signature_worker", "provider": "provider"}


def measure() -> Figures:
    """Start the network, wait until it is calm, measure both phases and stop it."""
    with tempfile.TemporaryDirectory() as folder:
        net = layout.create(Path(folder) / "net", VALIDATORS, providers=True, any_ports=True)
        print("a devnet of four validators with providers starts", file=sys.stderr)
        with network.running(net):
            return asyncio.run(_measure(net))


async def _measure(net: Devnet) -> Figures:
    await asyncio.sleep(SETTLE_SECONDS)
    figures = await _phase(net, "rest")
    load = TransferLoad()
    sending = asyncio.create_task(send_transfers(net, load, random.Random(1)))
    await asyncio.sleep(SETTLE_SECONDS)
    before = load.included
    figures |= await _phase(net, "load")
    figures["load_transfers_per_second"] = round((load.included - before) / PHASE_SECONDS, 1)
    figures |= {f"rss_{role}_mib": used.rss_mib for role, used in _processes(net).items()}
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    return figures


async def _phase(net: Devnet, name: str) -> Figures:
    """Return the latencies of all nodes, and the CPU time of one node's processes in the same phase."""
    before, since, polled = _processes(net), await _final(net), await _polls(net)
    heard = await listen(net, CONSENSUS["devnet"].slot_ms, PHASE_SECONDS)
    after, blocks, polls = _processes(net), await _final(net) - since, await _polls(net) - polled
    spent = {role: after[role].cpu_seconds - before[role].cpu_seconds for role in after}
    cpu = {f"{name}_cpu_per_block_{role}_ms": round(used / blocks * MILLISECONDS, 1) for role, used in spent.items()}
    polling = {f"{name}_polls_per_block": round(polls / blocks, 2)}
    polling[f"{name}_cpu_per_poll_node_ms"] = round(spent["node"] / polls * MILLISECONDS, 1)
    return _latencies(heard, name) | {f"{name}_final_blocks": blocks} | cpu | polling


def _latencies(heard: Latencies, name: str) -> Figures:
    found: dict[str, dict[str, Any]] = heard.figures()
    return {
        f"{name}_{kind}_{percent}_ms": found[kind][f"{percent}_ms"]
        for kind in ("accepted", "final")
        for percent in ("p50", "p99")
    }


def _processes(net: Devnet) -> dict[str, Usage]:
    """Return the usage of the first node, its child processes and its provider, by role."""
    first = net.members[0]
    node = _pid(network.node_process(net, first))
    provider = _pid(network.provider_process(net, first))
    found = {}
    for spent in (usage(pid) for pid in (node, *children(node), provider)):
        role = next((role for word, role in ROLES.items() if word in spent.command), None)
        if role is not None:
            found[role] = spent
    return found


def _pid(process: Process) -> int:
    pid = processes.running(process)
    if pid is None:
        raise RuntimeError(f"{process.label} ended while it was measured: {network.tail(process.log)}")
    return pid


async def _final(net: Devnet) -> int:
    return (await ask_all(net))[0].final


async def _polls(net: Devnet) -> int:
    """Return the number of polls that the first node has begun since its start."""
    async with await RpcConnection.open(net.members[0].rpc_url) as rpc:
        polls = await rpc.call("ogpu_inspect", "polls")
        return int(max(poll["request"] for poll in polls)) + 1
