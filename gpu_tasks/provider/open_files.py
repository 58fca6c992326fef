"""How many files and connections this process may have open.

A store with all its connections, and the transfers of the daemon beside them, need more than many systems allow a
process by default; where that ends, no journal can be opened and no node be reached, which costs bonds.
"""

from __future__ import annotations

import resource

OPEN_FILES_WANTED = 4_096
OPEN_FILES_NEEDED = 1_024


def raise_limit() -> str | None:
    """Ask for as many as are wanted; a sentence if there are fewer than are needed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES_WANTED if hard == resource.RLIM_INFINITY else min(OPEN_FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    if soft == resource.RLIM_INFINITY or soft >= OPEN_FILES_NEEDED:
        return None
    return f"this process may open {soft:,} files, and needs {OPEN_FILES_NEEDED:,}: raise `ulimit -n`"
