"""The devnet that is attacked: four validators that began with one address, and what some attacks need beside them.

What always holds: every node but the first was told one peer and learned the others from it, as on a network of many
hosts; each may open as many files as a system usually allows.
"""

from __future__ import annotations

import asyncio
import resource
import shutil
from dataclasses import replace
from pathlib import Path

from devnet.launcher import layout, lifecycle, processes
from devnet.launcher.layout import Devnet, NodeLayout
from devnet.launcher.processes import Process

VALIDATORS = 4
FILES_OF_A_NODE = 1024
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
