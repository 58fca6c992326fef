"""What judging and standing by bring, noted among the earnings as each ends.

Always: a payment is named by its case or task and the block that paid it, so that each counts once; what could not be
read is asked for again with the next block. What ended while the daemon was not there is not noted.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpu_tasks.provider.chain.port import ChainError, View
from gpu_tasks.provider.duties.parts import Parts

JUDGING, STANDING_BY = "judging", "standing by"
WATCHED_BLOCKS = 16
"""After so many blocks what could not be found is asked for no more."""


class SideEarnings:
    """Watches seats and places as a runner-up come and go."""

    def __init__(self, parts: Parts) -> None:
        """Nothing is watched yet."""
        self._parts = parts
        self._seats: set[bytes] = set()
        self._standing: dict[bytes, bytes] = {}
        self._since = 0

    async def step(self, view: View, standing: Mapping[bytes, bytes]) -> None:
        """Note what ended since the last view; `standing` are the devices that stand by, by task."""
        seats = {seat.id for seat in view.seats}
        cases, tasks = self._seats - seats, self._standing.keys() - standing.keys()
        self._since = self._since if cases or tasks else view.height
        if cases or tasks:
            try:
                found = await self._parts.chain.side_payments(sorted(cases), sorted(tasks), self._since)
            except ChainError as error:
                self._parts.telemetry.tell("not_noted", problem=str(error))
                found = {}
            for name, payment in found.items():
                is_case = name in cases
                kind, device = (JUDGING, b"") if is_case else (STANDING_BY, self._standing[name])
                self._parts.earnings.note(kind, name, payment.block, device=device, service=kind, grains=payment.grains)
                fields = {"case" if is_case else "task": name}
                if payment.grains:
                    self._parts.telemetry.tell("paid", grains=payment.grains, why=kind, **fields)
            is_stale = view.height > self._since + WATCHED_BLOCKS
            cases = set() if is_stale else cases - found.keys()
            tasks = set() if is_stale else tasks - found.keys()
        self._seats = seats | cases
        self._standing = {**{name: self._standing[name] for name in tasks}, **standing}
