"""The sign-state file: on the disk before any signature, refuses contradictions, survives kill -9."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from consensus.signstate import HeaderRecord, SigningRefusedError
from node.duty.signstate_file import SignStateFile
from node.errors import BadInputError, DiskSpaceError, NodeError
from runtime.blocks.votes import Ballot, BallotKind

GENESIS, SESSION = b"g" * 32, b"s" * 32


def ballot(kind: BallotKind, round_: int, block: bytes = b"b" * 32) -> Ballot:
    return Ballot(kind, 0, round_, round_, block)


def loaded(path: Path) -> SignStateFile:
    found = SignStateFile.load(path, GENESIS, SESSION)
    assert found is not None
    return found


def test_a_new_one_then_records_then_the_same_after_loading(tmp_path: Path) -> None:
    path = tmp_path / "sign-state"
    assert SignStateFile.load(path, GENESIS, SESSION) is None
    file = SignStateFile.create(path, GENESIS, SESSION)
    file.record(HeaderRecord(7, b"h" * 32))
    file.record(ballot(BallotKind.NOTARISE, 1))
    file.record(ballot(BallotKind.FINALISE, 1))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = loaded(path)
    assert again.state == file.state
    again.record(ballot(BallotKind.NOTARISE, 1))
    with pytest.raises(SigningRefusedError):
        again.record(ballot(BallotKind.NOTARISE, 1, b"c" * 32))
    with pytest.raises(SigningRefusedError):
        again.record(ballot(BallotKind.SKIP, 1))
    with pytest.raises(SigningRefusedError):
        again.record(HeaderRecord(7, b"i" * 32))
    with pytest.raises(SigningRefusedError):
        again.record(HeaderRecord(6, b"h" * 32))
    assert loaded(path).state == file.state


@pytest.mark.parametrize(("number", "exit_code"), [(errno.EMFILE, 1), (errno.ENOSPC, 4), (errno.EIO, 1)])
def test_what_cannot_be_written_is_not_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, exit_code: int
) -> None:
    path = tmp_path / "sign-state"
    file = SignStateFile.create(path, GENESIS, SESSION)
    file.record(ballot(BallotKind.NOTARISE, 1))
    before, kept = file.state, path.read_bytes()

    def no_file(*_words: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", no_file)
        with pytest.raises(NodeError, match="cannot be written") as ended:
            file.record(ballot(BallotKind.NOTARISE, 2))
        assert ended.value.exit_code == exit_code
        assert isinstance(ended.value, DiskSpaceError) == (exit_code == 4)
        with pytest.raises(NodeError, match="cannot be written"):
            file.note_final(0, 1, 9)
    assert (file.state, file.final_height) == (before, 0)
    assert path.read_bytes() == kept
    file.record(ballot(BallotKind.NOTARISE, 2))
    assert loaded(path).state == file.state


def test_the_floor_and_the_final_height_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "sign-state"
    file = SignStateFile.create(path, GENESIS, SESSION)
    file.record(ballot(BallotKind.NOTARISE, 3))
    file.note_final(0, 3, 30)
    file.note_final(0, 2, 20)
    again = loaded(path)
    assert (again.final_height, again.state.floor_round, again.state.ballots) == (30, 3, ())
    with pytest.raises(SigningRefusedError):
        again.record(ballot(BallotKind.SKIP, 3))


def test_it_is_never_replaced_and_never_of_another_chain_or_key(tmp_path: Path) -> None:
    path = tmp_path / "sign-state"
    SignStateFile.create(path, GENESIS, SESSION)
    with pytest.raises(BadInputError, match="never replaced"):
        SignStateFile.create(path, GENESIS, SESSION)
    with pytest.raises(BadInputError, match="another chain"):
        SignStateFile.load(path, b"x" * 32, SESSION)
    with pytest.raises(BadInputError, match="session key"):
        SignStateFile.load(path, GENESIS, b"x" * 32)


def test_every_flipped_bit_and_every_cut_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sign-state"
    SignStateFile.create(path, GENESIS, SESSION).record(ballot(BallotKind.NOTARISE, 1))
    whole = path.read_bytes()
    damaged = [bytes([*whole[:at], whole[at] ^ 4, *whole[at + 1 :]]) for at in range(len(whole))]
    for content in [*damaged, *(whole[:size] for size in range(0, len(whole), 7))]:
        path.write_bytes(content)
        with pytest.raises(BadInputError, match="damaged"):
            SignStateFile.load(path, GENESIS, SESSION)
    path.write_bytes(whole)
    loaded(path)


SIGNER = """
import sys
sys.path[:0] = {path!r}
from pathlib import Path
from tests.node.duty.test_signstate_file import GENESIS, SESSION, BallotKind, SignStateFile, ballot
path = Path(sys.argv[1])
file = SignStateFile.load(path, GENESIS, SESSION) or SignStateFile.create(path, GENESIS, SESSION)
number = max([ballot.round for ballot in file.state.ballots], default=file.state.floor_round)
while True:
    number += 1
    file.record(ballot(BallotKind.NOTARISE, number))
    print(number, flush=True)
    if number % 10 == 0:
        file.note_final(0, number - 5, number - 5)
"""


def test_kill_9_forgets_nothing_that_was_signed(tmp_path: Path) -> None:
    path = tmp_path / "sign-state"
    script = SIGNER.format(path=[str(Path(__file__).parents[3])])
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True) as signer:
            assert signer.stdout is not None
            first = signer.stdout.readline()
            time.sleep(0.05)
            signer.send_signal(signal.SIGKILL)
            signed = [int(line) for line in [first, *signer.stdout.read().split("\n")[:-1]]]
        for number in signed[-5:]:
            with pytest.raises(SigningRefusedError):
                loaded(path).record(ballot(BallotKind.NOTARISE, number, b"c" * 32))
