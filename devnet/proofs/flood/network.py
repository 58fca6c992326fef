"""The devnet that is attacked: four validators that began with one address, and the company of some attacks.

Always: every node but the first was told one peer and learned the others from it, as on a network of many hosts; each
may open as many files as a system usually allows. Hogs are processes that want a whole processor each, at the nodes'
own priority, as on a small or shared machine; all end with their context, or with this program if it is killed.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from devnet.launcher import layout, lifecycle, processes
from devnet.launcher.layout import Devnet, NodeLayout
from devnet.launcher.processes import Process

VALIDATORS = 4
FILES_OF_A_NODE = 1024
BUSY = "while True: pass"
STRICT_NAME = "Strict"
STRICT_MODULE = "devnet.proofs.flood.strict_node"


def fresh(folder: Path) -> Devnet:
    """Four validators in an emptied folder, not started."""
    shutil.rmtree(folder, ignore_errors=True)
    return layout.create(folder, VALIDATORS, any_ports=True)


def start(net: Devnet) -> None:
    """Start all, and wait until blocks are final."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES_OF_A_NODE, hard), hard))
    for member in net.members:
        processes.start(node_of(net, member))
    asyncio.run(lifecycle.ready(net))


def node_of(net: Devnet, member: NodeLayout) -> Process:
    """A member's node, told of the first member only."""
    process = lifecycle.node_process(net, member)
    words = list(process.arguments)
    while words.count("--bootnodes") > (member != net.members[0]):
        place = len(words) - 1 - words[::-1].index("--bootnodes")
        del words[place : place + 2]
    return replace(process, arguments=tuple(words))


def with_strict_node(net: Devnet) -> tuple[Devnet, NodeLayout, Process]:
    """One more full node, with as few slots as a node of a public network has; not started."""
    net, member = layout.add_full_node(net, STRICT_NAME, any_ports=True)
    return net, member, replace(node_of(net, member), module=STRICT_MODULE)


@contextmanager
def beside_hogs() -> Iterator[int]:
    """Keep every processor busy. Yield the number of processors."""
    count = len(os.sched_getaffinity(0))
    hogs: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            hogs.append(  # noqa: PERF401  # those that started are ended if the next one cannot
                subprocess.Popen(
                    [sys.executable, "-S", "-c", BUSY],
                    stdin=subprocess.DEVNULL,
                    preexec_fn=processes.dying_with(os.getpid()),  # noqa: PLW1509  # before any thread is made
                )
            )
        yield count
    finally:
        for hog in hogs:
            hog.kill()
        for hog in hogs:
            hog.wait()
