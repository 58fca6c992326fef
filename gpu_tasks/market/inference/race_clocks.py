"""How long each racer has: a clock of its own, which runs from the block in which its device turned to the unit.

Always: whoever turned to the unit has a whole window from then on, but once a rival has committed only twice as long as
that one took, and the close of the rules; whoever has not yet turned to it has all of that before it, but waits no
longer than two windows; commits are closed when nobody has time left. With all racers at it from the draw on, this is
the round's own clock (`rounds.py`), with a close that is longer by the time of the first.

Twice: of two devices of one kind, one is some per cent slower, which is more blocks the more a unit computes. Who is
shut out for that computed in vain, and leaves an answer that stands alone: judges take as long to compute it again.
"""

from dataclasses import replace

from gpu_tasks.market import rounds
from gpu_tasks.market.inference.units import Racer
from gpu_tasks.market.rounds import Round, Windows

WAIT_COMMIT_WINDOWS = 2
"""A racer that has not turned to its unit after so many windows of it is recalled: else one unit of a service with a
commit window of hours, on the device of whoever posted it, would hold up all that was drawn behind it."""


def is_open(racer: Racer) -> bool:
    """Whether it may still commit, as far as is known."""
    return racer.commitment is None and not racer.has_declined and not racer.is_out


def commit_end(racer: Racer, current: Round, windows: Windows) -> int | None:
    """The last block of a racer's commit window; None while it does not run."""
    if not racer.started_at or not current.commits_from:
        return None
    return max(racer.started_at, current.commits_from) + windows.commit_window


def commit_deadline(racer: Racer, current: Round, windows: Windows) -> int | None:
    """The last block in which the racer's commit counts; None while no clock of its runs."""
    if not racer.started_at:
        return None
    ends = [end for end in (commit_end(racer, current, windows),) if end is not None]
    if current.first_commit:
        took = _time_of_first(current)
        ends.append(max(current.first_commit, racer.started_at + took) + took + windows.close)
    return min(ends, default=None)


def wait_end(racer: Racer, current: Round, windows: Windows) -> int | None:
    """The last block in which a racer that has not turned to the unit may wait; None where it has, or no clock runs."""
    if racer.started_at or not current.commits_from or not is_open(racer):
        return None
    return current.commits_from + WAIT_COMMIT_WINDOWS * windows.commit_window


def overdue(racers: tuple[Racer, ...], current: Round, windows: Windows, height: int) -> list[Racer]:
    """The racers that have waited for too long in block `height`."""
    ends = ((racer, wait_end(racer, current, windows)) for racer in racers)
    return [racer for racer, end in ends if end is not None and height > end]


def can_commit(racer: Racer, current: Round, windows: Windows, height: int) -> bool:
    """Whether block `height` may hold the racer's commit: after the draw's block, in its time, before the close."""
    if current.closed_at or height <= current.drawn_at or not is_open(racer):
        return False
    deadline = commit_deadline(racer, current, windows)
    return deadline is None or height <= deadline


def out_of_time(racers: tuple[Racer, ...], current: Round, windows: Windows, height: int) -> dict[bytes, int]:
    """The owners whose time is over in block `height`, each with its last block."""
    deadlines = {racer.owner: commit_deadline(racer, current, windows) for racer in racers if is_open(racer)}
    return {owner: last for owner, last in deadlines.items() if last is not None and height > last}


def latest_deadline(racers: tuple[Racer, ...], current: Round, windows: Windows) -> int | None:
    """The last block in which any commit may count; None while that is not known."""
    ends = [commit_deadline(racer, current, windows) for racer in racers if is_open(racer)]
    known = [end for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) else None


def next_change(racers: tuple[Racer, ...], current: Round, windows: Windows) -> tuple[int | None, int]:
    """When a race can next change by itself, as `rounds.next_change`: a racer runs out of time, or waits too long."""
    if current.closed_at:
        return rounds.next_change(current, windows)
    ends = [commit_deadline(racer, current, windows) for racer in racers if is_open(racer)]
    ends += [wait_end(racer, current, windows) for racer in racers]
    awaited = 0 if current.commits_from else rounds.newest_draw(current)
    return min((end for end in ends if end is not None), default=None), awaited


def closed_by(current: Round, racers: tuple[Racer, ...], at: int) -> Round:
    """The round closed by whatever ended last: a commit, or a racer's time at block `at`."""
    return replace(current, closed_at=max((at, *(racer.committed_at for racer in racers))))


def as_found(current: Round, racers: tuple[Racer, ...], windows: Windows, height: int, final_height: int) -> Round:
    """The round as block `height` will find it, if it refers to no newer final block: what clients are told."""
    current = rounds.with_commit_window(current, height, final_height)
    last = latest_deadline(racers, current, windows)
    if not current.closed_at and last is not None and height > last:
        current = closed_by(current, racers, last)
    return rounds.opened(current, height, final_height)


def _time_of_first(current: Round) -> int:
    """How long the first who committed took since it was drawn: what it had before this unit counts.

    From its turn on, several machines behind one device would seem to take a block, and shut every rival out.
    """
    return current.first_commit - current.drawn_at
