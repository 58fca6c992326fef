"""The process of a node: its log, its core dumps, its garbage collection, its version, and the start of its children.

Invariant: no core dump is ever written, since it would hold keys. Python's collector of reference cycles never searches
the objects again that live as long as the node (above all the state's trie).
"""

from __future__ import annotations

import gc
import logging
import resource
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from time import monotonic

from node.errors import BadInputError
from wallet.private_file import forbid_core_dumps

# A log that is bounded for each cause: lines that strangers cause must not fill the disk.
# Invariant: each place in the code writes at most `BURST` lines at once and then one a second, and its next line counts
# the omitted ones. Errors are bounded like the rest, since strangers can repeat them as easily.
BURST = 20
CAUSES_MAX = 1_024
PROGRESS = "node"
"""The logger of this node's own progress: lines that no stranger can multiply."""


@dataclass(slots=True)
class _Cause:
    """One place in the code that logs."""

    tokens: float
    updated_at: float
    left_out: int = 0


class LogLimit(logging.Filter):
    """A filter that passes one line a second of each cause."""

    def __init__(self, clock_seconds: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._clock_seconds = clock_seconds
        self._causes_by_place: OrderedDict[tuple[str, int], _Cause] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether this line is written; it counts the omitted ones."""
        if record.name == PROGRESS:
            return True
        now = self._clock_seconds()
        source_place = (record.pathname, record.lineno)
        cause = self._causes_by_place.setdefault(source_place, _Cause(BURST, now))
        if len(self._causes_by_place) > CAUSES_MAX:
            self._causes_by_place.popitem(last=False)
        cause.tokens = min(BURST, cause.tokens + now - cause.updated_at)
        cause.updated_at = now
        if cause.tokens < 1:
            cause.left_out += 1
            return False
        cause.tokens -= 1
        if cause.left_out:
            record.msg = f"{record.getMessage()} (left out {cause.left_out} such lines)"
            record.args = None
            cause.left_out = 0
        return True


try:
    VERSION = version("ogpu")
except PackageNotFoundError:  # a source tree without an installation
    VERSION = "0.0.0"

LEVELS = ("debug", "info", "warning", "error")
FILES_MAX = 65_536
"""Open files and connections, if the system lets a process raise its limit that far; the usual limit is 1,024."""

COLLECTOR_THRESHOLDS = (250_000, 1, 5)
"""New objects before a search of the youngest, and the searches of these before one of the older and the oldest: about
200 MB at most.

An extrinsic in the pool, about a dozen objects, lives for a second or two. With (50_000, 5, 5) it was searched twice
before it left, with 120,000 still once, at 6 us for each transfer."""


def set_up_process(log_filter: str) -> None:
    """Log to stderr at `log_filter`, a level or comma-separated `target=level` pairs; write no core dumps."""
    parts = [part for part in log_filter.split(",") if part]
    general_levels = [_level_of(part) for part in parts if "=" not in part] or [logging.INFO]
    level_by_target = {}
    for part in parts:
        target, equals_sign, target_level = part.partition("=")
        if equals_sign:
            level_by_target[target] = _level_of(target_level)
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(LogLimit())
    logging.basicConfig(handlers=[handler], level=general_levels[0], format="%(asctime)s %(message)s")
    for target, level in level_by_target.items():
        logging.getLogger(target).setLevel(level)
    forbid_core_dumps()
    raise_file_limit()


def _level_of(level_text: str) -> int:
    """Return the level of a name. Raise `BadInputError` if there is none."""
    level = logging.getLevelNamesMapping().get(level_text.upper())
    if level is None:
        raise BadInputError(f"--log: {level_text!r} is no level. Give {', '.join(LEVELS)}, alone or as target=level")
    return level


def raise_file_limit() -> None:
    """Allow as many open files as the system does: strangers' connections are files, and so is the sign-state."""
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted_files = FILES_MAX if hard_limit == resource.RLIM_INFINITY else min(FILES_MAX, hard_limit)
    if soft_limit != resource.RLIM_INFINITY and soft_limit < wanted_files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted_files, hard_limit))


def child_command(module: str, *arguments: str) -> list[str]:
    """Return the command of a child process that runs a module, and ignores SIGINT from its first instruction on.

    Ctrl-C reaches every process of a terminal. The node ends at it, and its children end with their pipes. A child that
    ignores the signal by itself is not safe before its imports are done, which takes a second.
    """
    # -P: a file `genesis.py` in the operator's present folder must not be imported in place of the package.
    python_command = [sys.executable, "-P", "-m", module, *arguments]
    # The shell becomes the program, which inherits the ignored signal. A signal mask of this thread would not be
    # inherited, because trio forks in another thread.
    return ["/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh", *python_command]


def settle_memory(thresholds: tuple[int, int, int] = COLLECTOR_THRESHOLDS) -> None:
    """Exclude existing objects from later searches, and use larger steps; called once, after the node's start."""
    gc.collect()
    gc.freeze()
    # Python's own thresholds, for programs with few objects, search after 700 new ones: a third of the time of an
    # import of a block with a few thousand extrinsics.
    gc.set_threshold(*thresholds)
