"""What a program left is what was stated, or refused; what a provider has sealed may be anything, at no great cost."""

import asyncio
import hashlib
import io
import lzma
import random
import tarfile
from dataclasses import replace
from typing import Any, cast

import pytest

from gpu_tasks.client.commands.task_runs import program_facts
from gpu_tasks.client.tasks.results import (
    NAMES_SHOWN,
    NOTHING,
    RunBlobError,
    fetch_lines,
    fetch_outputs,
    names_in,
    places_with_lines,
)
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.program_left import LogLine, encode_left
from gpu_tasks.data.sealing import SealKey, address_of, seal
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.tasks import Slot, Task, TaskResult, TaskState
from priced_tasks import a_task
from runtime.cryptography import ss58
from wallet.keypair import Keypair
from wallet.suri import keypair_from_suri

KEY = keypair_from_suri("//Ferdie")
LINES = (LogLine(5, is_error=False, text="one"), LogLine(6, is_error=True, text="two"))
FILES = b"an archive"


class KeptBlobs:
    """Stands in for a `BlobClient`: has what it was given."""

    def __init__(self, *blobs: bytes) -> None:
        self._blobs = {address_of(blob): blob for blob in blobs}

    async def get(self, address: bytes, _endpoints: Any) -> bytes:
        return self._blobs[address]


def sealed(content: bytes, key: Keypair = KEY) -> bytes:
    return seal(content, [SealKey.of(key).public])


def left_by(blob: bytes, outputs: bytes = FILES) -> tuple[Task, BlobClient]:
    """A job whose provider stated these outputs, and that they are in this blob."""
    result = TaskResult(hashlib.blake2b(outputs, digest_size=32).digest(), address_of(blob), 0)
    slot = replace(Slot(b"p" * 32, b"d" * 32, 1, 1, 1), result=result)
    task = a_task(checked_by=CheckedBy.METERED, state=TaskState.ENDED, slots=(slot,))
    return task, cast(BlobClient, KeptBlobs(blob))


def test_outputs_and_lines_come_in_one_blob() -> None:
    task, blobs = left_by(sealed(encode_left(FILES, LINES, 7)))
    assert asyncio.run(fetch_outputs(blobs, KEY, task, {})) == FILES
    left = asyncio.run(fetch_lines(blobs, KEY, task, {}, 0))
    assert (left.lines, left.left_out) == (LINES, 5)


def test_of_one_replica_its_own_provider_is_named() -> None:
    sink = io.BytesIO()
    tarfile.open(fileobj=sink, mode="w").close()
    task, _ = left_by(b"", sink.getvalue())
    other = replace(task.slots[0], provider=b"q" * 32)
    task = replace(task, slots=(task.slots[0], other), order=replace(task.order, checked_by=CheckedBy.REPLICATED))
    named = [program_facts(bytes(32), task, place, sink.getvalue(), None)["providers"] for place in (None, 1)]
    assert named == [f"{ss58.encode(b'p' * 32)}, {ss58.encode(b'q' * 32)}", ss58.encode(b"q" * 32)]


def test_other_outputs_than_were_stated_are_refused() -> None:
    task, blobs = left_by(sealed(encode_left(b"others", LINES, 2)))
    with pytest.raises(RunBlobError, match="not those whose hash was stated"):
        asyncio.run(fetch_outputs(blobs, KEY, task, {}))


@pytest.mark.parametrize("content", [b"", b"\xff" * 100, encode_left(FILES, LINES, 2)[:-1]])
def test_what_cannot_be_read_is_refused(content: bytes) -> None:
    task, blobs = left_by(sealed(content))
    for fetched in (fetch_outputs(blobs, KEY, task, {}), fetch_lines(blobs, KEY, task, {}, 0)):
        with pytest.raises(RunBlobError, match="sealed something else"):
            asyncio.run(fetched)


def test_what_is_sealed_to_another_is_not_opened() -> None:
    task, blobs = left_by(sealed(encode_left(FILES, LINES, 2), keypair_from_suri("//Bob")))
    with pytest.raises(RunBlobError, match="cannot be opened"):
        asyncio.run(fetch_lines(blobs, KEY, task, {}, 0))


def test_where_outputs_could_not_be_taken_there_are_lines() -> None:
    blob = sealed(encode_left(b"", LINES, 2))
    task, blobs = left_by(blob)
    slot = replace(task.slots[0], result=TaskResult(NOTHING, address_of(blob), 3))
    task = replace(task, slots=(slot,))
    with pytest.raises(RunBlobError, match="exit code 3; `ogpu logs`"):
        asyncio.run(fetch_outputs(blobs, KEY, task, {}))
    assert asyncio.run(fetch_lines(blobs, KEY, task, {}, 0)).lines == LINES


def test_lines_are_where_a_blob_was_stated() -> None:
    task, _ = left_by(b"blob")
    (has,) = task.slots
    none, nothing = replace(has, result=None), replace(has, result=TaskResult(NOTHING, NOTHING, 1))
    three = replace(task, slots=(none, has, nothing))
    assert places_with_lines(three) == [1]
    assert [places_with_lines(three, place) for place in range(4)] == [[], [1], [], []]


def archive_of(count: int) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for number in range(count):
            archive.addfile(tarfile.TarInfo(f"file {number}"))
    return sink.getvalue()


def test_the_first_files_of_an_archive_are_named() -> None:
    assert names_in(archive_of(2)) == ["file 0", "file 1"]
    assert len(names_in(archive_of(NAMES_SHOWN + 1))) == NAMES_SHOWN


def test_a_packed_archive_is_not_unpacked() -> None:
    """A header of a gigabyte, in 150 kB, took that much memory of whoever looked at it."""
    with pytest.raises(RunBlobError, match="no archive"):
        names_in(lzma.compress(archive_of(1)))


def test_long_names_and_folders_are_read() -> None:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT) as archive:
        folder = tarfile.TarInfo("a")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name in ("a/" + "long" * 50, "a/wörter"):
            entry = tarfile.TarInfo(name)
            entry.size = 700
            archive.addfile(entry, io.BytesIO(bytes(700)))
    assert names_in(sink.getvalue()) == ["a/" + "long" * 50, "a/wörter"]


def record(size: int, content: bytes) -> bytes:
    """A pax header of so many bytes."""
    header = tarfile.TarInfo("header")
    header.type, header.size = tarfile.XHDTYPE, size
    return header.tobuf(tarfile.USTAR_FORMAT) + content


def test_neither_a_long_header_nor_a_chain_of_them_is_much_work() -> None:
    """A megabyte of digits took a quarter of an hour, and a chain of headers the stack."""
    with pytest.raises(RunBlobError, match="too long"):
        names_in(record(1 << 20, b"1" * (1 << 20)))
    assert names_in(record(512, b"11 path=abc\n".ljust(512, b"\0")) * 900) == []


def test_damaged_archives_are_named_or_refused() -> None:
    chance, whole = random.Random(1), archive_of(3)
    for _ in range(2_000):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 20)):
            damaged[chance.randrange(1_536)] = chance.randrange(256)
        try:
            names = names_in(bytes(damaged[: chance.choice((len(damaged), chance.randrange(2_000)))]))
        except RunBlobError:
            continue
        assert len(names) <= NAMES_SHOWN
