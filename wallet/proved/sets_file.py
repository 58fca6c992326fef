"""The sets that a folder has followed, so that a program need not ask for them and check them again.

Invariant: it is a cache. A file that is damaged, too long, or of another chain counts as missing. Its sets were proved
to this folder when they were written, like the pin beside it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

from consensus.handoffs import seats_of
from consensus.sets import SetTable
from consensus.validators import Validator, ValidatorSet
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U32, Bounded, Codec, DecodeError, Fixed, codec, struct
from runtime.pallets.staking.stakers import Seats
from wallet.errors import WalletError
from wallet.private_file import read_private, replace

SETS_FILE = "chain.sets"
FILE_BYTES_MAX = 4 * 1024 * 1024
RUNS_MAX = 8_192
CHECKSUM_BYTES = 32


@struct
class Run:
    """A set, and the first epoch in which it was active."""

    first: U32
    seats: Seats


@struct
class KeptSets:
    """Sets without gaps, up to the newest epoch."""

    genesis: Annotated[bytes, Fixed(32)]
    newest: U32
    runs: Annotated[tuple[Run, ...], Bounded(RUNS_MAX)]


_KEPT: Codec[KeptSets] = codec(KeptSets)
_RUN: Codec[Run] = codec(Run)


class SetsFile:
    """The file of one folder and chain."""

    def __init__(self, folder: Path, genesis: bytes) -> None:
        self._path = folder / SETS_FILE
        self._genesis = genesis

    def load(self) -> SetTable | None:
        """Return the stored sets; None if there are none, or none that can be used."""
        try:
            file_bytes = read_private(self._path, FILE_BYTES_MAX)
            kept_sets = _KEPT.decode(file_bytes[:-CHECKSUM_BYTES])
            is_ours = kept_sets.genesis == self._genesis and file_bytes[-CHECKSUM_BYTES:] == blake2_256(
                file_bytes[:-CHECKSUM_BYTES]
            )
            return _table(kept_sets) if is_ours else None
        except (FileNotFoundError, WalletError, DecodeError, ValueError):
            return None

    def remove(self) -> None:
        """Delete the file."""
        with contextlib.suppress(OSError):
            self._path.unlink()

    def keep(self, set_table: SetTable) -> None:
        """Write the newest sets, as many as the file may hold."""
        kept_runs: list[Run] = []
        remaining_bytes = FILE_BYTES_MAX // 2
        # Newest first: the next program needs those.
        for first_epoch, validators in reversed(set_table.runs()):
            kept_run = Run(first_epoch, seats_of(ValidatorSet(first_epoch, validators)))
            remaining_bytes -= len(_RUN.encode(kept_run))
            if kept_runs and (remaining_bytes < 0 or len(kept_runs) == RUNS_MAX):
                break
            kept_runs.append(kept_run)
        encoded_sets = _KEPT.encode(KeptSets(self._genesis, set_table.newest.epoch, tuple(reversed(kept_runs))))
        with contextlib.suppress(OSError):  # another program may write it, or none may: a cache only
            replace(self._path, encoded_sets + blake2_256(encoded_sets))


def _table(kept_sets: KeptSets) -> SetTable:
    """Return the table of the stored runs. Raise ValueError if they make none."""
    set_runs = [
        (
            kept_run.first,
            tuple(Validator(seat.stash, seat.session_key, seat.vrf_key, seat.weight) for seat in kept_run.seats),
        )
        for kept_run in kept_sets.runs
    ]
    return SetTable.of_runs(set_runs, kept_sets.newest)
