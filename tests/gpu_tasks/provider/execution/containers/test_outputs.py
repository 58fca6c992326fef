import io
import tarfile
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from error_codes import raises_code
from gpu_tasks.provider.execution.containers.outputs import OutputArchive, OutputLimits, write_outputs
from gpu_tasks.provider.execution.containers.refusals import ContainerError, ContainerRefusedError
from runtime.cryptography.hashing import blake2_256

LIMITS = OutputLimits(files=10, file_bytes=10_000)
Entry = tuple[str, bytes | None]


def stream(*entries: Entry, **changes: object) -> bytes:
    """Return an engine's archive of /out. A content of None is a folder."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in (("out", None), *entries):
            header = tarfile.TarInfo(name)
            header.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            header.size, header.mtime, header.mode = len(content or b""), 1_700_000_000.5, 0o640
            for key, value in changes.items() if name != "out" else ():
                setattr(header, key, value)
            archive.addfile(header, io.BytesIO(content or b""))
    return sink.getvalue()


def written(data: bytes, limits: OutputLimits = LIMITS) -> tuple[OutputArchive, bytes]:
    sink = io.BytesIO()
    return write_outputs(iter([data]), "out", limits, sink), sink.getvalue()


def test_an_archive_and_its_hash() -> None:
    archive, content = written(stream(("out/a", b"x"), ("out/d", None), ("out/d/b", b"yy")))
    assert (archive.files, archive.size, archive.blake2_256) == (2, len(content), blake2_256(content))
    with tarfile.open(fileobj=io.BytesIO(content)) as found:
        assert [(member.name, member.size, member.mtime, member.uid) for member in found] == [
            ("a", 1, 0, 0),
            ("d", 0, 0, 0),
            ("d/b", 2, 0, 0),
        ]


def test_a_folder_under_its_own_name() -> None:
    sink = io.BytesIO()
    data = stream(("out/a", b"x"), ("out/d", None), ("out/d/b", b"yy"))
    assert write_outputs(iter([data]), "out", LIMITS, sink, is_named=True).files == 2
    with tarfile.open(fileobj=io.BytesIO(sink.getvalue())) as found:
        assert found.getnames() == ["out", "out/a", "out/d", "out/d/b"]


def test_owners_times_and_bits_do_not_count_but_whether_it_is_a_program_does() -> None:
    plain = written(stream(("out/a", b"x")))
    assert plain == written(stream(("out/a", b"x"), uid=7, mtime=5, mode=0o4600, uname="x"))
    assert plain != written(stream(("out/a", b"x"), mode=0o755))


def test_an_empty_folder_and_a_single_file() -> None:
    assert written(stream())[0].files == 0
    header = tarfile.TarInfo("out")
    header.size = 1
    alone, content = written(header.tobuf() + b"x".ljust(512, b"\0") + bytes(1_024))
    assert alone.files == 1
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert archive.getnames() == ["out"]


@pytest.mark.parametrize(
    ("entry", "changes", "why"),
    [
        (("out/a", b""), {"type": tarfile.SYMTYPE, "linkname": "/etc"}, "not_a_plain_file"),
        (("out/a", b""), {"type": tarfile.LNKTYPE, "linkname": "out/b"}, "not_a_plain_file"),
        (("out/a", b""), {"type": tarfile.FIFOTYPE}, "not_a_plain_file"),
        (("out/a", b""), {"type": tarfile.CHRTYPE, "devmajor": 1}, "not_a_plain_file"),
        (("out/../a", b""), {}, "path_outside"),
        (("out//a", b""), {}, "path_outside"),
        (("/out/a", b""), {}, "path_outside"),
        (("in/a", b""), {}, "path_outside"),
        (("outside", b""), {}, "path_outside"),
        (("out/" + "d/" * 16 + "a", b""), {}, "path_too_long"),
        (("out/" + "a" * 256, b""), {}, "path_too_long"),
        (("out/a\nb", b""), {}, "unprintable_name"),
        (("out/\x1b]0;x", b""), {}, "unprintable_name"),
        (("out/a", bytes(10_001)), {}, "output_too_large"),
    ],
)
def test_what_is_refused(entry: Entry, changes: dict[str, object], why: str) -> None:
    with raises_code(ContainerRefusedError, why):
        written(stream(entry, **changes))


def test_too_many_files() -> None:
    written(stream(*((f"out/{number}", b"") for number in range(10))))
    with raises_code(ContainerRefusedError, "too_many_files"):
        written(stream(*((f"out/{number:02}", b"") for number in range(11))))


def test_a_file_with_a_hole_is_refused_before_it_is_read() -> None:
    """An engine expands a terabyte of zeros, so the daemon reads only the header."""

    def pieces() -> Iterator[bytes]:
        header = tarfile.TarInfo("out/hole")
        header.size = 1 << 40
        yield header.tobuf(tarfile.GNU_FORMAT)
        raise AssertionError("the content was asked for")

    with raises_code(ContainerRefusedError, "output_too_large"):
        write_outputs(pieces(), "out", LIMITS, io.BytesIO())


def test_names_twice_or_out_of_order_are_no_engines() -> None:
    for names in (("a", "a"), ("b", "a")):
        with raises_code(ContainerError, "out_of_order"):
            written(stream(*((f"out/{name}", b"") for name in names)))


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=5), st.binary(max_size=500), max_size=8), st.integers(1, 700)
)
def test_the_same_files_have_the_same_hash_in_any_pieces(files: dict[str, bytes], size: int) -> None:
    data = stream(*((f"out/{name}", files[name]) for name in sorted(files)))
    whole, _ = written(data)
    pieces = (data[start : start + size] for start in range(0, len(data), size))
    assert write_outputs(pieces, "out", LIMITS, io.BytesIO()) == whole
