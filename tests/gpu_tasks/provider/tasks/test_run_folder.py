"""States on the disk: read exactly as written, or not at all."""

from pathlib import Path

import pytest

from gpu_tasks.provider.tasks.run_folder import RunFolder, remove_all, remove_others

TASK, OTHER = b"t" * 32, b"o" * 32


def test_what_was_kept_is_there_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "tasks", TASK, 2)
    assert folder.free_bytes() > 0
    assert (folder.input(), folder.earlier(), folder.state(3), folder.trail(2)) == (None, (), None, None)
    folder.keep_input(b"sealed")
    folder.keep_earlier([b"a" * 32, b"b" * 32])
    folder.keep_state(3, b"state")
    folder.keep_trail(2, b"trail")
    again = RunFolder(tmp_path / "tasks", TASK, 2)
    assert (again.input(), again.earlier(), again.state(3)) == (b"sealed", (b"a" * 32, b"b" * 32), b"state")
    assert (again.trail(2), again.trail(3)) == (b"trail", None)
    assert RunFolder(tmp_path / "tasks", TASK, 0).state(3) is None
    assert (folder.path / "state-3").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("size", range(0, 37, 4))
def test_a_file_that_was_torn_is_none(tmp_path: Path, size: int) -> None:
    folder = RunFolder(tmp_path, TASK, 0)
    folder.keep_state(1, b"state")
    path = folder.path / "state-1"
    whole = path.read_bytes()
    path.write_bytes(whole[:size])
    assert folder.state(1) is None
    path.write_bytes(whole[:-1] + b"x")
    assert folder.state(1) is None


def test_what_nothing_is_left_to_do_for_is_removed(tmp_path: Path) -> None:
    base = tmp_path / "tasks"
    remove_others(base, [TASK])
    for task, behind in ((TASK, 0), (TASK, 1), (OTHER, 0)):
        RunFolder(base, task, behind).keep_state(0, b"state")
    remove_others(base, [TASK])
    assert sorted(path.name for path in base.iterdir()) == [f"{TASK.hex()}-0", f"{TASK.hex()}-1"]
    remove_all(base, TASK)
    assert list(base.iterdir()) == []
