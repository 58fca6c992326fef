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

    def __init__(self, path: Path, genesis: bytes, session: bytes, sign_state: SignState, final_height: int) -> None:
        self.path = path
        self._genesis_hash = genesis
        self._session_key = session
        self.state = sign_state
        self.final_height = final_height

    @classmethod
    def create(
        cls,
        path: Path,
        genesis: bytes,
        session: bytes,
        *,
        floor_round: tuple[int, int] = (0, 0),
        final_height: int = 0,
    ) -> SignStateFile:
        """Create the file of a key.

        The key signs nothing at or below `floor_round`, the epoch and round that made `final_height` final. Raise
        `BadInputError` if the file exists.
        """
        if path.exists():
            raise BadInputError(f"{path} exists. A sign-state is never replaced")
        created_file = cls(path, genesis, session, EMPTY, 0)
        created_file._write_state(raise_floor(EMPTY, *floor_round), final_height)
        return created_file

    @classmethod
    def session_of(cls, path: Path, genesis: bytes) -> bytes | None:
        """Return the session key that a file names; None if there is no file.

        Raise `BadInputError` if the file belongs to another chain or is damaged.
        """
        try:
            checked_content = _checked_content(path, read_private(path, FILE_BYTES_LIMIT))
        except FileNotFoundError:
            return None
        _check_chain(path, checked_content, genesis)
        return checked_content.session

    @classmethod
    def load(cls, path: Path, genesis: bytes, session: bytes) -> SignStateFile | None:
        """Return the sign-state on disk; None if there is no file.

        Raise `BadInputError` if the file is damaged, or belongs to another key or chain.
        """
        try:
            data = read_private(path, FILE_BYTES_LIMIT)
        except FileNotFoundError:
            return None
        checked_content = _checked_content(path, data)
        _check_chain(path, checked_content, genesis)
        if checked_content.session != session:
            raise BadInputError(
                f"{path} belongs to the session key 0x{checked_content.session.hex()}. Insert that key, or use another "
                "--base-path"
            )
        try:
            sign_state = SIGN_STATE.decode(checked_content.state)
        except DecodeError as error:
            raise _damaged_error(path) from error
        return cls(path, genesis, session, sign_state, checked_content.final_height)

    def record(self, signed_record: SignedRecord) -> None:
        """Write to disk that the caller is about to sign `signed_record`.

        Raise `SigningRefusedError`, and write nothing, if that signature is forbidden.
        """
        new_state = after(self.state, signed_record)
        # A repeated record was synced at its first time.
        if new_state != self.state:
            self._write_state(new_state, self.final_height)

    def note_final(self, epoch: int, round_: int, height: int) -> None:
        """Raise the floor to (epoch, round), which made `height` final in the database: the key signs nothing below."""
        self._write_state(raise_floor(self.state, epoch, round_), max(height, self.final_height))

    def _write_state(self, sign_state: SignState, final_height: int) -> None:
        """Write a state to disk, then take it over in memory.

        Raise `NodeError` and keep the old state if writing fails.
        """
        packed_content = _CONTENT.encode(
            _Content(self._genesis_hash, self._session_key, final_height, SIGN_STATE.encode(sign_state))
        )
        checked_body = MAGIC + packed_content
        try:
            private_file.replace(self.path, checked_body + blake2_256(checked_body))
        except OSError as error:
            error_type = DiskSpaceError if error.errno in NO_SPACE else NodeError
            raise error_type(
                f"{self.path} cannot be written ({error.strerror}), and no signature leaves without this record. "
                "Correct that and start again"
            ) from error
        # After the write, so that memory is never ahead of the disk.
        self.state, self.final_height = sign_state, final_height


def _checked_content(path: Path, data: bytes) -> _Content:
    checked_body, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    # Before decoding: damaged bytes could decode to a plausible record that lacks signatures.
    if not checked_body.startswith(MAGIC) or blake2_256(checked_body) != checksum:
        raise _damaged_error(path)
    try:
        return _CONTENT.decode(checked_body[len(MAGIC) :])
    except DecodeError as error:
        raise _damaged_error(path) from error


def _check_chain(path: Path, file_content: _Content, genesis: bytes) -> None:
    if file_content.genesis != genesis:
        raise BadInputError(
            f"{path} is the sign-state of another chain (genesis 0x{file_content.genesis.hex()}). Give this chain its "
            "own --base-path"
        )


def _damaged_error(path: Path) -> BadInputError:
    return BadInputError(
        f"{path} is damaged: the record of this key's signatures is lost. Restore a backup that has the newest "
        "signature, or register a new session key. Run without --validator meanwhile"
    )
