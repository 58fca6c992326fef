import contextlib
import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.provider.execution.containers.refusals import ContainerRefusedError
from gpu_tasks.provider.execution.containers.tar_entries import EntryKind, PieceReader, TarStream

FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]


def made(files: dict[str, bytes], kind: int = tarfile.PAX_FORMAT) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=kind) as archive:
        for name, content in files.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    return sink.getvalue()


def read(data: bytes, piece: int = 1_000) -> dict[str, bytes]:
    pieces = iter([data[start : start + piece] for start in range(0, len(data), piece)])
    stream, found = TarStream(PieceReader(pieces)), {}
    for entry in stream:
        assert entry.kind is EntryKind.FILE
        found[entry.name] = b"".join(stream.content())
    return found


@pytest.mark.parametrize("kind", FORMATS)
@given(
    st.dictionaries(
        st.text("abcäß/.", min_size=1, max_size=90).map(lambda name: name.strip("/") or "x"),
        st.binary(max_size=3_000),
        max_size=4,
    ),
    st.integers(1, 2_000),
)
def test_it_reads_what_tarfile_writes(kind: int, files: dict[str, bytes], piece: int) -> None:
    try:
        data = made(files, kind)
    except ValueError:
        return  # ustar holds no long name that it cannot split
    assert read(data, piece) == files


@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names(kind: int) -> None:
    files = {"a" * 300: b"x", "b/" * 200 + "c": b"yy"}
    assert read(made(files, kind)) == files


def test_what_is_not_read_is_passed_over() -> None:
    stream = TarStream(io.BytesIO(made({"a": bytes(5_000), "b": b"x"})).read)
    assert [entry.name for entry in stream] == ["a", "b"]


@given(st.binary(max_size=3_000))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(ContainerRefusedError):
        list(TarStream(io.BytesIO(data).read))


@given(st.data())
def test_a_damaged_archive_is_read_or_refused(data: st.DataObject) -> None:
    whole = bytearray(made({"a" * 120: b"x" * 600, "b": b"y"}))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    stream = TarStream(io.BytesIO(bytes(whole[:cut])).read)
    with contextlib.suppress(ContainerRefusedError):
        for _ in stream:
            assert sum(map(len, stream.content())) <= len(whole)


def header(flag: bytes, size: bytes, name: bytes = b"x") -> bytes:
    block = bytearray(512)
    block[: len(name)] = name
    block[100:108] = b"0000644\0"
    block[124:136] = size.ljust(12, b"\0")
    block[156:157] = flag
    block[257:265] = b"ustar\x0000"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (header(b"0", b"77777777777"), "truncated|ends inside"),
        (header(b"0", b"\x80" + b"\xff" * 11), "than any disk"),
        (header(b"x", b"77777777777"), "extended header has"),
        (header(b"L", b"00001000000"), "extended header has"),
        (header(b"S", b"1"), "sparse"),
        (header(b"?", b"0"), "unknown kind"),
        (header(b"0", b"9"), "number"),
        (header(b"0", b"-1"), "number"),
        (header(b"0", b"0", b"\xff\xfe"), "UTF-8"),
        (b"\1" * 512, "number|checksum"),
        ((header(b"x", b"4") + b"9 a=".ljust(512, b"\0")), "damaged"),
        ((header(b"L", b"1") + b"a".ljust(512, b"\0")) * 5, "in a row|headers before"),
        (header(b"x", b"23") + b"23 GNU.sparse.major=1\n".ljust(512, b"\0") + header(b"0", b"0"), "sparse|damaged"),
    ],
)
def test_what_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ContainerRefusedError, match=why):
        for _ in TarStream(io.BytesIO(data).read):
            pass


def test_a_sparse_file_of_pax_is_refused() -> None:
    record = b"22 GNU.sparse.major=1\n"
    data = header(b"x", b"%o" % len(record)) + record.ljust(512, b"\0") + header(b"0", b"0")
    with pytest.raises(ContainerRefusedError, match="sparse"):
        list(TarStream(io.BytesIO(data).read))


def test_records_without_end_are_refused() -> None:
    """64 kB of four-byte records took 50 ms, so half a gibibyte would take a daemon minutes."""
    few = b"".join(b"7 k%02d=\n" % number for number in range(99))
    data = header(b"x", b"%o" % len(few)) + few.ljust(1_024, b"\0") + header(b"0", b"0")
    assert [entry.name for entry in TarStream(io.BytesIO(data).read)] == ["x"]
    many = b"4 =\n" * 16_384
    with pytest.raises(ContainerRefusedError, match="256 records"):
        list(TarStream(io.BytesIO(header(b"x", b"%o" % len(many)) + many + header(b"0", b"0")).read))


def test_a_name_among_other_records_is_read() -> None:
    records = b"13 mtime=1.5\n" + b"10 path=y\n" + b"8 a=b=c\n"
    data = header(b"x", b"%o" % len(records)) + records.ljust(512, b"\0") + header(b"0", b"0")
    assert [entry.name for entry in TarStream(io.BytesIO(data).read)] == ["y"]
