"""The commit clock of each racer, which starts in the block in which its device begins the unit.

Invariants:

* A racer that began the unit has a whole commit window. Once a rival has committed, it has only twice the rival's time,
  plus the `close` of the rules.
* A racer that has not begun keeps all of that time, but waits at most two commit windows.
* Commits close when no racer has time left.

If all racers begin at the draw, this equals the round's own clock (`rounds.py`), with a close that is longer by the
first racer's time.

The factor of two allows for slower devices. Of two devices of one kind, one takes some per cent longer, which is more
blocks for longer units. A racer that is shut out by that computed in vain, and the result has no witness.
"""

from dataclasses import replace

from gpu_tasks.market import rounds
from gpu_tasks.market.inference.units import Racer
from gpu_tasks.market.rounds import Round, Windows

WAIT_COMMIT_WINDOWS = 2
"""A racer that has not begun its unit after this many of the unit's commit windows is recalled. Otherwise a customer
could post a unit of a service with a commit window of hours to its own device, and hold up all units drawn behind it.
"""


def is_open(racer: Racer) -> bool:
    """Return True if the racer may still commit, as far as the recorded state tells."""
    return racer.commitment is None and not racer.has_declined and not racer.is_out


def commit_end(racer: Racer, current_round: Round, windows: Windows) -> int | None:
    """Return the last block of a racer's commit window, or None while it does not run."""
    if not racer.started_at or not current_round.commits_from:
        return None
    return max(racer.started_at, current_round.commits_from) + windows.commit_window


def commit_deadline(racer: Racer, current_round: Round, windows: Windows) -> int | None:
    """Return the last block in which the racer's commit counts, or None while no clock limits it."""
    if not racer.started_at:
        return None
    last_blocks = [last_block for last_block in (commit_end(racer, current_round, windows),) if last_block is not None]
    if current_round.first_commit:
        first_racer_blocks = _time_of_first(current_round)
        # Twice the first racer's time, counted from this racer's own start, and the close.
        last_blocks.append(
            max(current_round.first_commit, racer.started_at + first_racer_blocks) + first_racer_blocks + windows.close
        )
    return min(last_blocks, default=None)


def wait_end(racer: Racer, current_round: Round, windows: Windows) -> int | None:
    """Return the last block in which a racer may wait before it begins the unit.

    Return None if it has begun, or no clock runs.
    """
    if racer.started_at or not current_round.commits_from or not is_open(racer):
        return None
    return current_round.commits_from + WAIT_COMMIT_WINDOWS * windows.commit_window


def overdue(racers: tuple[Racer, ...], current_round: Round, windows: Windows, height: int) -> list[Racer]:
    """Return the racers that have waited too long in block `height`."""
    racers_and_ends = ((racer, wait_end(racer, current_round, windows)) for racer in racers)
    return [racer for racer, last_block in racers_and_ends if last_block is not None and height > last_block]


def can_commit(racer: Racer, current_round: Round, windows: Windows, height: int) -> bool:
    """Return True if block `height` may hold the racer's commit: after the draw, in its time, before the close."""
    if current_round.closed_at or height <= current_round.drawn_at or not is_open(racer):
        return False
    deadline = commit_deadline(racer, current_round, windows)
    return deadline is None or height <= deadline


def out_of_time(racers: tuple[Racer, ...], current_round: Round, windows: Windows, height: int) -> dict[bytes, int]:
    """Return the owners whose time is over in block `height`, each with its last block."""
    deadlines = {racer.owner: commit_deadline(racer, current_round, windows) for racer in racers if is_open(racer)}
    return {
        owner: last_block for owner, last_block in deadlines.items() if last_block is not None and height > last_block
    }


def latest_deadline(racers: tuple[Racer, ...], current_round: Round, windows: Windows) -> int | None:
    """Return the last block in which any commit may count, or None while that is unknown."""
    deadlines = [commit_deadline(racer, current_round, windows) for racer in racers if is_open(racer)]
    known_deadlines = [deadline for deadline in deadlines if deadline is not None]
    return max(known_deadlines) if known_deadlines and len(known_deadlines) == len(deadlines) else None


def next_change(racers: tuple[Racer, ...], current_round: Round, windows: Windows) -> tuple[int | None, int]:
    """Return the next change of a race without a call, as `rounds.next_change`: a racer's time or wait ends."""
    if current_round.closed_at:
        return rounds.next_change(current_round, windows)
    last_blocks = [commit_deadline(racer, current_round, windows) for racer in racers if is_open(racer)]
    last_blocks += [wait_end(racer, current_round, windows) for racer in racers]
    awaited_height = 0 if current_round.commits_from else rounds.newest_draw(current_round)
    return min((last_block for last_block in last_blocks if last_block is not None), default=None), awaited_height


def closed_by(current_round: Round, racers: tuple[Racer, ...], closed_height: int) -> Round:
    """Return the round, closed by its last event: a commit, or the end of a racer's time at block `closed_height`."""
    return replace(current_round, closed_at=max((closed_height, *(racer.committed_at for racer in racers))))


def as_found(
    current_round: Round, racers: tuple[Racer, ...], windows: Windows, height: int, final_height: int
) -> Round:
    """Return the round as block `height` will find it, if that block refers to no newer final block.

    Runtime APIs show this to clients.
    """
    current_round = rounds.with_commit_window(current_round, height, final_height)
    last_block = latest_deadline(racers, current_round, windows)
    if not current_round.closed_at and last_block is not None and height > last_block:
        current_round = closed_by(current_round, racers, last_block)
    return rounds.opened(current_round, height, final_height)


def _time_of_first(current_round: Round) -> int:
    """Return the blocks from the first committed racer's draw to its commit, its earlier units included.

    Counted from its own start, several machines behind one device would seem to take one block, and shut out every
    rival.
    """
    return current_round.first_commit - current_round.drawn_at
