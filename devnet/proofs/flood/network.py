"""The attacked devnet: four validators with one bootnode, and the extra processes of some attacks.

Invariant: every node but the first was given one peer and learned the others from it, as on a network of many hosts.
Each may open the usual number of files. Hogs are processes that each use a whole processor, at the nodes' priority, as
on a small or shared machine. They end with their context, and with this program if it is killed.
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

VALIDATOR_COUNT = 4
FILES_OF_A_NODE = 1024
BUSY_LOOP = "while True: pass"
STRICT_NAME = "Strict"
STRICT_MODULE = "devnet.proofs.flood.strict_node"


def lay_out(folder: Path) -> Devnet:
    """Lay out four validators in an emptied folder. Start nothing."""
    shutil.rmtree(folder, ignore_errors=True)
    return layout.create(folder, VALIDATOR_COUNT, any_ports=True)


def start_nodes(devnet: Devnet) -> None:
    """Start all nodes, and wait until blocks are final."""
    # The nodes inherit this limit.
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES_OF_A_NODE, hard_limit), hard_limit))
    for member in devnet.members:
        processes.start(node_of(devnet, member))
    asyncio.run(lifecycle.ready(devnet))


def node_of(devnet: Devnet, member: NodeLayout) -> Process:
    """Return a member's node, with the first member as its only bootnode."""
    process = lifecycle.node_process(devnet, member)
    arguments = list(process.arguments)
    # On a real network a node knows one address and learns the others, so address floods matter.
    while arguments.count("--bootnodes") > (member != devnet.members[0]):
        option_index = len(arguments) - 1 - arguments[::-1].index("--bootnodes")
        del arguments[option_index : option_index + 2]
    return replace(process, arguments=tuple(arguments))


def with_strict_node(devnet: Devnet) -> tuple[Devnet, NodeLayout, Process]:
    """Add a full node with as few slots as a public network's node has. Return it, not started."""
    devnet, member = layout.add_full_node(devnet, STRICT_NAME, any_ports=True)
    return devnet, member, replace(node_of(devnet, member), module=STRICT_MODULE)


@contextmanager
def beside_hogs() -> Iterator[int]:
    """Keep every processor busy. Yield the number of processors."""
    processor_count = len(os.sched_getaffinity(0))
    hog_processes: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(processor_count):
            hog_processes.append(  # noqa: PERF401  # a comprehension would lose the started ones if a later start failed
                subprocess.Popen(
                    [sys.executable, "-S", "-c", BUSY_LOOP],
                    stdin=subprocess.DEVNULL,
                    preexec_fn=processes.dying_with(os.getpid()),  # noqa: PLW1509  # no thread exists yet
                )
            )
        yield processor_count
    finally:
        for hog_process in hog_processes:
            hog_process.kill()
        for hog_process in hog_processes:
            hog_process.wait()
