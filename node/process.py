"""The process that a node runs in: its log, what it may leave behind, how it collects garbage, which version it is.

Invariant: no core dump is ever written, since it would hold keys; what lives as long as the node (the state's
trie above all) is never looked through again by Python's collector of reference cycles.
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

# Lines of the log, bounded for each cause: what a stranger can make this node say costs no disk.
#
# Always: each place in the code writes at most `BURST` lines at once and then one a second, and what was left out is
# counted in its next line; errors and what is worse are bounded as the rest is, since they are repeated as easily.
BURST = 20
CAUSES_MAX = 1_024
PROGRESS = "node"
"""The logger of what this node does by itself: lines that nobody else can multiply."""


@dataclass(slots=True)
class _Cause:
    """One place in the code that logs."""

    tokens: float
    updated_at: float
    left_out: int = 0


class LogLimit(logging.Filter):
    """Lets one line a second of each cause through."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._now = now
        self._causes: OrderedDict[tuple[str, int], _Cause] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether this line is written; it says how many were not."""
        if record.name == PROGRESS:
            return True
        now = self._now()
        place = (record.pathname, record.lineno)
        cause = self._causes.setdefault(place, _Cause(BURST, now))
        if len(self._causes) > CAUSES_MAX:
            self._causes.popitem(last=False)
        cause.tokens = min(BURST, cause.tokens + now - cause.updated_at)
        cause.updated_at = now
        if cause.tokens < 1:
            cause.left_out += 1
            return False
        cause.tokens -= 1
        if cause.left_out:
            record.msg = f"{record.getMessage()} ({cause.left_out} lines like this were left out)"
            record.args = None
            cause.left_out = 0
        return True


try:
    VERSION = version("ogpu")
except PackageNotFoundError:  # a source tree that nobody installed
    VERSION = "0.0.0"

LEVELS = ("debug", "info", "warning", "error")
FILES_MAX = 65_536
"""Open files and connections, as far as the system lets a process raise its limit; the usual one is 1,024."""

COLLECTOR_THRESHOLDS = (250_000, 1, 5)
"""New objects until the youngest are searched, and how often that until older and oldest are: some 200 MB at most.

What waits in the pool, a dozen objects for each extrinsic, lives for a second or two: with (50_000, 5, 5) it was looked
through twice before it went, with 120,000 still once, at 6 us for each transfer.
"""


def set_up_process(log: str) -> None:
    """Log to stderr as `log` says, a level or `target=level` pairs with commas; write no core dumps."""
    parts = [part for part in log.split(",") if part]
    general = [_level(part) for part in parts if "=" not in part] or [logging.INFO]
    targets = {target: _level(level) for target, _, level in (part.partition("=") for part in parts if "=" in part)}
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(LogLimit())
    logging.basicConfig(handlers=[handler], level=general[0], format="%(asctime)s %(message)s")
    for target, level in targets.items():
        logging.getLogger(target).setLevel(level)
    forbid_core_dumps()
    raise_file_limit()


def _level(text: str) -> int:
    """Return the level of a name. Raise `BadInputError`."""
    level = logging.getLevelNamesMapping().get(text.upper())
    if level is None:
        raise BadInputError(f"--log: {text!r} is no level: give {', '.join(LEVELS)}, alone or as target=level")
    return level


def raise_file_limit() -> None:
    """Allow as many open files as the system does: strangers' connections are files, and so is the sign-state."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(FILES_MAX, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def settle_memory(thresholds: tuple[int, int, int] = COLLECTOR_THRESHOLDS) -> None:
    """Keep what there is now for good, and collect the rest in larger steps; called once, when the node has started."""
    gc.collect()
    gc.freeze()
    # Python's own thresholds, made for programs with few objects, search after 700 new ones: a third of the time of
    # the import of a block with a few thousand extrinsics.
    gc.set_threshold(*thresholds)
