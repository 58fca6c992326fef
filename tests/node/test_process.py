"""The process of a node: the values of --log, and the reported reason of its end."""

from __future__ import annotations

import errno
import gc
import logging
import resource
from collections.abc import Iterator
from typing import Any

import pytest

from node.errors import BadInputError, DatabaseError, DiskSpaceError, NodeError, as_bad_input, node_error_first
from node.pool.transaction_queue import READY_LIMIT
from node.process import COLLECTOR_THRESHOLDS, FILES_MAX, raise_file_limit, set_up_process, settle_memory


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, tuple[int, int]]]]:
    """Record the requested limits. This process keeps its own, and its log level."""
    asked: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda *words: asked.append(words))
    yield asked
    logging.getLogger("node.sync").setLevel(logging.NOTSET)


def test_a_target_has_a_level_of_its_own_and_no_core_is_dumped(limits: list[tuple[int, tuple[int, int]]]) -> None:
    set_up_process("info,node.sync=debug")
    assert logging.getLogger("node.sync").level == logging.DEBUG
    assert limits[0] == (resource.RLIMIT_CORE, (0, 0))


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize(
    ("log", "level"), [("", "INFO"), ("Debug", "DEBUG"), ("node.sync=debug", "INFO"), ("node.sync=info,error", "ERROR")]
)
def test_the_level_without_a_target_is_everybody_s(monkeypatch: pytest.MonkeyPatch, log: str, level: str) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(logging, "basicConfig", lambda **named: asked.append(named))
    set_up_process(log)
    (named,) = asked
    assert named["level"] == getattr(logging, level)
    (handler,) = named["handlers"]
    record = logging.makeLogRecord({"name": "node.sync", "pathname": "a.py", "lineno": 1})
    assert not all(handler.filter(record) for _ in range(1_000)), "lines of one cause are limited"


@pytest.mark.parametrize(
    ("now", "asked"),
    [
        ((1_024, 1_048_576), [(resource.RLIMIT_NOFILE, (FILES_MAX, 1_048_576))]),
        ((1_024, 4_096), [(resource.RLIMIT_NOFILE, (4_096, 4_096))]),
        ((1_024, resource.RLIM_INFINITY), [(resource.RLIMIT_NOFILE, (FILES_MAX, resource.RLIM_INFINITY))]),
        ((FILES_MAX, 1_048_576), []),
        ((4_096, 4_096), []),
    ],
)
def test_a_node_may_open_as_many_files_as_the_system_allows(
    limits: list[tuple[int, tuple[int, int]]],
    monkeypatch: pytest.MonkeyPatch,
    now: tuple[int, int],
    asked: list[tuple[int, tuple[int, int]]],
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: now)
    raise_file_limit()
    assert limits == asked


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("log", ["node.sync=loud", "node.sync=", "loud", "info,loud"])
def test_a_level_that_does_not_exist_is_bad_input(log: str) -> None:
    with pytest.raises(BadInputError, match="--log"):
        set_up_process(log)


def test_of_all_that_ends_the_node_error_is_the_reason() -> None:
    reason = DatabaseError("damaged")
    with pytest.raises(NodeError) as raised, node_error_first():
        raise BaseExceptionGroup("all", [KeyError(), BaseExceptionGroup("inner", [reason, ValueError()])])
    assert raised.value is reason
    with pytest.raises(BaseExceptionGroup), node_error_first():
        raise BaseExceptionGroup("all", [KeyError()])


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (IsADirectoryError(errno.EISDIR, "Is a directory", "preference"), BadInputError),
        (OSError(errno.ENOSPC, "No space left on device"), DiskSpaceError),
        (OSError(errno.ENOSPC, "No space left on device", "rounds"), DiskSpaceError),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), DiskSpaceError),
    ],
)
def test_a_file_is_the_reason_where_no_node_error_is(cause: OSError, kind: type[NodeError]) -> None:
    """Later errors that follow from it, while the node ends, are not reported."""
    with pytest.raises(kind) as raised, node_error_first():
        raise BaseExceptionGroup("all", [AttributeError(), BaseExceptionGroup("inner", [cause])])
    assert str(cause.filename or cause.strerror) in str(raised.value)
    with pytest.raises(DatabaseError), node_error_first():
        raise BaseExceptionGroup("all", [cause, DatabaseError("damaged")])
    with pytest.raises(BaseExceptionGroup), node_error_first():
        raise BaseExceptionGroup("all", [ConnectionError("no file")])


def test_only_the_named_causes_are_bad_input() -> None:
    with pytest.raises(BadInputError, match="no such port"), as_bad_input(ValueError):
        raise ValueError("no such port")
    with pytest.raises(KeyError), as_bad_input(ValueError):
        raise KeyError


def test_what_a_process_starts_with_is_never_searched_and_what_waits_in_a_pool_seldom() -> None:
    before = gc.get_threshold()
    gc.unfreeze()
    try:
        settle_memory()
        assert gc.get_threshold() == COLLECTOR_THRESHOLDS
        assert gc.get_freeze_count() > 0
        assert COLLECTOR_THRESHOLDS[0] > 12 * READY_LIMIT, "a full pool, with a dozen objects for each"
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
