"""The active set of an epoch, from the handoffs of an untrusted node, and the folder's copy."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consensus.sets import SetTable
from consensus.validators import ValidatorSet
from handed_sets import GENESIS, HandingNode, handoff, root_of, set_of, walk
from wallet.proved import sets_file
from wallet.proved.refutation import NodeRefutedError
from wallet.proved.sets import PAGE, TOLD_FROM, KnownSets
from wallet.proved.sets_file import SETS_FILE, SetsFile

FOUR = (1, 2, 3, 4)
CHANGING = [
    (1, 2, 3, 4),
    (1, 2, 3, 5),
    (1, 2, 6, 5),
    (7, 2, 6, 5),
    (7, 2, 6, 5),
    (7, 8, 6, 5),
    (7, 8, 9, 5),
    (7, 8, 9, 1),
]


def known(node: HandingNode, folder: Path | None = None, told: list[str] | None = None) -> KnownSets:
    root = root_of(set_of(0, CHANGING[0]))
    file = None if folder is None else SetsFile(folder, GENESIS)
    return KnownSets(
        "ws://node", node.ask, root, file, report_progress=(told if told is not None else list[str]()).append
    )


def ask(sets: KnownSets, epoch: int) -> ValidatorSet:
    return asyncio.run(sets.of(epoch))


def test_the_first_set_needs_no_node() -> None:
    node = walk(CHANGING)
    assert ask(known(node), 0) == set_of(0, CHANGING[0])
    assert node.asked == []


@pytest.mark.parametrize("epoch", range(1, len(CHANGING)))
def test_each_set_follows_from_the_one_before(epoch: int) -> None:
    assert ask(known(walk(CHANGING)), epoch) == set_of(epoch, CHANGING[epoch])


def test_no_more_is_asked_than_is_needed_and_nothing_twice() -> None:
    node = walk(CHANGING)
    sets = known(node)
    for epoch in (3, 2, 3, 7):
        ask(sets, epoch)
    assert node.asked == [(0, 3), (3, 4)]


def test_who_asks_at_once_walks_once() -> None:
    node = walk(CHANGING)
    sets = known(node)

    async def both() -> list[ValidatorSet]:
        return list(await asyncio.gather(sets.of(7), sets.of(5)))

    assert [found.epoch for found in asyncio.run(both())] == [7, 5]
    assert node.asked == [(0, 7)]


def test_a_long_way_is_walked_in_pages_and_told() -> None:
    node, told = walk([FOUR] * (TOLD_FROM + 2)), list[str]()
    sets = known(node, told=told)
    assert ask(sets, TOLD_FROM).epoch == TOLD_FROM
    assert node.asked[:2] == [(0, PAGE), (PAGE, PAGE)]
    assert [f"{TOLD_FROM:,} epochs" in text for text in told] == [True]
    ask(sets, TOLD_FROM + 1)
    assert len(told) == 1, "a short one is not"


LIES: dict[str, tuple[Any, str]] = {
    "nothing": ([], "0 handoffs from epoch 0"),
    "no list": ({}, "not the list"),
    "no bytes": ([1], "not the hexadecimal"),
    "no handoff": ([b"\x00"], "handoff|malformed|short|end"),
    "other seats than certified": (
        [handoff(set_of(0, FOUR), set_of(1, (1, 2, 3, 9)), (1, 2))], "invalid certificate",
    ),
    "votes of strangers": ([handoff(set_of(0, (6, 7, 8, 9)), set_of(1, FOUR), (6, 7, 8, 9))], "invalid certificate"),
    "that of the epoch after": ([handoff(set_of(1, FOUR), set_of(2, FOUR), FOUR)], "epoch's last"),
    "a notarised block": ([handoff(set_of(0, FOUR), set_of(1, FOUR), FOUR, 1)], "another block"),
    "too many": ([handoff(set_of(0, FOUR), set_of(1, FOUR), FOUR)] * (PAGE + 1), f"{PAGE + 1} handoffs"),
    "one twice": ([handoff(set_of(0, FOUR), set_of(1, FOUR), FOUR)] * 2, "epoch's last"),
}  # fmt: skip


@pytest.mark.parametrize(("said", "why"), LIES.values(), ids=LIES)
def test_a_lie_is_refuted_at_once(said: Any, why: str) -> None:
    asked = []

    async def lie(method: str, *parameters: Any) -> Any:
        asked.append(parameters)
        return ["0x" + each.hex() if isinstance(each, bytes) else each for each in said] if said != {} else {}

    sets = KnownSets("ws://node", lie, root_of(set_of(0, FOUR)))
    with pytest.raises(NodeRefutedError, match=why):
        ask(sets, 40_000_000)
    assert len(asked) == 1 + (said != {} and len(said) == PAGE), "however far it says that the chain is"


def test_a_good_handoff_before_a_bad_one_is_kept() -> None:
    node = walk(CHANGING)
    node.handoffs[3] = node.handoffs[2]
    sets = known(node)
    with pytest.raises(NodeRefutedError, match="the handoff of epoch 3"):
        ask(sets, 7)
    assert ask(sets, 3) == set_of(3, CHANGING[3])
    node.handoffs = walk(CHANGING).handoffs
    assert ask(sets, 7) == set_of(7, CHANGING[7])


# ------------------------------------------------------------------------------------------------------------- the file


def test_what_was_followed_is_there_for_the_next_program(tmp_path: Path) -> None:
    ask(known(walk(CHANGING), tmp_path), 6)
    node = walk(CHANGING)
    again = known(node, tmp_path)
    assert [ask(again, epoch) for epoch in range(7)] == [set_of(epoch, CHANGING[epoch]) for epoch in range(7)]
    assert node.asked == []
    ask(again, 7)
    assert node.asked == [(6, 1)]


def damaged(data: bytes) -> bytes:
    """In the first session key, so that it is still a table."""
    return data[:80] + bytes([data[80] ^ 1]) + data[81:]


@pytest.mark.parametrize(
    "change", [lambda _: b"", lambda data: data[:-1], damaged, lambda data: data + b"\0", lambda _: bytes(100)]
)
def test_a_file_that_is_damaged_is_as_good_as_none(change: Any, tmp_path: Path) -> None:
    ask(known(walk(CHANGING), tmp_path), 6)
    path = tmp_path / SETS_FILE
    path.write_bytes(change(path.read_bytes()))
    node = walk(CHANGING)
    assert ask(known(node, tmp_path), 6) == set_of(6, CHANGING[6])
    assert node.asked == [(0, 6)]


def test_so_is_one_that_others_may_read_and_one_of_another_chain(tmp_path: Path) -> None:
    ask(known(walk(CHANGING), tmp_path), 6)
    assert SetsFile(tmp_path, GENESIS).load() is not None
    assert SetsFile(tmp_path, bytes(32)).load() is None
    (tmp_path / SETS_FILE).chmod(0o644)
    assert SetsFile(tmp_path, GENESIS).load() is None


def test_it_holds_the_newest_sets_and_what_it_left_out_is_followed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sets_file, "RUNS_MAX", 3)
    ask(known(walk(CHANGING), tmp_path), 7)
    table = SetsFile(tmp_path, GENESIS).load()
    assert table is not None
    assert (table.first, table.newest.epoch, table.count()) == (5, 7, 3)
    node = walk(CHANGING)
    again = known(node, tmp_path)
    assert ask(again, 2) == set_of(2, CHANGING[2])
    assert ask(again, 6) == set_of(6, CHANGING[6])
    assert ask(again, 4) == set_of(4, CHANGING[4])
    assert node.asked == [(0, 2), (2, 2)]
    kept = SetsFile(tmp_path, GENESIS).load()
    assert kept is not None
    assert (kept.first, kept.newest.epoch) == (5, 7), "older ones do not push out the newest"
    monkeypatch.setattr(sets_file, "FILE_BYTES_MAX", 1_200)
    SetsFile(tmp_path, GENESIS).keep(table)
    assert (tmp_path / SETS_FILE).stat().st_size <= 1_200


def test_a_folder_that_cannot_be_written_only_costs_the_next_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sets_file, "replace", full)
    assert ask(known(walk(CHANGING), tmp_path), 6) == set_of(6, CHANGING[6])
    assert SetsFile(tmp_path, GENESIS).load() is None


@given(st.lists(st.sampled_from([FOUR, (1, 2, 3, 5), (6, 7, 8, 9)]), min_size=1, max_size=12), st.integers(0, 3))
def test_a_table_is_the_runs_of_its_sets(epochs: list[tuple[int, ...]], first: int) -> None:
    table = SetTable(set_of(first, epochs[0]))
    for number, people in enumerate(epochs[1:], first + 1):
        table.write(set_of(number, people))
    again = SetTable.of_runs(table.runs(), table.newest.epoch)
    numbers = range(first + len(epochs) + 2)
    assert [again.of(number) for number in numbers] == [table.of(number) for number in numbers]
    assert again.newest == table.newest


@pytest.mark.parametrize(
    ("runs", "newest"),
    [([], 3), ([(2, FOUR), (2, FOUR)], 3), ([(3, FOUR), (2, FOUR)], 3), ([(4, FOUR)], 3), ([(0, FOUR), (1, ())], 3)],
)
def test_what_is_no_table_is_refused(runs: list[tuple[int, tuple[int, ...]]], newest: int) -> None:
    with pytest.raises(ValueError, match=r"sets|set has"):
        SetTable.of_runs([(first, set_of(0, people).members if people else ()) for first, people in runs], newest)


def test_how_long_the_newest_set_sat_is_kept_too(tmp_path: Path) -> None:
    ask(known(walk([FOUR] * 8), tmp_path), 6)
    node = walk([FOUR] * 8)
    assert ask(known(node, tmp_path), 6) == set_of(6, FOUR)
    assert node.asked == []
