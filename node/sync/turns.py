"""Whom a question goes to next: who answered before, then who was silent least often, in the order of arrival.

What always holds: who was silent, had nothing or sent something wrong is left alone for a while; each silence in a row
doubles that, up to a bound, and puts it behind everybody who was silent less often: however many peers say nothing,
each of them holds up an honest one once. What is remembered is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from node.sync.waiting import Peer

REST_MS = 60_000
"""For a peer that did not answer, had none, or sent a wrong one: an honest one must not be banned for being asked."""
REST_DOUBLINGS_MAX = 3
"""Of silences in a row: an honest peer whose line was down is asked again within eight minutes."""
REMEMBERED_MAX = 1_024


@dataclass(slots=True)
class _Record:
    """What one peer did with the questions that it had."""

    rests_until_ms: int = 0
    silences: int = 0  # since it last answered rightly
    is_proven: bool = False


class QuestionTurns:
    """Of all peers that were asked."""

    def __init__(self) -> None:
        self._records: dict[Peer, _Record] = {}

    def __len__(self) -> int:
        return len(self._records)

    def next(self, peers: Iterable[Peer], now_ms: int) -> Peer | None:
        """Whose turn it is of those that could be asked; None if all of them rest."""
        awake = [peer for peer in peers if self._of(peer).rests_until_ms <= now_ms]
        return min(awake, key=self._place, default=None)

    def on_right(self, peer: Peer) -> None:
        """What it answered was of use."""
        self._renew(peer, _Record(is_proven=True))

    def on_silence(self, peer: Peer, now_ms: int) -> None:
        """It did not answer in time."""
        silences = self._of(peer).silences + 1
        rest_ms = REST_MS << min(silences - 1, REST_DOUBLINGS_MAX)
        self._renew(peer, _Record(now_ms + rest_ms, silences))

    def on_useless(self, peer: Peer, now_ms: int) -> None:
        """It is gone, had nothing, or sent something wrong."""
        self._renew(peer, _Record(now_ms + REST_MS, self._of(peer).silences))

    def _of(self, peer: Peer) -> _Record:
        return self._records.get(peer) or _Record()

    def _place(self, peer: Peer) -> tuple[bool, int]:
        record = self._of(peer)
        return not record.is_proven, record.silences

    def _renew(self, peer: Peer, record: _Record) -> None:
        self._records.pop(peer, None)
        self._records[peer] = record
        if len(self._records) > REMEMBERED_MAX:  # peer ids cost nothing: new ones fill no memory
            del self._records[next(iter(self._records))]
