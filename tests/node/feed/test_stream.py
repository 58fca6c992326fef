"""The node's messages about itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from node.feed import stream as stream_module
from node.feed.stream import SYNC_DISTANCE, Stream


def view(behind: int, checkpoint: int = 0) -> Any:
    """Return a node with best block 100 that has heard of one `behind` blocks higher."""
    place = SimpleNamespace(id=b"b" * 32, height=100)
    return SimpleNamespace(
        machine=SimpleNamespace(best=place, final=place),
        sync=SimpleNamespace(highest_height=100 + behind, trusted_height=checkpoint),
        pools=SimpleNamespace(transactions=SimpleNamespace(queue=SimpleNamespace(ready_count=0, future_count=0))),
        network=SimpleNamespace(transport=SimpleNamespace(peers=list)),
    )


@pytest.mark.parametrize(("behind", "is_syncing"), [(0, False), (SYNC_DISTANCE, False), (SYNC_DISTANCE + 1, True)])
def test_a_node_syncs_while_it_is_farther_behind_than_blocks_come_late(behind: int, is_syncing: bool) -> None:
    told: list[Any] = []
    stream = Stream(view(behind), None, told.append)  # type: ignore[arg-type]  # nobody asks for its name here
    stream.publish_status()
    stream.publish_status()
    assert [status.is_syncing for status in told] == [is_syncing], "a status that did not change is told once"


@pytest.mark.parametrize(("checkpoint", "is_syncing"), [(100, False), (101, True)])
def test_a_node_syncs_until_its_checkpoint_is_final(checkpoint: int, is_syncing: bool) -> None:
    stream = Stream(view(0, checkpoint), None, list)  # type: ignore[arg-type]  # as above
    assert stream.status().is_syncing is is_syncing


def test_no_frame_is_made_of_a_block_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "_block_frame", lambda block: ("frame", block))
    told: list[Any] = []
    readers: list[str] = []
    stream = Stream(view(0), None, told.append, is_read=lambda: bool(readers))  # type: ignore[arg-type]  # as above
    unread, read = object(), object()
    stream.on_imported(unread)  # type: ignore[arg-type]  # nobody looks into it
    readers.append("a reader")
    stream.on_imported(read)  # type: ignore[arg-type]  # nobody looks into it
    assert told[1:] == [("frame", read)]
