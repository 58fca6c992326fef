"""Our own gossip: flood on small networks, random fan-out on large ones, each id handled once.

Pure: peers, chance and messages are inputs. What always holds: the memory of ids is bounded; an id is looked up before
anything else is done with a message; a message never goes back to the peer it came from; the choice of targets depends
on nothing but the arguments and the seeded generator.
"""

import math
import random
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

FLOOD_PEERS: Final = 25
"""Up to this many peers everybody is told; above, about the square root of them, but never fewer than `MIN_FANOUT`."""
MIN_FANOUT: Final = 8
MAX_SEEN_IDS: Final = 65_536


class SeenCache:
    """The newest `capacity` ids, least recently seen forgotten first."""

    def __init__(self, capacity: int = MAX_SEEN_IDS) -> None:
        if capacity < 1:
            raise ValueError("capacity is positive")
        self._capacity = capacity
        self._ids: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, message_id: bytes) -> bool:
        """Remember `message_id`; True when it was new."""
        if message_id in self._ids:
            self._ids.move_to_end(message_id)
            return False
        self._ids[message_id] = None
        if len(self._ids) > self._capacity:
            self._ids.popitem(last=False)
        return True

    def forget(self, message_id: bytes) -> None:
        """Take it for new when it comes again."""
        self._ids.pop(message_id, None)

    def __contains__(self, message_id: bytes) -> bool:
        return message_id in self._ids


class Gossip:
    """Decides to whom a new message goes. `on_message` for received ones, `on_own` for those that this node made."""

    def __init__(self, rng: random.Random, seen: SeenCache | None = None) -> None:
        self._rng = rng
        self.seen = SeenCache() if seen is None else seen
        self.duplicates = 0

    def on_message(self, message_id: bytes, source: str, peers: Sequence[str]) -> tuple[str, ...] | None:
        """Whom to forward to; None when the id was seen before (then the caller does nothing at all with the message).

        Call it before decoding or checking the message, and forward only after it proved valid.
        """
        if not self.seen.add(message_id):
            self.duplicates += 1
            return None
        return self._targets([peer for peer in peers if peer != source])

    def on_own(self, message_id: bytes, peers: Sequence[str]) -> tuple[str, ...]:
        """Whom to tell about a message of this node; also when it is sent again."""
        self.seen.add(message_id)
        return self._targets(list(peers))

    def _targets(self, candidates: list[str]) -> tuple[str, ...]:
        if len(candidates) <= FLOOD_PEERS:
            return tuple(candidates)
        fanout = max(MIN_FANOUT, math.isqrt(len(candidates)))
        return tuple(self._rng.sample(candidates, fanout))
