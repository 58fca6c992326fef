"""The policy's file in the base path, read again whenever it changes; the mark of a provider that drains; its machine.

Always: a file that is no policy lets no bid be made, and says so once; both are written whole or not at all.
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


def read_policy(base: Path, kinds: Sequence[str]) -> BidPolicy:
    """The policy of a base path, one that bids for nothing where there is none; PolicyError."""
    path = base / POLICY_FILE
    try:
        return policy_of(_text(path), kinds)
    except FileNotFoundError:
        return BidPolicy()
    except UnicodeDecodeError:
        raise PolicyError(f"{path} is not UTF-8") from None
    except OSError as error:
        raise PolicyError(f"{path} cannot be read: {error.strerror}") from None
    except PolicyError as error:
        raise PolicyError(f"{path}: {error}") from None


def _text(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(POLICY_BYTES_MAX + 1)
    if len(data) > POLICY_BYTES_MAX:
        raise PolicyError(f"it has more than {POLICY_BYTES_MAX:,} bytes")
    return data.decode("utf-8")


def write_policy(base: Path, policy: BidPolicy) -> None:
    """Have a daemon of this base path go by a policy from its next block on."""
    replace(base / POLICY_FILE, text_of(policy).encode())


def is_draining(base: Path) -> bool:
    """Whether a provider takes nothing new."""
    return (base / DRAIN_FILE).exists()


def set_draining(base: Path, *, drains: bool) -> None:
    """Take nothing new from now on, or again."""
    if drains:
        replace(base / DRAIN_FILE, b"")
    else:
        (base / DRAIN_FILE).unlink(missing_ok=True)


class HostMachine:
    """This machine. Tests give another."""

    def time_of_week(self) -> tuple[int, int]:
        """Day (0: Monday) and minute of the day, UTC."""
        now = datetime.now(UTC)
        return now.weekday(), now.hour * 60 + now.minute

    def is_idle(self) -> bool:
        """Whether in the last minute less than half of its cores were wanted."""
        return os.getloadavg()[0] * 2 < (os.cpu_count() or 1)


class PolicySource:
    """The policy of a daemon."""

    def __init__(self, base: Path, kinds: Sequence[str]) -> None:
        """Reads nothing yet; `kinds` are the workloads that this daemon has."""
        self._base = base
        self._kinds = tuple(kinds)
        self._seen: tuple[int, int] | None = None
        self._policy = BidPolicy()
        self.problem = ""
        """Why the file is no policy; empty if it is one."""

    def policy(self) -> BidPolicy:
        """As the file says now; one that bids for nothing where it is none."""
        seen = self._stamp()
        if seen != self._seen:
            self._seen = seen
            try:
                self._policy, self.problem = read_policy(self._base, self._kinds), ""
            except PolicyError as error:
                self._policy, self.problem = BidPolicy(), str(error)
        return BidPolicy() if is_draining(self._base) else self._policy

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = (self._base / POLICY_FILE).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino
