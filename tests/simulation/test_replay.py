"""A recorded chain replays equally under other hash seeds, and the replay notices planted differences."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.blocks.block import BLOCK, Block
from runtime.frame.errors import InvalidBlock
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from simulation.replay.__main__ import SURROUNDINGS, differences, digest, replay, tameness
from simulation.replay.play import TAPE, ReplayBroken, Tape, WorldTouched, no_world, play
from simulation.replay.record import Recording, record

FEW = 120
KEPT = Path(__file__).parents[1] / "vectors" / "recorded_chain.tape"
KEPT_DIGEST = "ed1997508f8e06e6a3936780a290bc6a00101f8c4ea6c701d4ead7a4a805b0d0"


@pytest.fixture(scope="module")
def recording() -> Recording:
    return record(seed=5, extrinsics=FEW)


def test_replay_from_genesis_reaches_the_head(recording: Recording) -> None:
    lines = list(play(recording.tape))
    assert len(lines) == len(recording.blocks)
    assert lines[-1].split()[1] == recording.trie.root.hex()


def test_a_chain_recorded_long_ago_still_has_its_roots_and_events() -> None:
    """800 extrinsics, with disputes that end. After a change of the rules that was meant:

    `python -m simulation.replay --extrinsics 800 --seed 13 --keep tests/vectors/recorded_chain.tape`, and say so.
    """
    assert digest(list(play(TAPE.decode(KEPT.read_bytes())))) == KEPT_DIGEST


def test_the_chain_recorded_long_ago_needs_no_assertion() -> None:
    """Python runs no assert under `-O`: one that does the work would leave such a node with other roots."""
    (optimised,) = [around for around in SURROUNDINGS if "-O" in around.options]
    assert digest(replay(Path(sys.executable), optimised, KEPT)) == KEPT_DIGEST


def test_a_difference_is_named() -> None:
    replays = {"3.11/0": ["1 aa bb", "2 cc dd"], "3.12/0": ["1 aa bb", "2 cc ee"], "3.12/1": ["1 aa bb"]}
    assert differences(replays) == ["3.12/0 differs from 3.11/0: 2 cc ee", "3.12/1 differs from 3.11/0: one is longer"]


def test_a_replay_that_dies_is_no_agreement() -> None:
    assert differences({"3.11/0": ["ended with 1: no"], "3.12/0": ["ended with 1: no"]})


def test_a_tame_recording_shows_nothing() -> None:
    recording = Recording(seed=1)
    recording.calls["System.remark"] = 100
    assert any("fail" in problem for problem in tameness(recording))


def test_a_block_left_out_is_noticed(recording: Recording) -> None:
    tape = recording.tape
    with pytest.raises(ReplayBroken):
        list(play(Tape(tape.spec, (tape.blocks[0], *tape.blocks[2:]))))


def test_an_extrinsic_left_out_is_noticed(recording: Recording) -> None:
    tape = recording.tape
    decoded = (BLOCK.decode(raw) for raw in tape.blocks)
    position, block = next(found for found in enumerate(decoded) if len(found[1].extrinsics) > 1)
    shorter = BLOCK.encode(Block(block.header, block.extrinsics[:-1]))
    with pytest.raises(InvalidBlock):
        list(play(Tape(tape.spec, (*tape.blocks[:position], shorter))))


def test_grains_from_nowhere_are_noticed(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(pallet: Balances, amount: int) -> None:
        pallet.total_issuance.set(pallet.total_issuance.get() - amount)

    monkeypatch.setattr(Balances, "retire", forgetful)
    with pytest.raises(Exception, match=r"burned|root"):
        list(play(recording.tape))


def clock() -> object:
    return time.time()


def file() -> object:
    return open("/dev/null")  # noqa: PTH123 - the builtin is what is taken away


def chance() -> object:
    return os.urandom(1)


@pytest.mark.parametrize("reach", [clock, file, chance])
def test_execution_that_reaches_outside_is_noticed(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, reach: Callable[[], object]
) -> None:
    monkeypatch.setattr(System, "on_finalize", lambda _: reach())
    with pytest.raises(WorldTouched):
        list(play(recording.tape))


def test_the_world_comes_back(tmp_path: Path) -> None:
    with pytest.raises(WorldTouched), no_world():
        time.time()
    assert time.time() > 0
    (tmp_path / "file").write_text("there")
