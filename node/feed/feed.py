"""The node's end of the feed, put together.

Invariant: a reader gets all frames after its opening in the order of the events, because every frame goes through the
same `Readers`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import trio

from node.feed.answers import Answers, Rotate
from node.feed.messages import Value
from node.feed.readers import Readers
from node.feed.server import FeedServer
from node.feed.stream import NodeDescription, Stream
from node.feed.view import NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """The feed room."""

    stream: Stream
    answers: Answers
    server: FeedServer

    async def start(self, nursery: trio.Nursery) -> None:
        """Open the socket, and serve it in a task of `nursery`."""
        nursery.start_soon(self.server.run, await self.server.listen())


def make_feed(
    *,
    socket_path: Path,
    readers: Readers,
    view: NodeView,
    description: NodeDescription,
    recent_polls: Callable[[], list[Value]],
    rotate_keys: Rotate | None,
) -> Feed:
    """Return one node's feed; `recent_polls` returns the last polls, `rotate_keys` makes new keys of a validator."""
    stream = Stream(view, description, readers.publish, is_read=lambda: len(readers) > 0)
    answers = Answers(view, recent_polls, rotate_keys)
    server = FeedServer(socket_path, readers, stream.opening, answers.answer)
    return Feed(stream=stream, answers=answers, server=server)
