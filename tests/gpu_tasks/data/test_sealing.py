import pytest
from hypothesis import given
from hypothesis import strategies as st

from error_codes import raises_code
from gpu_tasks.data import sealing
from gpu_tasks.data.sealing import (
    BLOB_BYTES_MAX,
    CONTENT_BYTES_MAX,
    READERS_MAX,
    SealError,
    SealKey,
    address_of,
    is_usable,
    opened_with,
    seal,
)
from runtime.cryptography.hashing import blake2_256

NONCE = "b9633be4e3d28fec5aed02b573654b53b24430af3ecf2ebd"
BOX = "7ef2685ddf5d16afb135a6e96da3922acb8dd75ead1e24f42384636e6bd18a49"
ALICE, BOB, EVE = (SealKey.from_seed(bytes([n]) * 32) for n in (1, 2, 3))


@given(st.binary(max_size=2000))
def test_every_reader_opens_and_nobody_else(content: bytes) -> None:
    blob = seal(content, [ALICE.public, BOB.public])
    assert ALICE.open(blob) == BOB.open(blob) == content
    with raises_code(SealError, "other_key"):
        EVE.open(blob)


def test_whoever_opens_sees_who_was_left_out() -> None:
    for reader in (ALICE, BOB):
        opened = reader.opened(seal(b"x", [ALICE.public, BOB.public]))
        assert opened.left_out([ALICE.public, EVE.public, BOB.public]) == [EVE.public]


def test_a_box_that_is_not_quite_right_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins as the reader's own, and the reader cannot open it."""
    right = sealing._key_box

    def wrong(key: bytes, reader: bytes) -> bytes:
        box = right(key, reader)
        return box if reader == ALICE.public else box[:-1] + bytes([box[-1] ^ 1])

    monkeypatch.setattr(sealing, "_key_box", wrong)
    blob = seal(b"x", [ALICE.public, BOB.public])
    monkeypatch.undo()
    assert ALICE.opened(blob).left_out([ALICE.public, BOB.public]) == [BOB.public]
    with raises_code(SealError, "other_key"):
        BOB.open(blob)


def test_a_box_is_what_libsodium_makes_and_no_two_are_alike() -> None:
    boxes = {(number, reader.public): sealing._key_box(bytes([number]) * 32, reader.public)
             for number in (1, 2) for reader in (ALICE, BOB)}  # fmt: skip
    assert len({box[:32] for box in boxes.values()}) == len(boxes), "each has an ephemeral key of its own"
    for (number, public), box in boxes.items():
        reader = ALICE if public == ALICE.public else BOB
        key = bytes([number]) * 32
        assert reader._content_key([box], sealing._nonce_of(key)) == key


def sealed_with_a_box_before(monkeypatch: pytest.MonkeyPatch, readers: list[bytes]) -> bytes:
    """A blob with a right box for Bob, but of another content key, before those of its readers."""
    right = sealing._key_box
    first = next(key for key in (SealKey.from_seed(bytes([n]) * 32).public for n in range(9, 99)) if key < min(readers))

    def boxed(key: bytes, reader: bytes) -> bytes:
        return right(bytes(32), BOB.public) if reader == first else right(key, reader)

    monkeypatch.setattr(sealing, "_key_box", boxed)
    blob = seal(b"x", [first, *readers])
    monkeypatch.undo()
    return blob


def test_a_box_of_another_key_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader with a false box before its own read nothing, while all others saw its right box."""
    blob = sealed_with_a_box_before(monkeypatch, [ALICE.public, BOB.public])
    assert ALICE.opened(blob).left_out([ALICE.public, BOB.public]) == []
    assert BOB.open(blob) == b"x"


def test_who_has_boxes_of_other_keys_alone_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    blob = sealed_with_a_box_before(monkeypatch, [ALICE.public])
    assert ALICE.opened(blob).left_out([ALICE.public, BOB.public]) == [BOB.public]
    with raises_code(SealError, "other_key"):
        BOB.open(blob)


def test_what_is_sealed_now_is_opened_by_programs_of_another_day() -> None:
    """A blob is stored for months. A change of its form needs another version."""
    key = bytes(range(32))
    assert sealing._nonce_of(key).hex() == NONCE
    assert blake2_256(sealing._key_box(key, ALICE.public)).hex() == BOX
    blob = seal(b"x", [ALICE.public])
    for version in (sealing.VERSION - 1, sealing.VERSION + 1):
        with raises_code(SealError, "unknown_version"):
            ALICE.open(bytes([version]) + blob[1:])


def test_boxes_show_neither_who_was_named_first_nor_who_was_named_twice() -> None:
    readers = sorted((ALICE.public, BOB.public, EVE.public))
    for named in (readers, readers[::-1], [*readers[1:], *readers]):
        opened = ALICE.opened(seal(b"x", named))
        assert opened.boxes == tuple(sealing._key_box(opened.key, reader) for reader in readers)


def test_a_handed_out_content_key_opens_its_blob_and_no_other() -> None:
    blob, other = seal(b"x", [ALICE.public, BOB.public]), seal(b"x", [ALICE.public])
    opened = ALICE.opened(blob)
    assert opened_with(opened.key, blob) == opened
    for key, sealed in ((opened.key, other), (bytes(32), blob), (b"", blob), (opened.key, b"anything")):
        with pytest.raises(SealError):
            opened_with(key, sealed)
    with raises_code(SealError, "damaged"):
        opened_with(opened.key, blob[:-1] + bytes((blob[-1] ^ 1,)))


def test_two_sealings_of_one_content_share_nothing() -> None:
    assert address_of(seal(b"x", [ALICE.public])) != address_of(seal(b"x", [ALICE.public]))


@given(st.data())
def test_any_changed_byte_is_noticed(data: st.DataObject) -> None:
    blob = bytearray(seal(b"the prompt", [ALICE.public, BOB.public]))
    place = data.draw(st.integers(0, len(blob) - 1))
    blob[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SealError):
        ALICE.open(bytes(blob))


@given(st.binary(max_size=300))
def test_no_bytes_do_more_than_fail(blob: bytes) -> None:
    with pytest.raises(SealError):
        ALICE.open(blob)


def test_limits() -> None:
    readers = [SealKey.from_seed(n.to_bytes(32, "big")).public for n in range(READERS_MAX + 1)]
    assert len(seal(bytes(CONTENT_BYTES_MAX), readers[:READERS_MAX])) <= BLOB_BYTES_MAX
    for content, wrong in ((bytes(CONTENT_BYTES_MAX + 1), readers[:1]), (b"", readers), (b"", [])):
        with pytest.raises(ValueError, match="a blob"):
            seal(content, wrong)


def test_the_secret_is_not_shown() -> None:
    assert ALICE.public.hex() in repr(ALICE)
    assert ALICE._secret.hex() not in repr(ALICE)


def test_a_key_of_small_order_is_no_reader() -> None:
    """A provider that registers one must not stop customers from sealing to the others."""
    for key in (bytes(32), b"\x01" + bytes(31), b"short"):
        assert not is_usable(key)
        with pytest.raises(ValueError, match=r"X25519 key|expected"):
            seal(b"", [ALICE.public, key])
    assert is_usable(ALICE.public)
