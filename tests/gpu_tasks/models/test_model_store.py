"""The folder of model files: whole files by their ids, found by name and by first digits."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from error_codes import raises_code
from gpu_tasks.models import model_store
from gpu_tasks.models.model_file import (
    DRAFT_SUFFIX,
    ModelFields,
    ModelFileError,
    ModelHeader,
    read_section,
    verify,
    write_model,
)
from gpu_tasks.models.model_store import ModelMissingError, ModelStore, ModelStoreError, default_folder

ROOT = Path(__file__).parents[3]
NOBODY = 65_534


def made(path: Path, name: str = "toy", content: bytes = b"weights") -> ModelHeader:
    return write_model(path, ModelFields("w", name, "", "", ""), [("config", b"c"), ("tensors", content)])


@pytest.fixture(autouse=True)
def built_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package's own folder, without a model."""
    folder = tmp_path / "built_in"
    folder.mkdir()
    monkeypatch.setattr(model_store, "BUILT_IN_FOLDER", folder)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    """A folder that does not exist yet."""
    return ModelStore(tmp_path / "below" / "models")


def names(store: ModelStore) -> list[str]:
    return sorted(path.name for path in store.folder.iterdir())


def test_an_added_file_has_the_name_of_its_id(tmp_path: Path, store: ModelStore) -> None:
    header = made(tmp_path / "toy")
    told: list[int] = []
    assert (store.models(), store.damaged()) == ([], [])
    assert store.add(tmp_path / "toy", told.append) == header
    assert sum(told) == 8
    assert names(store) == [f"{header.model_id.hex()}.ogpu-model"]
    path = store.path(header.model_id)
    assert path.read_bytes() == (tmp_path / "toy").read_bytes()
    assert store.models() == [header]
    assert store.add(tmp_path / "toy") == header
    store.remove(header.model_id)
    assert names(store) == []
    for missing in (store.path, store.remove):
        with raises_code(ModelMissingError, "model_missing"):
            missing(header.model_id)


def test_a_new_model_is_written_into_the_folder(store: ModelStore) -> None:
    model_fields = ModelFields("w", "new", "MIT", "", "")
    header = store.create(model_fields, [("tensors", iter([b"a", b"b"]))])
    assert read_section(store.path(header.model_id), "tensors") == b"ab"
    assert store.create(model_fields, [("tensors", b"ab")], expected_id=header.model_id) == header
    with raises_code(ModelStoreError, "another_model"):
        store.create(model_fields, [("tensors", b"other")], expected_id=header.model_id)
    assert store.models() == [header]
    assert len(names(store)) == 1


def test_a_damaged_file_is_not_added(tmp_path: Path, store: ModelStore) -> None:
    made(tmp_path / "toy")
    content = (tmp_path / "toy").read_bytes()
    for damaged, code in ((content[:-1] + b"S", "hash_mismatch"), (content[:-1], "file_truncated")):
        (tmp_path / "toy").write_bytes(damaged)
        with raises_code(ModelFileError, code):
            store.add(tmp_path / "toy")
    with raises_code(ModelFileError, "file_unreadable"):
        store.add(tmp_path / "nothing")
    assert names(store) == []


def test_a_file_that_was_damaged_in_the_folder(tmp_path: Path, store: ModelStore) -> None:
    header, other = made(tmp_path / "toy"), made(tmp_path / "other", "other")
    for name in ("toy", "other"):
        store.add(tmp_path / name)
    path = store.path(header.model_id)
    path.write_bytes(path.read_bytes()[:-2])
    for read in (store.path, lambda model_id: store.find(model_id.hex())):
        with raises_code(ModelFileError, "file_truncated"):
            read(header.model_id)
    assert store.models() == [other]
    assert [(found.path, found.error.code) for found in store.damaged()] == [(path, "file_truncated")]
    # The file of another model under this name.
    path.write_bytes((tmp_path / "other").read_bytes())
    with raises_code(ModelFileError, "another_model"):
        store.path(header.model_id)
    # Adding the model again mends it.
    store.add(tmp_path / "toy")
    assert verify(store.path(header.model_id)) == header
    store.path(header.model_id).write_bytes(b"")
    store.remove(header.model_id)
    assert store.damaged() == []


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path, store: ModelStore) -> None:
    header = made(tmp_path / "toy")
    store.add(tmp_path / "toy")
    for name in ("readme.txt", "abcd.ogpu-model", f"{'A' * 64}.ogpu-model", f"0x{'a' * 62}.ogpu-model"):
        (store.folder / name).write_bytes(b"")
    (store.folder / f"{'b' * 64}.ogpu-model").mkdir()
    assert store.models() == [header]
    assert store.damaged() == []


def test_a_built_in_model_stands_behind_those_of_the_folder(tmp_path: Path, store: ModelStore, built_in: Path) -> None:
    own, given = made(tmp_path / "toy"), made(tmp_path / "given", "given")
    place = built_in / f"{given.model_id.hex()}.ogpu-model"
    place.write_bytes((tmp_path / "given").read_bytes())
    assert (store.models(), store.path(given.model_id)) == ([given], place)
    store.add(tmp_path / "toy")
    assert store.models() == [given, own]
    assert store.find("given") == store.find(given.model_id.hex()) == given
    assert (store.is_built_in(given.model_id), store.is_built_in(own.model_id)) == (True, False)
    with raises_code(ModelStoreError, "built_in"):
        store.remove(given.model_id)
    # A copy in the folder comes first, and its removal leaves the built-in one.
    store.add(tmp_path / "given")
    assert (store.models(), store.path(given.model_id).parent) == ([given, own], store.folder)
    store.remove(given.model_id)
    assert store.path(given.model_id) == place


def test_a_model_is_found_by_name_and_by_first_digits(tmp_path: Path, store: ModelStore) -> None:
    first, second = made(tmp_path / "a", "twin", b"1"), made(tmp_path / "b", "twin", b"2")
    third = made(tmp_path / "c", "single")
    for name in "abc":
        store.add(tmp_path / name)
    digits = third.model_id.hex()
    for text in ("single", digits[:4], digits[:9].upper(), f"0x{digits[:12]}", digits, f"0x{digits}"):
        assert store.find(text) == third
    assert store.find(second.model_id.hex()[:20]) == second
    with raises_code(ModelMissingError, "model_ambiguous"):
        store.find("twin")
    for text in ("nothing", digits[:3], "", "0x", "00" * 32, "f" * 65, "sing"):
        with raises_code(ModelMissingError, "model_missing"):
            store.find(text)
    # A name that looks like the beginning of another model's id stands for both.
    made(tmp_path / "d", first.model_id.hex()[:8])
    store.add(tmp_path / "d")
    with raises_code(ModelMissingError, "model_ambiguous"):
        store.find(first.model_id.hex()[:8])


def test_two_programs_add_one_file(tmp_path: Path, store: ModelStore) -> None:
    header = made(tmp_path / "toy", content=bytes(1 << 22))
    code = (
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom pathlib import Path\n"
        "from gpu_tasks.models.model_store import ModelStore\nsys.stdin.read(1)\n"
        f"ModelStore(Path({str(store.folder)!r})).add(Path({str(tmp_path / 'toy')!r}))"
    )
    adding = [subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) for _ in range(2)]
    for program in adding:
        assert program.stdin is not None
        program.stdin.close()
    assert [program.wait() for program in adding] == [0, 0]
    assert names(store) == [f"{header.model_id.hex()}.ogpu-model"]
    assert verify(store.path(header.model_id)) == header


def test_drafts_of_killed_programs_are_removed(tmp_path: Path, store: ModelStore) -> None:
    made(tmp_path / "toy")
    store.add(tmp_path / "toy")
    old, new = store.folder / f".old{DRAFT_SUFFIX}", store.folder / f".new{DRAFT_SUFFIX}"
    for draft in (old, new):
        draft.write_bytes(b"half")
    age = new.stat().st_mtime - model_store.ABANDONED_SECONDS - 60
    os.utime(old, (age, age))
    store.add(tmp_path / "toy")
    assert (old.exists(), new.exists()) == (False, True)


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    header = made(tmp_path / "toy")
    store = ModelStore(tmp_path / "toy")  # a file stands in its place
    for use in (store.models, lambda: store.add(tmp_path / "toy"), lambda: store.remove(header.model_id)):
        with raises_code(ModelStoreError, "store_unusable"):
            use()
    with raises_code(ModelMissingError, "model_missing"):
        store.path(header.model_id)


@contextmanager
def as_a_plain_user(folder: Path) -> Iterator[None]:
    """Act as a user who owns nothing, even if the tests run as root, whom no mode stops."""
    folder.chmod(0o755)
    own = os.geteuid()
    if own == 0:
        os.chown(folder, NOBODY, -1)
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(own)


def test_a_folder_without_rights() -> None:
    with TemporaryDirectory() as below, as_a_plain_user(Path(below)):
        folder = Path(below) / "models"
        store, model = ModelStore(folder), Path(below) / "toy"
        made(model)
        folder.mkdir(0o500)
        with raises_code(ModelFileError, "file_unwritable"):
            store.add(model)
        folder.chmod(0)
        with raises_code(ModelStoreError, "store_unusable"):
            store.models()
        Path(below).chmod(0o500)
        with raises_code(ModelStoreError, "store_unusable"):
            ModelStore(Path(below) / "other").add(model)
        Path(below).chmod(0o700)


def test_the_folder_of_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("OGPU_MODELS", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert default_folder() == Path("/home/somebody/.local/share/ogpu/models")
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_folder() == Path("/home/somebody/.local/share/ogpu/models")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_folder() == Path("/data/ogpu/models")
    monkeypatch.setenv("OGPU_MODELS", "~/mine")
    assert default_folder() == Path("/home/somebody/mine")
