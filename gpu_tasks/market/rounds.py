"""A commit-reveal round: when a drawn group may commit and when it may reveal.

Racers of a unit and members of a committee pass through the same round, with other windows:

    drawn -> (the draw is final: the commit window runs) -> closed -> (the close is final: reveals) -> over
      ^                                    |
      └──── a place is drawn again ────────┘  while nobody has committed

Always: heights only grow from left to right, but for a window that begins anew; commits close before reveals open;
the round reads finality through `final_height`, the newest `final_ref` on the ancestry, and nothing else.
Heights are block numbers; 0 means "not yet".
"""

from dataclasses import replace

from runtime.encoding.codec import struct
from runtime.encoding.types import BlockNumber


@struct
class Windows:
    """How long each part of a round lasts, in blocks."""

    commit_window: BlockNumber
    """Blocks to commit in, counted from the block whose `final_ref` covers the newest draw."""
    close: BlockNumber
    """Commits close at the latest this many blocks after the first one; racers have longer (`race_clocks.py`)."""
    reveal: BlockNumber
    """Blocks to reveal in, counted from the block whose `final_ref` covers the close."""


@struct
class Round:
    """How far one round has come."""

    drawn_at: BlockNumber
    commits_from: BlockNumber = 0
    """The first block whose `final_ref` covered the newest draw."""
    first_commit: BlockNumber = 0
    closed_at: BlockNumber = 0
    """The last block in which a commit counted."""
    reveals_from: BlockNumber = 0
    """The first block whose `final_ref` covered the close."""
    refilled_at: BlockNumber = 0
    """The block of a later draw that filled a place."""


def newest_draw(current: Round) -> int:
    """The block of the draw for which the commit window waits, or waited."""
    return max(current.drawn_at, current.refilled_at)


def commit_deadline(current: Round, windows: Windows) -> int | None:
    """The last block in which a commit counts; None while neither clock runs."""
    ends = []
    if current.commits_from:
        ends.append(current.commits_from + windows.commit_window)
    if current.first_commit:
        ends.append(current.first_commit + windows.close)
    return min(ends, default=None)


def reveal_deadline(current: Round, windows: Windows) -> int | None:
    """The last block in which a reveal counts; None before reveals are admissible."""
    return current.reveals_from + windows.reveal if current.reveals_from else None


def next_change(current: Round, windows: Windows) -> tuple[int | None, int]:
    """When a round can next change by itself.

    The last block of the window that is open, None if no clock runs; and the height whose finality starts the next
    clock, 0 if none does.
    """
    if current.closed_at:
        return reveal_deadline(current, windows), current.closed_at
    return commit_deadline(current, windows), 0 if current.commits_from else newest_draw(current)


def can_commit(current: Round, windows: Windows, height: int) -> bool:
    """Whether block `height` may hold a commit: after the draw's block, before the close."""
    deadline = commit_deadline(current, windows)
    # once commits are closed they stay so: reveals may be seen from here
    if current.closed_at or height <= current.drawn_at:
        return False
    return deadline is None or height <= deadline


def can_reveal(current: Round, windows: Windows, height: int) -> bool:
    """Whether block `height` may hold a reveal."""
    deadline = reveal_deadline(current, windows)
    return deadline is not None and height <= deadline


def advanced(current: Round, windows: Windows, height: int, final_height: int) -> Round:
    """The round as block `height` finds it before its extrinsics, given its newest final height."""
    current = with_commit_window(current, height, final_height)
    deadline = commit_deadline(current, windows)
    if not current.closed_at and deadline is not None and height > deadline:
        current = replace(current, closed_at=deadline)
    return opened(current, height, final_height)


def with_commit_window(current: Round, height: int, final_height: int) -> Round:
    """The round with its commit window, once the newest draw is final."""
    if current.commits_from or final_height < newest_draw(current):
        return current
    return replace(current, commits_from=height)


def opened(current: Round, height: int, final_height: int) -> Round:
    """The round with its reveals, once it is closed and that is final."""
    if not current.closed_at or current.reveals_from or final_height < current.closed_at:
        return current
    return replace(current, reveals_from=height)


def committed(current: Round, height: int, *, is_last: bool) -> Round:
    """The round after a commit in block `height`; `is_last` if nobody else is left to commit."""
    first = current.first_commit or height
    # the first commit starts the close, the last one is it: who would still be waited for?
    return replace(current, first_commit=first, closed_at=height if is_last else 0)


def refilled(current: Round, height: int) -> Round:
    """The round after a draw in block `height` that filled a place of it: its commit window begins anew, for everybody.

    Who was drawn before may commit in every block meanwhile, that of the draw too.
    """
    assert not current.first_commit, "once somebody has committed, nobody is drawn any more"
    return replace(current, refilled_at=height, commits_from=0)


def is_void(current: Round) -> bool:
    """Whether commits are closed and there was none."""
    return bool(current.closed_at) and not current.first_commit


def is_over(current: Round, windows: Windows, height: int) -> bool:
    """Whether the reveal window has passed."""
    deadline = reveal_deadline(current, windows)
    return deadline is not None and height > deadline
