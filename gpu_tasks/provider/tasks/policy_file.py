"""The policy's file in the base path, the mark of a draining provider, and the machine's idleness.

Invariant: an invalid policy file prevents all bids and is reported once. Files are replaced as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from gpu_tasks.provider.tasks.policy import BidPolicy, PolicyError, policy_of, text_of
from wallet.private_file import replace

POLICY_FILE = "policy.json"
DRAIN_FILE = "draining"
POLICY_BYTES_MAX = 64 * 1024


def read_policy(base_path: Path, known_kinds: Sequence[str]) -> BidPolicy:
    """Return the policy of a base path; without a file, one that bids for nothing.

    Raise PolicyError if it is invalid.
    """
    path = base_path / POLICY_FILE
    try:
        return policy_of(_policy_text(path), known_kinds)
    except FileNotFoundError:
        return BidPolicy()
    except UnicodeDecodeError:
        raise PolicyError(f"{path} is not UTF-8", code="not_utf8") from None
    except OSError as error:
        raise PolicyError(f"{path} cannot be read: {error.strerror}", code="file_unreadable") from None
    except PolicyError as error:
        raise PolicyError(f"{path}: {error}", code=error.code) from None


def _policy_text(path: Path) -> str:
    with path.open("rb") as policy_file:
        # One byte more than allowed, to notice a longer file without reading it.
        file_bytes = policy_file.read(POLICY_BYTES_MAX + 1)
    if len(file_bytes) > POLICY_BYTES_MAX:
        raise PolicyError(f"it has more than {POLICY_BYTES_MAX:,} bytes", code="file_too_large")
    return file_bytes.decode("utf-8")


def write_policy(base_path: Path, policy: BidPolicy) -> None:
    """Write the policy of a base path. A running daemon follows it from its next block on."""
    replace(base_path / POLICY_FILE, text_of(policy).encode())


def is_draining(base_path: Path) -> bool:
    """Return True if the provider takes no new work."""
    return (base_path / DRAIN_FILE).exists()


def set_draining(base_path: Path, *, drains: bool) -> None:
    """Begin or end draining."""
    if drains:
        replace(base_path / DRAIN_FILE, b"")
    else:
        (base_path / DRAIN_FILE).unlink(missing_ok=True)


class HostMachine:
    """This machine. Tests substitute another."""

    def time_of_week(self) -> tuple[int, int]:
        """Return the day (0: Monday) and minute of the day, in UTC."""
        current_time = datetime.now(UTC)
        return current_time.weekday(), current_time.hour * 60 + current_time.minute

    def is_idle(self) -> bool:
        """Return True if less than half of the cores were in demand in the last minute."""
        return os.getloadavg()[0] * 2 < (os.cpu_count() or 1)


class PolicySource:
    """The policy of a daemon."""

    def __init__(self, base_path: Path, known_kinds: Sequence[str]) -> None:
        """Nothing is read yet. `known_kinds` are this daemon's workloads."""
        self._base = base_path
        self._kinds = tuple(known_kinds)
        self._seen_stamp: tuple[int, int] | None = None
        self._policy = BidPolicy()
        self.problem = ""
        """The reason that the file is invalid; empty if it is valid."""

    def policy(self) -> BidPolicy:
        """Return the present policy. It bids for nothing while the file is invalid or the provider drains."""
        file_stamp = self._file_stamp()
        if file_stamp != self._seen_stamp:
            self._seen_stamp = file_stamp
            try:
                self._policy, self.problem = read_policy(self._base, self._kinds), ""
            except PolicyError as error:
                self._policy, self.problem = BidPolicy(), str(error)
        # Draining is a file of its own, so that it keeps the operator's policy.
        return BidPolicy() if is_draining(self._base) else self._policy

    def _file_stamp(self) -> tuple[int, int] | None:
        try:
            file_status = (self._base / POLICY_FILE).stat()
        except OSError:
            return None
        # The inode too: a file replaced within the clock's resolution has the same time.
        return file_status.st_mtime_ns, file_status.st_ino
