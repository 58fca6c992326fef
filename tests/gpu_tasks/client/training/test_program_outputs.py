"""What a provider has sealed as the outputs of a program may be anything: it is named, or refused, at no great cost."""

import io
import lzma
import random
import tarfile

import pytest

from gpu_tasks.client.training.program_outputs import NAMES_SHOWN, names_in
from gpu_tasks.client.training.run_blobs import RunBlobError


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
