"""Model files: a written file is read again, and no damaged or hostile file is taken for a model."""

import io
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from error_codes import raises_code
from gpu_tasks.models import model_file
from gpu_tasks.models.model_file import (
    BUFFER_BYTES,
    FILE_BYTES_MAX,
    HEADER_BYTES_MAX,
    MAGIC,
    SECTION_NAMES,
    ModelFields,
    ModelFileError,
    ModelHeader,
    ModelSection,
    copy_verified,
    read_header,
    read_section,
    section_range,
    verify,
    write_model,
)
from runtime.encoding.codec import codec
from synced_renames import watched_renames

ROOT = Path(__file__).parents[3]
FIELDS = ModelFields("decoder-int8", "toy-1m", "Apache-2.0", "refs/pr/1", "huggingface.co/toy/toy-1m")
SECTIONS = {"config": b"c" * 40, "tokenizer": b"", "tensors": bytes(range(256)) * 9}
HEADER_OF = codec(ModelHeader)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A sound model file."""
    write_model(tmp_path / "toy", FIELDS, SECTIONS.items())
    return tmp_path / "toy"


def digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=32).digest()


def front(encoded: bytes) -> bytes:
    return MAGIC + len(encoded).to_bytes(4, "little") + encoded


def stated(*sections: ModelSection, **changed: str) -> bytes:
    """Return the front of a file with a sound encoding of any header."""
    texts = {name: getattr(FIELDS, name) for name in ("workload", "name", "licence", "revision", "source")} | changed
    return front(HEADER_OF.encode(ModelHeader(**texts, sections=sections)))


def part(name: str, content: bytes = b"") -> ModelSection:
    return ModelSection(name, len(content), digest(content))


def test_what_was_written_is_read(path: Path) -> None:
    header = read_header(path)
    assert (header.workload, header.name, header.licence) == ("decoder-int8", "toy-1m", "Apache-2.0")
    assert (header.revision, header.source) == ("refs/pr/1", "huggingface.co/toy/toy-1m")
    assert {name: read_section(path, name) for name in SECTIONS} == SECTIONS
    assert verify(path) == header
    assert header.file_bytes == path.stat().st_size
    content = path.read_bytes()
    for name, expected in SECTIONS.items():
        offset, length = section_range(path, name)
        assert content[offset : offset + length] == expected
    assert (header.has("config"), header.has("generation")) == (True, False)


def test_the_id_is_the_hash_of_all_before_the_sections(path: Path) -> None:
    header = read_header(path)
    assert header.model_id == digest(path.read_bytes()[: section_range(path, "config").offset])


def test_the_bytes_of_a_file_are_fixed(tmp_path: Path) -> None:
    """Another layout would give every model another id."""
    write_model(tmp_path / "toy", ModelFields("w", "n", "MIT", "", "s"), [("tensors", b"abc")])
    header = b"\x04w\x04n\x0cMIT\x00\x04s\x04" + b"\x1ctensors" + b"\x03" + bytes(7) + digest(b"abc")
    assert (tmp_path / "toy").read_bytes() == b"ogpu/mf1" + bytes([len(header), 0, 0, 0]) + header + b"abc"


@given(
    st.dictionaries(st.sampled_from(SECTION_NAMES), st.lists(st.binary(max_size=40), max_size=4)),
    st.text("abc-9", min_size=1, max_size=60).map(lambda text: f"m{text}"),
    st.text(st.characters(exclude_categories=("C", "Z")), max_size=30),
)
def test_any_file_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, parts: dict[str, list[bytes]], name: str, revision: str
) -> None:
    path = tmp_path_factory.mktemp("models") / "file"
    given_fields = ModelFields("w", name, "", revision, "")
    told: list[int] = []
    written = write_model(path, given_fields, [(name, iter(part)) for name, part in parts.items()], told.append)
    whole = {name: b"".join(part) for name, part in parts.items()}
    assert sum(told) == sum(map(len, whole.values()))
    told.clear()
    assert verify(path, told.append) == read_header(path) == written
    assert sum(told) == sum(map(len, whole.values()))
    assert {section.name: read_section(path, section.name) for section in written.sections} == whole
    assert (written.name, written.revision) == (name, revision)
    # The same content is the same file, for any parts in any order.
    again = [(name, whole[name]) for name in reversed(whole)]
    assert write_model(path, given_fields, again).model_id == written.model_id
    copied = io.BytesIO()
    assert copy_verified(path, copied) == written
    assert copied.getvalue() == path.read_bytes()


def test_a_file_cut_anywhere_is_refused(path: Path) -> None:
    content = path.read_bytes()
    begin = section_range(path, "tensors").offset
    for length in [*range(begin + 3), len(content) - 1]:
        path.write_bytes(content[:length])
        for read in (read_header, verify):
            with raises_code(ModelFileError, "file_truncated"):
                read(path)
        with raises_code(ModelFileError, "file_truncated"):
            read_section(path, "config")


def test_no_changed_byte_passes(path: Path) -> None:
    content = bytearray(path.read_bytes())
    sound = read_header(path).model_id
    for position in range(0, len(content), 7):
        content[position] ^= 0x20
        path.write_bytes(content)
        with suppress(ModelFileError):
            assert verify(path).model_id != sound
        content[position] ^= 0x20


TOO_LONG = HEADER_BYTES_MAX + 1
HUGE = ModelSection("tensors", 2**64 - 1, bytes(32))
SOUND = stated(part("config", b"c"))
BAD: dict[str, tuple[bytes, str]] = {
    "another file": (b"GGUF" + bytes(100), "not_a_model_file"),
    "another version": (b"ogpu/mf2" + SOUND[8:] + b"c", "not_a_model_file"),
    "an empty file": (b"", "file_truncated"),
    "a header of 2 MiB": (MAGIC + (2 << 20).to_bytes(4, "little") + bytes(2 << 20), "header_too_large"),
    "a header of 4 GiB": (MAGIC + b"\xff" * 4, "header_too_large"),
    "a byte too long": (MAGIC + TOO_LONG.to_bytes(4, "little") + bytes(TOO_LONG), "header_too_large"),
    "no header": (front(b""), "header_malformed"),
    "a byte behind the header's end": (front(SOUND[12:] + b"\0") + b"c", "header_malformed"),
    "a length in a longer form": (front(b"\x31\0" + SOUND[13:]) + b"c", "header_malformed"),
    "a workload of 33 bytes": (front(b"\x84" + b"w" * 33 + SOUND[25:]) + b"c", "header_malformed"),
    "a text that is not UTF-8": (SOUND.replace(b"toy-1m", b"toy\xff1m", 1) + b"c", "header_malformed"),
    "a million sections": (front(HEADER_OF.encode(ModelHeader("w", "n", "", "", "", ()))[:-1] + b"\x02\x09\x3d\x00"),
                           "header_malformed"),
    "an escape in the name": (SOUND.replace(b"toy-1m", b"toy\x1b1m", 1) + b"c", "invalid_field"),
    "no name": (stated(name=""), "invalid_field"),
    "a name with a slash": (stated(name="../toy"), "invalid_field"),
    "a name in capitals": (stated(name="Toy"), "invalid_field"),
    "no workload": (stated(workload=""), "invalid_field"),
    "a line break in the source": (stated(source="a\nb"), "invalid_field"),
    "a direction mark in the revision": (stated(revision="a\u202eb"), "invalid_field"),
    "a quote in the licence": (stated(licence="MIT'"), "invalid_field"),
    "a section twice": (stated(part("config"), part("config")), "sections_out_of_order"),
    "sections in another order": (stated(part("tensors"), part("config")), "sections_out_of_order"),
    "an unknown section": (stated(part("config"), part("weights")), "section_unknown"),
    "a section without a name": (stated(part("")), "section_unknown"),
    "lengths whose sum overflows": (stated(ModelSection("config", 2**64 - 1, bytes(32)), HUGE), "file_too_large"),
    "a section of 2**64 bytes": (stated(HUGE), "file_too_large"),
    "a byte more than the most": (stated(ModelSection("config", FILE_BYTES_MAX, bytes(32))), "file_too_large"),
    "a section that leads out": (stated(ModelSection("config", 1 << 30, bytes(32))) + b"c", "file_truncated"),
    "a byte behind the last section": (SOUND + b"cc", "bytes_left_over"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_front_is_refused(tmp_path: Path, case: str) -> None:
    content, code = BAD[case]
    bad = tmp_path / "bad"
    bad.write_bytes(content)
    tracemalloc.start()
    try:
        for read in (read_header, verify):
            with raises_code(ModelFileError, code):
                read(bad)
        assert tracemalloc.get_traced_memory()[1] < 3 * HEADER_BYTES_MAX
    finally:
        tracemalloc.stop()


def test_the_sound_header_of_the_table_is_sound(tmp_path: Path) -> None:
    (tmp_path / "sound").write_bytes(SOUND + b"c")
    assert verify(tmp_path / "sound").name == "toy-1m"


def test_a_wrong_hash_is_found_where_the_section_is_read(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert read_section(path, "config") == SECTIONS["config"]
    for read in (verify, lambda path: read_section(path, "tensors"), lambda path: copy_verified(path, io.BytesIO())):
        with raises_code(ModelFileError, "hash_mismatch"):
            read(path)


def test_a_section_is_read_up_to_a_limit(path: Path) -> None:
    assert read_section(path, "tensors", len(SECTIONS["tensors"])) == SECTIONS["tensors"]
    with raises_code(ModelFileError, "section_too_large"):
        read_section(path, "tensors", len(SECTIONS["tensors"]) - 1)
    with raises_code(ModelFileError, "section_missing"):
        read_section(path, "generation")
    with raises_code(ModelFileError, "section_missing"):
        section_range(path, "generation")


def test_only_a_plain_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with raises_code(ModelFileError, "not_a_file"):
            read_header(other)
    for missing in (tmp_path / "nothing", tmp_path / "nothing" / "below"):
        with raises_code(ModelFileError, "file_unreadable"):
            verify(missing)


MIB = 1 << 20


def test_large_files_pass_through_a_buffer(tmp_path: Path) -> None:
    chunk = bytes(MIB)
    tracemalloc.start()
    try:
        header = write_model(tmp_path / "large", FIELDS, [("tensors", (chunk for _ in range(48)))])
        assert verify(tmp_path / "large") == header
        with (tmp_path / "copy").open("wb") as target:
            copy_verified(tmp_path / "large", target)
        assert tracemalloc.get_traced_memory()[1] < BUFFER_BYTES + 2 * MIB
    finally:
        tracemalloc.stop()
    assert header.section("tensors").length == 48 * MIB


# Writing.


@pytest.mark.parametrize(
    ("changed", "sections", "code"),
    [
        ({"name": "A name"}, {}, "invalid_field"),
        ({"name": "n" * 65}, {}, "invalid_field"),
        ({"workload": "w" * 33}, {}, "invalid_field"),
        ({"licence": "L" * 65}, {}, "invalid_field"),
        ({"revision": "ä" * 65}, {}, "invalid_field"),
        ({"source": "s" * 257}, {}, "invalid_field"),
        ({}, {"weights": b""}, "section_unknown"),
    ],
)
def test_what_no_file_may_hold_is_not_written(
    tmp_path: Path, changed: dict[str, str], sections: dict[str, bytes], code: str
) -> None:
    texts: dict[str, Any] = {"workload": "w", "name": "n", "licence": "", "revision": "", "source": ""} | changed
    with raises_code(ModelFileError, code):
        write_model(tmp_path / "new", ModelFields(**texts), sections.items())
    assert list(tmp_path.iterdir()) == []


def test_a_section_is_not_written_twice(tmp_path: Path) -> None:
    with raises_code(ModelFileError, "sections_out_of_order"):
        write_model(tmp_path / "new", FIELDS, [("config", b"a"), ("config", b"b")])


@pytest.mark.parametrize(("config_bytes", "parts"), [(500, 9), (500, 5), (9, 10), (1_000, 0)])
def test_a_model_beyond_the_limit_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config_bytes: int, parts: int
) -> None:
    """Each section fits alone, or none of them does: the limit is that of the whole file."""
    monkeypatch.setattr(model_file, "FILE_BYTES_MAX", 1_000)
    tensors = (bytes(100) for _ in range(parts))
    with raises_code(ModelFileError, "file_too_large"):
        write_model(tmp_path / "new", FIELDS, [("config", b"a" * config_bytes), ("tensors", tensors)])
    assert list(tmp_path.iterdir()) == []


def test_bytes_and_name_are_on_the_disk_when_a_model_is_written(tmp_path: Path) -> None:
    with watched_renames() as renames:
        write_model(tmp_path / "new", FIELDS, SECTIONS.items())
    assert renames.done == [tmp_path / "new"]
    assert (renames.unsynced, renames.unsynced_folders) == ([], [])


def test_an_error_in_a_content_leaves_nothing_and_the_old_file(path: Path) -> None:
    def content() -> Iterator[bytes]:
        yield b"a"
        raise KeyError("q_proj")

    before = path.read_bytes()
    with pytest.raises(KeyError):
        write_model(path, FIELDS, [("tensors", content())])
    assert (path.read_bytes(), list(path.parent.iterdir())) == (before, [path])


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with raises_code(ModelFileError, "file_unwritable"):
        write_model(tmp_path / "nowhere" / "new", FIELDS, ())
    with Path("/dev/full").open("wb", buffering=0) as target, raises_code(ModelFileError, "file_unwritable"):
        model_file.copy_verified(written(tmp_path), target)
    monkeypatch.setattr(os, "fsync", full)
    with raises_code(ModelFileError, "file_unwritable"):
        write_model(tmp_path / "new", FIELDS, SECTIONS.items())
    assert [found.name for found in tmp_path.iterdir()] == ["toy"]


def written(folder: Path) -> Path:
    write_model(folder / "toy", FIELDS, SECTIONS.items())
    return folder / "toy"


def dies_while_content_is_read(path: Path) -> None:
    def content() -> Iterator[bytes]:
        yield b"a"
        os.kill(os.getpid(), signal.SIGKILL)

    write_model(path, FIELDS, [("tensors", content())])


def dies_before_it_names(path: Path) -> None:
    os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
    write_model(path, FIELDS, SECTIONS.items())


@pytest.mark.parametrize("dies", [dies_while_content_is_read, dies_before_it_names])
def test_a_killed_writer_leaves_only_a_draft(tmp_path: Path, dies: Callable[[Path], None]) -> None:
    code = (
        f"import sys\nsys.path[:0] = {[str(ROOT), str(ROOT / 'tests/support'), str(Path(__file__).parent)]!r}\n"
        f"from pathlib import Path\nimport test_model_file\n"
        f"test_model_file.{dies.__name__}(Path({str(tmp_path / 'new')!r}))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    (draft,) = tmp_path.iterdir()
    assert draft.name.startswith(".")
    assert draft.suffix == model_file.DRAFT_SUFFIX
