"""A development chain with a test's state at its start: cases and units that would take hours to arise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import played_node
from genesis.chain import genesis_state, runtime_of
from runtime.frame.runtime import Bound
from runtime.state.overlay import Memory
from wallet_runner import chain


@contextmanager
def chain_with(folder: Path, plant: Callable[[Bound], None], *, beat_seconds: float = 0.0) -> Iterator[str]:
    """Run a chain as `wallet_runner.chain`, after `plant` wrote into the state of block 0. Yield the node's URL."""
    state = Memory(genesis_state(played_node.SPEC))
    bound = runtime_of(played_node.SPEC).at(state)
    plant(bound)
    values = state.updated(bound.overlay.changes()).values
    with (
        patch.object(played_node, "genesis_state", lambda _: dict(values)),
        chain(folder, beat_seconds=beat_seconds) as url,
    ):
        yield url
