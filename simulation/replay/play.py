"""Executes a tape from block 0 and prints, for every block, its height, state root and the hash of its events.

Run as `python -m simulation.replay.play TAPE`. Checked: every block is valid and stands on the one before it;
all accounts together hold the issuance, and with what was burned the cap; execution touches nothing outside; at the end
a tree built anew from the whole state has the root that block by block came to.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from genesis.chain import genesis_block_header, genesis_state, runtime_of
from genesis.spec import from_json
from runtime.blocks.block import BLOCK, block_id
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import verify
from runtime.encoding.types import CAP_GRAINS
from runtime.execution.executive import execute_block
from runtime.execution.supply import recount
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from runtime.state.overlay import Memory
from runtime.state.trie import Trie
from simulation.replay.purity import no_world
from simulation.replay.tape import TAPE, Tape


class ReplayBroken(Exception):
    """The recorded chain and its replay disagree, or a rule does not hold."""


def play(tape: Tape) -> Iterator[str]:
    """One line for each block.  Raises `ReplayBroken`, or what execution raised."""
    spec = from_json(tape.spec)
    runtime = runtime_of(spec)
    state = Memory(genesis_state(spec))
    trie = Trie(state.values)
    head = block_id(genesis_block_header(state.values))
    events_key = runtime.item(System.event_records).key()
    for raw in tape.blocks:
        block = BLOCK.decode(raw)
        if block.header.parent_hash != head:
            raise ReplayBroken(f"block {block.header.number} stands on another block")
        with no_world():
            executed = execute_block(runtime, state, trie, block, verify)
        state = state.updated(executed.changes)
        trie = executed.trie
        head = block_id(block.header)
        bound = runtime.at(state)
        if recount(bound) + bound[Balances].burned.get() != CAP_GRAINS:
            raise ReplayBroken(f"block {block.header.number}: grains appeared or vanished")
        events = blake2_256(state.values[events_key])
        yield f"{block.header.number} {trie.root.hex()} {events.hex()}"
    if Trie(state.values).root != trie.root:
        raise ReplayBroken("the tree that grew block by block differs from one built anew")


def main() -> int:
    """Print the lines."""
    for line in play(TAPE.decode(Path(sys.argv[1]).read_bytes())):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
