"""The limit on this process's open files and connections.

A store with all its connections and the daemon's transfers exceed the default limit of many systems. A process at its
limit can neither write its journal nor reach a node, and loses bonds.
"""

from __future__ import annotations

import resource

OPEN_FILES_WANTED = 4_096
OPEN_FILES_NEEDED = 1_024


def raise_limit() -> str | None:
    """Raise the limit to `OPEN_FILES_WANTED` if possible. Return a sentence if it is below `OPEN_FILES_NEEDED`."""
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted_limit = OPEN_FILES_WANTED if hard_limit == resource.RLIM_INFINITY else min(OPEN_FILES_WANTED, hard_limit)
    if soft_limit != resource.RLIM_INFINITY and soft_limit < wanted_limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted_limit, hard_limit))
        soft_limit = wanted_limit
    if soft_limit == resource.RLIM_INFINITY or soft_limit >= OPEN_FILES_NEEDED:
        return None
    return f"this process may open {soft_limit:,} files and needs {OPEN_FILES_NEEDED:,}; raise `ulimit -n`"
