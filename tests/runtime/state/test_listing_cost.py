"""The cost of a listing: in proportion to its result, over every kind of state, for any other writes."""

import sys
from collections.abc import Callable
from itertools import islice
from types import FrameType, ModuleType
from typing import Any

import pytest

from counted_reads import CountingReader
from node.ledger import layers
from node.ledger.layers import DiffLayer
from node.rpc import past_states, replica
from node.rpc.past_states import PastState, Undo
from node.rpc.replica import FinalState
from runtime.state import overlay, trie, written_keys
from runtime.state.overlay import Memory, Overlay, StateReader
from runtime.state.trie import Trie


# The number of lines of some modules that a piece of work executes: its cost, without a clock.
def steps_of(work: Callable[[], Any], *modules: ModuleType) -> int:
    """Lines of `modules` that `work` executes."""
    files = {module.__file__ for module in modules}
    count = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename not in files:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


ITEM = b"i" * 32
HERE, ELSEWHERE = ITEM + b"here", ITEM + b"elsewhere"
TAKEN = 10
STATE_MODULES = (overlay, written_keys, trie, layers, past_states, replica)


def entries(prefix: bytes, count: int) -> dict[bytes, bytes]:
    return {prefix + number.to_bytes(4, "big"): b"v" for number in range(count)}


class Executing(Overlay):
    """A block under execution, as the subject of a listing."""

    def get(self, key: bytes, /) -> bytes | None:
        return self.raw(key)


def written(values: dict[bytes, bytes]) -> StateReader:
    made = Executing(Memory())
    for key, value in values.items():
        made.store(key, value, value)
    return made


def changed(values: dict[bytes, bytes]) -> StateReader:
    made = Executing(Memory(values))
    for key in values:
        made.store(key, b"w", b"w")
    return made


def undone(values: dict[bytes, bytes]) -> StateReader:
    """Write half of it for good, the other half in a call that fails."""
    made = written(dict(islice(values.items(), 0, None, 2)))
    assert isinstance(made, Executing)
    marks = made.enter_layer()
    for key in islice(values, 1, None, 2):
        made.store(key, b"v", b"v")
    made.leave_layer(marks, undo=True)
    return made


def final(values: dict[bytes, bytes]) -> StateReader:
    made = FinalState()
    made.update(values)
    return made


STATES: dict[str, Callable[[dict[bytes, bytes]], StateReader]] = {
    "in memory": Memory,
    "written in this block": written,
    "changed in this block": changed,
    "written in this block, half of it undone": undone,
    "in a trie": Trie,
    "changed in a block above the final one": lambda values: DiffLayer(Memory(values), dict.fromkeys(values, b"w")),
    "written in a block above the final one": lambda values: DiffLayer(Memory(), values),
    "with its trie": lambda values: DiffLayer(Memory(), values, Trie(values)),
    "of the RPC process": final,
    "of the RPC process, some blocks ago": lambda values: PastState(Memory(), [Undo(values)]),
}


@pytest.mark.parametrize("kind", STATES)
def test_a_listing_costs_what_it_returns(kind: str) -> None:
    costs, others = [], []
    for count in (100, 10_000):
        state = STATES[kind](entries(HERE, count))
        list(state.keys(ITEM + b"nothing", b""))  # the sorting that happens once a block is done
        costs.append(steps_of(lambda state=state: list(islice(state.keys(HERE, b""), TAKEN)), *STATE_MODULES))  # type: ignore[misc]
        others.append(steps_of(lambda state=state: list(state.keys(ELSEWHERE, b"")), *STATE_MODULES))  # type: ignore[misc]
    # a hundred times as many entries: a few nodes of a tree more, or a few steps of a search
    assert costs[1] <= 2 * costs[0]
    assert others[1] <= 2 * others[0]


def test_a_listing_over_a_block_reads_no_more_keys_than_it_returns() -> None:
    below = CountingReader(Memory(entries(HERE, 10_000)))
    made = Overlay(below)
    for key in islice(entries(HERE, 10_000), 0, None, 3):
        made.store(key, b"w", b"w")
    assert len(list(islice(made.keys(HERE), TAKEN))) == TAKEN
    assert below.reads <= TAKEN + 1


def test_what_was_removed_costs_a_step_and_no_value() -> None:
    """A removed key in front is skipped by each listing. Removed keys elsewhere cost nothing."""
    below = CountingReader(Memory(entries(HERE, 1_000)))
    made = Overlay(below)
    for key in islice(entries(HERE, 1_000), 0, 500):
        made.store(key, None, None)
    assert next(made.keys(HERE)) == HERE + (500).to_bytes(4, "big")
    assert below.reads <= 502
    below.reads = 0
    assert len(list(islice(made.keys(HERE, HERE + (700).to_bytes(4, "big")), TAKEN))) == TAKEN
    assert below.reads <= TAKEN + 1


def test_each_write_is_put_in_order_once() -> None:
    made = Overlay(Memory())
    for key in entries(ELSEWHERE, 10_000):
        made.store(key, b"v", b"v")
    list(made.keys(HERE))
    again = [steps_of(lambda: list(made.keys(HERE)), *STATE_MODULES)]
    made.store(HERE, b"v", b"v")
    again.append(steps_of(lambda: list(made.keys(HERE)), *STATE_MODULES))
    assert max(again) < 100


def test_what_is_written_and_undone_again_and_again_is_passed_at_one_step() -> None:
    made = Overlay(Memory(entries(HERE, 3)))
    costs = []
    for rounds in (1, 500):
        for _ in range(rounds):
            marks = made.enter_layer()
            made.store(HERE + b"again", b"v", b"v")
            made.leave_layer(marks, undo=True)
        list(made.keys(ELSEWHERE))
        costs.append(steps_of(lambda: list(made.keys(HERE)), *STATE_MODULES))
    assert costs[1] <= 2 * costs[0]
    assert len(list(made.keys(HERE))) == 3


@pytest.mark.parametrize("depth", [100, 2_000])
def test_layers_are_listed_however_many_there_are(depth: int) -> None:
    state: StateReader = Memory(entries(HERE, 3))
    for number in range(depth):
        state = DiffLayer(state, {HERE + bytes((9,)) + number.to_bytes(4, "big"): b"v", HERE + bytes(4): None})
    assert len(list(state.keys(HERE))) == depth + 2
