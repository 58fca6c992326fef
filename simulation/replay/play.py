"""Executes a tape from block 0, and prints each block's height, its state root and the hash of its events.

Run as `python -m simulation.replay.play TAPE`. It checks each block:

* The block is valid and extends the previous one.
* All accounts together hold the issuance. With the burned grains it equals the cap.
* Execution uses nothing outside its inputs.

At the end, a trie built from the whole state must have the last root.
"""

import builtins
import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn
from unittest.mock import patch

from genesis.chain import genesis_block_header, genesis_state, runtime_of
from genesis.spec import from_json
from runtime.blocks.block import BLOCK, BLOCK_BYTES_MAX, block_id
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import verify
from runtime.encoding.codec import Bounded, codec, struct
from runtime.encoding.types import CAP_GRAINS
from runtime.execution.executive import execute_block
from runtime.execution.supply import recount
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from runtime.state.overlay import Memory
from runtime.state.trie import Trie

SPEC_BYTES_MAX = 1_000_000
BLOCKS_MAX = 100_000


@struct
class Tape:
    """Block 0 as a chain specification, and every later block, parents first."""

    spec: Annotated[bytes, Bounded(SPEC_BYTES_MAX)]
    blocks: Annotated[tuple[Annotated[bytes, Bounded(BLOCK_BYTES_MAX)], ...], Bounded(BLOCKS_MAX)]


TAPE = codec(Tape)


WORLD: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (builtins, ("open", "input", "print")),
    (os, ("urandom", "getrandom", "open", "stat", "listdir", "getenv", "getpid", "system", "times", "cpu_count")),
    (time, ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "localtime", "gmtime", "sleep")),
    (random, ("Random", "random", "randrange", "randint", "choice", "shuffle", "sample", "getrandbits", "randbytes")),
    (secrets, ("token_bytes", "randbelow", "randbits", "choice", "token_hex")),
    (socket, ("socket", "create_connection", "getaddrinfo", "gethostname")),
    (subprocess, ("Popen", "run")),
    (threading, ("Thread", "Timer", "get_ident")),
)


class WorldTouched(BaseException):
    """Execution used something outside its inputs. Not an Exception, so that no handler on the way can catch it."""


@contextmanager
def no_world() -> Iterator[None]:
    """Replace the outside world's functions during the block."""
    with ExitStack() as stack:
        for module, names in WORLD:
            for name in names:
                stack.enter_context(patch.object(module, name, _raiser(f"{module.__name__}.{name}")))
        yield


def _raiser(name: str) -> Any:
    def touched(*_: Any, **__: Any) -> NoReturn:
        raise WorldTouched(name)

    return touched


class ReplayBroken(Exception):
    """The recorded chain and its replay disagree, or a rule is broken."""


def play(tape: Tape) -> Iterator[str]:
    """Yield one line for each block. Raise ReplayBroken, or an exception of the execution."""
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
