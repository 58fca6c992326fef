"""What stops a node, and the exit code an operator's script can tell it by.

Every message says what happened, why, and what to do next.
"""

from __future__ import annotations


class NodeError(Exception):
    """The node cannot go on; `exit_code` is what the process ends with."""

    exit_code = 1


class BadInputError(NodeError):
    """A flag, chain spec, key file or data folder is not usable."""

    exit_code = 2


class DatabaseError(NodeError):
    """The database is damaged, or of another chain or version."""

    exit_code = 3


class DiskSpaceError(NodeError):
    """Too little space is free; nothing was lost, free some and start again."""

    exit_code = 4
