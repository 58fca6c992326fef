"""States before and after the final block, against the plainest model: a dictionary for each block."""

import random

from node.rpc.past_states import DEPTH_MAX, KEPT, PastStates
from node.rpc.replica import FinalState, UnsettledStates
from runtime.state.overlay import Changes, StateReader

KEYS = [bytes((first, second)) for first in range(4) for second in range(12)]


def changed(chance: random.Random) -> Changes:
    return {key: chance.choice((None, chance.randbytes(2))) for key in chance.sample(KEYS, 5)}


def applied(state: dict[bytes, bytes], changes: Changes) -> dict[bytes, bytes]:
    both = {**state, **changes}
    return {key: value for key, value in both.items() if value is not None}


def assert_reads(reader: StateReader, expected: dict[bytes, bytes]) -> None:
    for key in KEYS:
        assert reader.get(key) == expected.get(key)
    for prefix in (b"", b"\1", b"\3"):
        for start in (b"", b"\1\5", b"\2"):
            wanted = sorted(key for key in expected if key.startswith(prefix) and (key > start or not start))
            assert list(reader.keys(prefix, start)) == wanted


def name(height: int) -> bytes:
    return height.to_bytes(4, "big")


def test_past_states_are_those_that_were() -> None:
    chance = random.Random(7)
    present = FinalState()
    past = PastStates(present)
    states: list[dict[bytes, bytes]] = [{}]
    for height in range(1, 2 * KEPT):
        changes = changed(chance)
        past.add(height, name(height - 1), present.update(changes))
        states.append(applied(states[-1], changes))
        if height % 50 == 0 or height == 2 * KEPT - 1:
            for back in {1, 2, 15, 16, 17, 33, KEPT - 1, KEPT} & set(range(height + 1)):
                reader = past.reader(name(height - back))
                assert reader is not None
                assert reader.depth <= DEPTH_MAX
                assert_reads(reader, states[height - back])
            assert height <= KEPT or past.reader(name(height - KEPT - 1)) is None
    assert len(past._undos) == len(past._child_heights) == KEPT
    assert len(past._joined_by_height) <= KEPT


def test_states_told_newest_first_as_a_node_does_at_the_start() -> None:
    chance = random.Random(8)
    present = FinalState()
    states: list[dict[bytes, bytes]] = [{}]
    undone: list[Changes] = []
    for _ in range(100):
        changes = changed(chance)
        undone.append(present.update(changes))
        states.append(applied(states[-1], changes))
    past = PastStates(present)
    for height in range(100, 0, -1):
        past.add(height, name(height - 1), undone[height - 1])
    for height in (0, 3, 50, 99):
        reader = past.reader(name(height))
        assert reader is not None
        assert_reads(reader, states[height])


def depth(reader: StateReader) -> int:
    count = 0
    while hasattr(reader, "parent"):
        reader = reader.parent
        count += 1
    return count


def test_states_above_a_final_block_that_stands_still() -> None:
    chance = random.Random(9)
    present = FinalState()
    unsettled = UnsettledStates(present)
    states: dict[bytes, dict[bytes, bytes]] = {name(0): {}}
    blocks: dict[bytes, tuple[bytes, Changes]] = {}

    def add(block: bytes, parent: bytes) -> None:
        blocks[block] = (parent, changed(chance))
        states[block] = applied(states[parent], blocks[block][1])
        unsettled.add(block, *blocks[block])

    for height in range(1, 1200):
        add(name(height), name(height - 1))
    for height in range(20, 60):  # a branch from within the first
        add(b"b" + name(height), b"b" + name(height - 1) if height > 20 else name(19))
    for block in (name(1), name(15), name(16), name(17), name(40), name(1199), b"b" + name(20), b"b" + name(59)):
        reader = unsettled.get(block)
        assert reader is not None
        assert depth(reader) <= int.from_bytes(block[-4:], "big") // 16 + 16
        assert_reads(reader, states[block])

    for changes in unsettled.settle([name(height) for height in range(1, 31)]):
        present.update(changes)
    lost = unsettled.lay_anew(name(30))
    assert lost == [b"b" + name(height) for height in range(20, 60)]
    for block in (name(31), name(46), name(47), name(1199)):
        reader = unsettled.get(block)
        assert reader is not None
        assert_reads(reader, states[block])
    assert unsettled.get(name(30)) is None
    assert unsettled.get(b"b" + name(59)) is None
