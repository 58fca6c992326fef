"""A commit-reveal round: the windows in which a drawn group may commit and reveal.

Racers of a unit and members of a committee pass through the same round, with different windows:

    drawn -> (the draw is final: the commit window runs) -> closed -> (the close is final: reveals) -> over
      ^                                    |
      └──── a place is drawn again ────────┘  before the first commit

Invariants: heights only grow from left to right, except that a redraw restarts the commit window. Commits close before
reveals open. The round reads finality only through `final_height`, the newest `final_ref` of the ancestry. Heights are
block numbers, and 0 means "not yet".
"""

from dataclasses import replace

from runtime.encoding.codec import struct
from runtime.encoding.types import BlockNumber


@struct
class Windows:
    """The lengths of a round's windows, in blocks."""

    commit_window: BlockNumber
    """Blocks in which members may commit, counted from the block whose `final_ref` covers the newest draw."""
    close: BlockNumber
    """The most blocks between the first commit and the close. Racers have longer (`race_clocks.py`)."""
    reveal: BlockNumber
    """Blocks in which members may reveal, counted from the block whose `final_ref` covers the close."""


@struct
class Round:
    """The progress of one round."""

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
    """Return the block of the newest draw, whose finality starts the commit window."""
    return max(current.drawn_at, current.refilled_at)


def commit_deadline(current: Round, windows: Windows) -> int | None:
    """Return the last block in which a commit counts, or None while neither clock runs."""
    ends = []
    if current.commits_from:
        ends.append(current.commits_from + windows.commit_window)
    if current.first_commit:
        ends.append(current.first_commit + windows.close)
    return min(ends, default=None)


def reveal_deadline(current: Round, windows: Windows) -> int | None:
    """Return the last block in which a reveal counts, or None before reveals may begin."""
    return current.reveals_from + windows.reveal if current.reveals_from else None


def next_change(current: Round, windows: Windows) -> tuple[int | None, int]:
    """Return the two heights at which a round can next change without a call.

    The first is the last block of the open window, or None if no clock runs. The second is the height whose finality
    starts the next clock, or 0 if there is none.
    """
    if current.closed_at:
        return reveal_deadline(current, windows), current.closed_at
    return commit_deadline(current, windows), 0 if current.commits_from else newest_draw(current)


def can_commit(current: Round, windows: Windows, height: int) -> bool:
    """Return True if block `height` may hold a commit: after the draw's block, before the close."""
    deadline = commit_deadline(current, windows)
    # A close is permanent: reveals may follow it, and a commit after a reveal could copy the result.
    if current.closed_at or height <= current.drawn_at:
        return False
    return deadline is None or height <= deadline


def can_reveal(current: Round, windows: Windows, height: int) -> bool:
    """Return True if block `height` may hold a reveal."""
    deadline = reveal_deadline(current, windows)
    return deadline is not None and height <= deadline


def advanced(current: Round, windows: Windows, height: int, final_height: int) -> Round:
    """Return the round before the extrinsics of block `height`, given that block's newest final height."""
    current = with_commit_window(current, height, final_height)
    deadline = commit_deadline(current, windows)
    if not current.closed_at and deadline is not None and height > deadline:
        current = replace(current, closed_at=deadline)
    return opened(current, height, final_height)


def with_commit_window(current: Round, height: int, final_height: int) -> Round:
    """Return the round with its commit window opened, if the newest draw is final."""
    if current.commits_from or final_height < newest_draw(current):
        return current
    return replace(current, commits_from=height)


def opened(current: Round, height: int, final_height: int) -> Round:
    """Return the round with reveals opened, if it is closed and the close is final."""
    if not current.closed_at or current.reveals_from or final_height < current.closed_at:
        return current
    return replace(current, reveals_from=height)


def committed(current: Round, height: int, *, is_last: bool) -> Round:
    """Return the round after a commit in block `height`. `is_last` means that every member has committed."""
    first_commit = current.first_commit or height
    # The first commit starts the close clock. The last one closes at once, because no further commit can come.
    return replace(current, first_commit=first_commit, closed_at=height if is_last else 0)


def refilled(current: Round, height: int) -> Round:
    """Return the round after a draw in block `height` that filled a place. The commit window restarts for all members.

    Members of the earlier draw may commit in every block of this time, including the block of the draw.
    """
    assert not current.first_commit, "a race with a commit is not refilled"
    # The first commit starts the close clock, which a restarted commit window would undo.
    return replace(current, refilled_at=height, commits_from=0)


def is_void(current: Round) -> bool:
    """Return True if commits are closed and no member committed."""
    return bool(current.closed_at) and not current.first_commit


def is_over(current: Round, windows: Windows, height: int) -> bool:
    """Return True if the reveal window has passed."""
    deadline = reveal_deadline(current, windows)
    return deadline is not None and height > deadline
