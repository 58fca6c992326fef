"""Gossip: flood on small networks, random fan-out on large ones, each id handled once.

Pure: peers, chance and messages are inputs. Invariants: the memory of ids is bounded. The look-up of an id comes before
any other work on a message. A message never returns to its source. The targets depend only on the arguments and the
seeded generator.
"""

import math
import random
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

FLOOD_PEERS: Final = 25
"""The most peers that all receive a message. Above it about the square root of them do, but at least `MIN_FANOUT`."""
MIN_FANOUT: Final = 8
MAX_SEEN_IDS: Final = 65_536


class SeenCache:
    """The newest `capacity` ids, least recently seen forgotten first."""

    def __init__(self, capacity: int = MAX_SEEN_IDS) -> None:
        if capacity < 1:
            raise ValueError("capacity is positive")
        self._capacity = capacity
        self._message_ids: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._message_ids)

    def add(self, message_id: bytes) -> bool:
        """Remember `message_id`; True when it was new."""
        if message_id in self._message_ids:
            self._message_ids.move_to_end(message_id)
            return False
        self._message_ids[message_id] = None
        if len(self._message_ids) > self._capacity:
            self._message_ids.popitem(last=False)
        return True

    def forget(self, message_id: bytes) -> None:
        """Treat an id as new when it comes again."""
        self._message_ids.pop(message_id, None)

    def __contains__(self, message_id: bytes) -> bool:
        return message_id in self._message_ids


class Gossip:
    """The choice of peers for new messages: `on_message` for received ones, `on_own` for those of this node."""

    def __init__(self, rng: random.Random, seen_cache: SeenCache | None = None) -> None:
        self._rng = rng
        self.seen = SeenCache() if seen_cache is None else seen_cache
        self.duplicates = 0

    def on_message(self, message_id: bytes, source: str, peers: Sequence[str]) -> tuple[str, ...] | None:
        """Return the peers to forward to; None if the id was seen before: the caller then ignores the message.

        Call it before decoding or checking the message, and forward only after it proved valid.
        """
        # Before any other work: where every peer floods, most copies of a message end at this look-up.
        if not self.seen.add(message_id):
            self.duplicates += 1
            return None
        return self._chosen_targets([candidate for candidate in peers if candidate != source])

    def on_own(self, message_id: bytes, peers: Sequence[str]) -> tuple[str, ...]:
        """Return the peers that get an own message, also when it is sent again."""
        self.seen.add(message_id)
        return self._chosen_targets(list(peers))

    def _chosen_targets(self, candidates: list[str]) -> tuple[str, ...]:
        if len(candidates) <= FLOOD_PEERS:
            return tuple(candidates)
        target_count = max(MIN_FANOUT, math.isqrt(len(candidates)))
        return tuple(self._rng.sample(candidates, target_count))
