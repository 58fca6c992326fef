"""Transfers end to end through one node: from JSON-RPC batches over HTTP until a client sees all of them final.

    Run: python -m benchmarks end_to_end          about half a minute

A development node has an RPC process and a signature worker. 500 senders use 8 connections, each with one batch of 500
transfers in flight. Figures are wall times with the client on the same machine, and medians of three runs, each on a
fresh chain. `make peers` runs the same beside another node.
"""

import tempfile
from pathlib import Path

from benchmarks.figures import Figures
from benchmarks.peers.race import race
from benchmarks.peers.this_node import ThisNode
from benchmarks.peers.verdict import medians
from benchmarks.peers.workload import Shape, bodies
from devnet.launcher.lifecycle import ending_on_signals

SHAPE = Shape(transfers=20_000, senders=500, batch=500, connections=8)
ROUNDS = 3


def measure() -> Figures:
    """Sign the transfers once, and send them three times."""
    node = ThisNode(SHAPE.senders)
    with tempfile.TemporaryDirectory() as folder:
        hands = bodies(SHAPE, node.submit_method, node.sign(list(SHAPE.all_transfers()), Path(folder)))
    with ending_on_signals():
        return medians([race(node, SHAPE, hands) for _ in range(ROUNDS)])
