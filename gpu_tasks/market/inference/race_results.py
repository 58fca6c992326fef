"""The winner of a race, and the races without one: rules on commits and reveals, without money.

Invariant: the outcome depends only on heights and draw order, never on the order of transactions in a block. A proposer
gains nothing by holding a rival back for one block.
"""

from dataclasses import dataclass
from enum import IntEnum

from gpu_tasks.market.inference import race_clocks
from gpu_tasks.market.inference.units import Racer, revealed_root

SIMULTANEOUS_BLOCKS = 1
"""Commits within this many blocks of the earliest one count as simultaneous with it."""


class RevealsRead(IntEnum):
    """The result of the reveals alone."""

    NOTHING = 0
    AGREED = 1
    """All reveals are equal, or there is only one."""
    DISPUTED = 2


@dataclass(frozen=True, slots=True)
class RaceResult:
    """The racers to pay for `output_root`: the winner, and the runner-up if another racer agreed."""

    output_root: bytes
    winner: Racer
    witness: Racer | None


def with_racer(racers: tuple[Racer, ...], changed_racer: Racer) -> tuple[Racer, ...]:
    """Return the racers with one of them replaced."""
    return tuple(changed_racer if racer.owner == changed_racer.owner else racer for racer in racers)


def is_last_to_commit(racers: tuple[Racer, ...], owner: bytes) -> bool:
    """Return True if all others have committed, declined or run out of time."""
    return all(not race_clocks.is_open(racer) or racer.owner == owner for racer in racers)


def is_last_to_reveal(racers: tuple[Racer, ...]) -> bool:
    """Return True if every commitment is opened."""
    return all(racer.reveal for racer in racers if racer.commitment)


def read_reveals(racers: tuple[Racer, ...]) -> RevealsRead:
    """Return the result of the reveals of a race."""
    revealed_roots = frozenset(racer.reveal.output_root for racer in racers if racer.reveal)
    if not revealed_roots:
        return RevealsRead.NOTHING
    return RevealsRead.AGREED if len(revealed_roots) == 1 else RevealsRead.DISPUTED


def agreed_result(racers: tuple[Racer, ...]) -> RaceResult:
    """Return winner and witness of a race whose reveals agree."""
    root = next(racer.reveal.output_root for racer in racers if racer.reveal)
    agreed_race = result(racers, root)
    assert agreed_race is not None, "a root comes from a reveal"
    return agreed_race


def ranked(racers: tuple[Racer, ...], output_root: bytes) -> list[Racer]:
    """Return the racers that revealed `output_root`: earliest commit first, then in draw order."""
    right = [racer for racer in racers if revealed_root(racer) == output_root]
    earliest_commit = min((racer.committed_at for racer in right), default=0)

    def lateness(racer: Racer) -> int:
        late_blocks = racer.committed_at - earliest_commit
        return 0 if late_blocks <= SIMULTANEOUS_BLOCKS else late_blocks

    return sorted(right, key=lateness)  # A stable sort: racers are in draw order.


def result(racers: tuple[Racer, ...], output_root: bytes) -> RaceResult | None:
    """Return winner and witness for a root that counts as right, or None if no racer revealed it."""
    right = ranked(racers, output_root)
    if not right:
        return None
    return RaceResult(output_root, right[0], right[1] if len(right) > 1 else None)


def silent(racers: tuple[Racer, ...]) -> list[Racer]:
    """Return the racers that committed and did not reveal."""
    return [racer for racer in racers if racer.commitment is not None and racer.reveal is None]
