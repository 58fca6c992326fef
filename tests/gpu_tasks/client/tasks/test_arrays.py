"""Arrays: which members there are, what each finds, and which of them are on the chain already."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from converted import IMAGE
from error_codes import raises_code
from gpu_tasks.client.tasks.arrays import MEMBERS_MAX, ArrayError, ArrayRecord, IndexSet, index_set, member_of
from gpu_tasks.client.tasks.drafts import ProgramDraft
from gpu_tasks.client.tasks.orders import LoadedTask
from gpu_tasks.tasks.container_request import VARIABLES_MAX
from gpu_tasks.tasks.container_task import ContainerTask
from gpu_tasks.tasks.task_kinds import ContainerSource, read_any_task
from wallet.outbox import FILE, RecordError

TASK, OTHER = b"\1" * 32, b"\2" * 32


def loaded(**fields: object) -> LoadedTask:
    draft = ProgramDraft("a", IMAGE, "2 oGPU", **fields)  # type: ignore[arg-type]  # whatever a test sets
    return LoadedTask(read_any_task(draft.text().encode(), "x"), {})


def task_of(member: LoadedTask) -> ContainerTask:
    assert isinstance(member.source, ContainerSource)
    return member.source.file.task


@pytest.mark.parametrize(
    ("text", "indices", "at_once"),
    [
        ("0-3", (0, 1, 2, 3), None),
        ("7", (7,), None),
        ("0-9%4", tuple(range(10)), 4),
        ("0-15:4", (0, 4, 8, 12), None),
        ("5,1,3-4,3", (1, 3, 4, 5), None),
        ("999999", (999_999,), None),
        (f"0-{MEMBERS_MAX - 1}", tuple(range(MEMBERS_MAX)), None),
        (f"0-{(MEMBERS_MAX - 1) * 1000}:1000", tuple(range(0, MEMBERS_MAX * 1_000, 1_000)), None),
    ],
)
def test_members(text: str, indices: tuple[int, ...], at_once: int | None) -> None:
    assert index_set(text) == IndexSet(indices, at_once)


@pytest.mark.parametrize(
    "text",
    ["", "-", "a", "3-1", "1-2:0", "1%0", "1%", "1%a", "1,,2", "0-64", "0-999999", "1-2-3", "٣", "-1", "1%4%4", " 1",
     "0-40,50-90", "1000000", "0-9%1000"],
)  # fmt: skip
def test_what_is_no_array(text: str) -> None:
    with pytest.raises(ArrayError):
        index_set(text)


@given(st.text(alphabet="0123456789-,:%", max_size=30))
def test_any_text_is_an_array_or_refused(text: str) -> None:
    try:
        found = index_set(text)
    except ArrayError:
        return
    assert 1 <= len(found.indices) <= MEMBERS_MAX
    assert list(found.indices) == sorted(set(found.indices))


def test_a_member_is_its_file_with_its_index() -> None:
    file, asked = loaded(env={"A": "1"}), index_set("2,4-5")
    members = [task_of(member_of(file, asked, index)) for index in asked.indices]
    assert [member.name for member in members] == ["a-2", "a-4", "a-5"]
    assert members[1].environment == {
        "A": "1", "OGPU_ARRAY_INDEX": "4", "SLURM_ARRAY_TASK_ID": "4", "SLURM_ARRAY_TASK_COUNT": "3",
        "SLURM_ARRAY_TASK_MIN": "2", "SLURM_ARRAY_TASK_MAX": "5",
    }  # fmt: skip
    assert task_of(file).environment == {"A": "1"}, "the file is as it was"
    assert len({member_of(file, asked, index).identity() for index in asked.indices}) == 3


def test_no_variable_of_the_file_hides_the_index() -> None:
    file = loaded(env={"OGPU_ARRAY_INDEX": "9", "SLURM_ARRAY_TASK_MAX": "9"})
    found = task_of(member_of(file, index_set("1-2"), 1)).environment
    assert (found["OGPU_ARRAY_INDEX"], found["SLURM_ARRAY_TASK_MAX"]) == ("1", "2")


def test_the_longest_name_has_room_for_an_index() -> None:
    file = LoadedTask(read_any_task(ProgramDraft("a" * 63, IMAGE, "2 oGPU").text().encode(), "x"), {})
    names = [task_of(member_of(file, index_set("1,999999"), index)).name for index in (1, 999_999)]
    assert names == ["a" * 61 + "-1", "a" * 56 + "-999999"]


def test_a_full_environment_has_no_room_for_an_index() -> None:
    full = {f"V{number}": "1" for number in range(VARIABLES_MAX - 5)}
    asked = index_set("1")
    member_of(loaded(env=full), asked, 1).asked(bytes(32), 1_000)
    with raises_code(ArrayError, "too_many_variables"):
        member_of(loaded(env={**full, "ONE_MORE": "1"}), asked, 1)


def test_a_training_task_has_no_environment() -> None:
    text = Path(__file__).parents[4] / "examples" / "minimal.yaml"
    training = LoadedTask(read_any_task(text.read_bytes(), "x"), {})
    with raises_code(ArrayError, "not_for_arrays"):
        member_of(training, index_set("1"), 1)


# --------------------------------------------------------------------------------------------------------- the record


def test_what_was_noted_is_there_for_who_comes_next(tmp_path: Path) -> None:
    with ArrayRecord.open(tmp_path, b"a", b"b") as record:
        record.note(3, TASK)
    with ArrayRecord.open(tmp_path, b"a", b"b") as record:
        assert record.members == {3: TASK.hex()}
        record.note(1, OTHER)
    with ArrayRecord.open(tmp_path, b"a", b"b") as record:
        assert record.members == {1: OTHER.hex(), 3: TASK.hex()}
        record.remove(1)
        record.remove(1)
    with ArrayRecord.open(tmp_path, b"a", b"b") as record:
        assert record.members == {3: TASK.hex()}
        record.forget()
        record.forget()
    with ArrayRecord.open(tmp_path, b"a", b"b") as record:
        assert record.members == {}


def test_arrays_of_other_parts_are_others(tmp_path: Path) -> None:
    with ArrayRecord.open(tmp_path, b"a", b"b") as record:
        record.note(3, TASK)
        for identity in ((b"ab",), (b"a", b"b", b""), (b"b", b"a")):
            with ArrayRecord.open(tmp_path, *identity) as other:
                assert other.members == {}


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with ArrayRecord.open(tmp_path, b"a"), pytest.raises(RecordError, match="is being submitted by another"):
        ArrayRecord.open(tmp_path, b"a")
    with ArrayRecord.open(tmp_path, b"a") as record:
        assert record.members == {}


def test_a_damaged_record_is_no_empty_one(tmp_path: Path) -> None:
    with ArrayRecord.open(tmp_path, b"a") as record:
        record.note(3, TASK)
    content = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(content.replace(TASK, OTHER))
    for _ in range(2):  # and the lock is let go of
        with raises_code(RecordError, "record_damaged"):
            ArrayRecord.open(tmp_path, b"a")


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with raises_code(RecordError, "record_unwritable"):
        ArrayRecord.open(tmp_path / "file", b"a")
