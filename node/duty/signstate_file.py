"""The signatures of this validator's key, in a file of its own beside the database.

Invariants:

* `record` and `note_final` return only after the new state is on the disk, so a signature never leaves before its
  record.
* No signature contradicts an earlier one (`consensus.signstate.after` decides).
* The file names the chain and the session key, and carries a checksum. The node refuses a damaged file and a file of
  another chain or key.
* The file names the highest final block that was ever stored. A database with a lower final block was rolled back or
  restored. The node then signs nothing until the database reaches that height again.

The file is outside the database because LevelDB may silently lose its newest writes when its log is cut short.
"""

from __future__ import annotations

from pathlib import Path

from consensus.signstate import EMPTY, SIGN_STATE, SignedRecord, SignState, after, raise_floor
from node.durable import read_private
from node.errors import NO_SPACE, BadInputError, DiskSpaceError, NodeError
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U32, Annotated, Bounded, Codec, DecodeError, Fixed, codec, struct
from wallet import private_file

MAGIC = b"ogpu sign-state 1\n"
FILE_BYTES_LIMIT = 32 * 1024 * 1024
_CHECKSUM_BYTES = 32


@struct
class _Content:
    """The file's content between the magic and the checksum."""

    genesis: Annotated[bytes, Fixed(32)]
    session: Annotated[bytes, Fixed(32)]
    final_height: U32
    state: Annotated[bytes, Bounded(FILE_BYTES_LIMIT)]


_CONTENT: Codec[_Content] = codec(_Content)


class SignStateFile:
    """The sign-state of one session key on one chain."""

    def __init__(self, path: Path, genesis: bytes, session: bytes, state: SignState, final_height: int) -> None:
        self.path = path
        self._genesis = genesis
        self._session = session
        self.state = state
        self.final_height = final_height

    @classmethod
    def create(
        cls, path: Path, genesis: bytes, session: bytes, *, floor: tuple[int, int] = (0, 0), final_height: int = 0
    ) -> SignStateFile:
        """Create the file of a key.

        The key signs nothing at or below `floor_round`, the epoch and round that made `final_height` final. Raise
        `BadInputError` if the file exists.
        """
        if path.exists():
            raise BadInputError(f"{path} exists. A sign-state is never replaced")
        created = cls(path, genesis, session, EMPTY, 0)
        created._write(raise_floor(EMPTY, *floor), final_height)
        return created

    @classmethod
    def session_of(cls, path: Path, genesis: bytes) -> bytes | None:
        """Return the session key that a file names; None if there is no file.

        Raise `BadInputError` if the file belongs to another chain or is damaged.
        """
        try:
            content = _checked(path, read_private(path, FILE_BYTES_LIMIT))
        except FileNotFoundError:
            return None
        _check_chain(path, content, genesis)
        return content.session

    @classmethod
    def load(cls, path: Path, genesis: bytes, session: bytes) -> SignStateFile | None:
        """Return the sign-state on disk; None if there is no file.

        Raise `BadInputError` if the file is damaged, or belongs to another key or chain.
        """
        try:
            data = read_private(path, FILE_BYTES_LIMIT)
        except FileNotFoundError:
            return None
        content = _checked(path, data)
        _check_chain(path, content, genesis)
        if content.session != session:
            raise BadInputError(
                f"{path} belongs to the session key 0x{content.session.hex()}. Insert that key, or use another "
                "--base-path"
            )
        try:
            state = SIGN_STATE.decode(content.state)
        except DecodeError as error:
            raise _damaged(path) from error
        return cls(path, genesis, session, state, content.final_height)

    def record(self, record: SignedRecord) -> None:
        """Write to disk that the caller is about to sign `signed_record`.

        Raise `SigningRefusedError`, and write nothing, if that signature is forbidden.
        """
        new = after(self.state, record)
        # A repeated record was synced at its first time.
        if new != self.state:
            self._write(new, self.final_height)

    def note_final(self, epoch: int, round_: int, height: int) -> None:
        """Raise the floor to (epoch, round), which made `height` final in the database: the key signs nothing below."""
        self._write(raise_floor(self.state, epoch, round_), max(height, self.final_height))

    def _write(self, state: SignState, final_height: int) -> None:
        """Write a state to disk, then take it over in memory.

        Raise `NodeError` and keep the old state if writing fails.
        """
        content = _CONTENT.encode(_Content(self._genesis, self._session, final_height, SIGN_STATE.encode(state)))
        body = MAGIC + content
        try:
            private_file.replace(self.path, body + blake2_256(body))
        except OSError as error:
            kind = DiskSpaceError if error.errno in NO_SPACE else NodeError
            raise kind(
                f"{self.path} cannot be written ({error.strerror}), and no signature leaves without this record. "
                "Correct that and start again"
            ) from error
        # After the write, so that memory is never ahead of the disk.
        self.state, self.final_height = state, final_height


def _checked(path: Path, data: bytes) -> _Content:
    body, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    # Before decoding: damaged bytes could decode to a plausible record that lacks signatures.
    if not body.startswith(MAGIC) or blake2_256(body) != checksum:
        raise _damaged(path)
    try:
        return _CONTENT.decode(body[len(MAGIC) :])
    except DecodeError as error:
        raise _damaged(path) from error


def _check_chain(path: Path, content: _Content, genesis: bytes) -> None:
    if content.genesis != genesis:
        raise BadInputError(
            f"{path} is the sign-state of another chain (genesis 0x{content.genesis.hex()}). Give this chain its "
            "own --base-path"
        )


def _damaged(path: Path) -> BadInputError:
    return BadInputError(
        f"{path} is damaged: the record of this key's signatures is lost. Restore a backup that has the newest "
        "signature, or register a new session key. Run without --validator meanwhile"
    )
