"""What a large file costs its reader, and what is too large."""

import json
import random
import time
import tracemalloc
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from gpu_tasks.batches.requests import REQUEST_BYTES_MAX
from gpu_tasks.client.units import line_reader, lines
from gpu_tasks.client.units.line_reader import BatchReader, LineTerms
from gpu_tasks.client.units.lines import BatchFileError, BatchLine, FileForm, LineError
from gpu_tasks.workloads import registry

TERMS = LineTerms(registry.form_named("textgen-int8"), ("small",), 16, 64, {}, bytes(32))


def read(data: bytes, form: FileForm | None = None, terms: LineTerms = TERMS) -> list[BatchLine | LineError]:
    return list(BatchReader(BytesIO(data), terms, form))


def test_lines_that_are_no_text_or_too_long_cost_only_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reader, "LINE_BYTES_MAX", 100)
    found = read(b"a\n" + b"\xff\n" + b"y" * 101 + b"\n" + b"z" * 1_000 + b"\nb\n" + b"w" * 100)
    assert [(each.number, getattr(each, "code", "")) for each in found] == [
        (1, ""),
        (2, "invalid_encoding"),
        (3, "line_too_long"),
        (4, "line_too_long"),
        (5, ""),
        (6, ""),
    ]


def test_a_request_of_a_batch_is_small() -> None:
    (line,) = read(b"abc")
    assert isinstance(line, BatchLine)
    assert TERMS.bytes_max == REQUEST_BYTES_MAX
    terms = replace(TERMS, bytes_max=len(TERMS.request(line)))
    assert read(b"abc", terms=terms) == [line]
    assert [getattr(each, "code", "") for each in read(b"abcd", terms=terms)] == ["request_too_large"]
    assert lines.LINE_BYTES_MAX > 6 * REQUEST_BYTES_MAX


def test_a_name_that_stands_twice_is_found_in_one_pass() -> None:
    """A line of 512 KiB with 45,000 names took a minute and more, each such line of a stranger's file."""
    names = (*(f"n{number}" for number in range(45_000)), "n44999")
    line = ("{" + ",".join(f'"{name}":1' for name in names) + "}").encode()
    assert lines.LINE_BYTES_MAX // 2 < len(line) <= lines.LINE_BYTES_MAX
    before = time.process_time()
    (found,) = read(line, FileForm.OBJECTS)
    assert time.process_time() - before < 5
    assert isinstance(found, LineError)
    assert found.message.endswith("'n44999' stands in it twice")


@pytest.mark.parametrize("data", [b"", b"\n", b" \r\n \n"])
def test_an_empty_file_is_none(data: bytes) -> None:
    for form in (None, *FileForm):
        with pytest.raises(BatchFileError, match="no request"):
            read(data, form)


def test_too_large_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reader, "LINES_MAX", 3)
    assert len(read(b"a\n\n\n\na\na")) == 3
    with pytest.raises(BatchFileError, match="3 requests"):
        read(b"a\n" * 4)
    with pytest.raises(BatchFileError, match="3 empty lines"):
        read(b"a\n\n\n\n\n")
    with pytest.raises(BatchFileError, match="no request"):
        read(b"\n\n\n\n\na")
    monkeypatch.setattr(line_reader, "FILE_BYTES_MAX", 4)
    assert len(read(b"ab\nc")) == 2
    with pytest.raises(BatchFileError, match="4 bytes"):
        read(b"ab\ncd")


@pytest.mark.nightly
def test_a_full_file_is_never_in_memory(tmp_path: Path) -> None:
    """50,000 lines of 4,000 bytes are 200 MB: what is held is one line, and a hash of each id."""
    path, chance = tmp_path / "full.jsonl", random.Random(1)
    with path.open("wb") as stream:
        for number in range(lines.LINES_MAX):
            value = {"prompt": "word " * chance.randrange(1, 40), "id": f"request-{number}"}
            stream.write(json.dumps(value).encode().ljust(3_980) + b"\n")
    assert lines.FILE_BYTES_MAX - 2_000_000 < path.stat().st_size <= lines.FILE_BYTES_MAX
    with path.open("rb") as stream:
        count = sum(isinstance(found, BatchLine) for found in BatchReader(stream, TERMS))
    assert count == lines.LINES_MAX
    with path.open("rb") as stream:
        tracemalloc.start()
        try:
            for place, _ in enumerate(BatchReader(stream, TERMS)):
                if place == 9_999:
                    break
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 4_000_000
