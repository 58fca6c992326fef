"""The errors that stop a node, with exit codes for an operator's scripts.

Every message says what happened, why, and what to do next.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from wallet.errors import CodedError

NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


class NodeError(CodedError):
    """The node cannot continue; `exit_code` is the exit code of the process."""

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


class TrustExpiredHereError(NodeError):
    """This node's last known block is too old to be trusted; nothing was lost."""

    exit_code = 5


@contextmanager
def as_bad_input(*causes: type[Exception]) -> Iterator[None]:
    """Raise these exceptions as `BadInputError`, because their texts are for the author of a flag or a file."""
    try:
        yield
    except causes as error:
        raise BadInputError(str(error)) from error


@contextmanager
def node_error_first() -> Iterator[None]:
    """Raise the `NodeError` of a group alone: it is the reason for all the other errors."""
    try:
        yield
    except BaseExceptionGroup as error_group:
        first_reason = _first_reason(list(_leaf_errors(error_group)))
        if first_reason is None:
            raise
        raise first_reason from error_group


def _first_reason(errors: Sequence[BaseException]) -> NodeError | None:
    """Return the reason for the node's end: a `NodeError`, or else an unusable file; None without either."""
    for error in errors:
        if isinstance(error, NodeError):
            return error
    for error in errors:
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            return DiskSpaceError(f"{error.filename or 'a file'} cannot be written: {error.strerror}. Free some space")
        if isinstance(error, OSError) and error.filename is not None:
            return BadInputError(f"{error.filename} cannot be used: {error.strerror}. Check its path and permissions")
    return None


def _leaf_errors(error_group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """Yield the exceptions in a group of groups."""
    waiting_errors: list[BaseException] = [error_group]
    while waiting_errors:
        error = waiting_errors.pop()
        if isinstance(error, BaseExceptionGroup):
            waiting_errors.extend(error.exceptions)
        else:
            yield error
