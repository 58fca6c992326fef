"""The items of a task's claim: the segments of its last leg, or the whole result if there is no trace.

    item i = segment `own_segments.start + i` of the trace, from its state s(segment) to s(segment + 1)

Invariants: all items weigh the same, so a point names its item by a division. No provider is liable for segments of an
earlier leg. No leg costs more for each of its items than the auction allows that sold it (`auction_items`).
"""

from gpu_tasks.market.training.orders import TaskOrder


def leg_segments(segments: int, milestones_behind: int, milestones: int) -> range:
    """Return the segments of the leg that begins after `milestones_behind` of `milestones` milestones."""
    return range(segments * milestones_behind // milestones, segments)


def own_segments(order: TaskOrder, milestones_behind: int) -> range:
    """Return the segments for which the leg after so many milestones is liable: none without a trace."""
    return leg_segments(order.segments, milestones_behind, order.milestones)


def items_of(order: TaskOrder, milestones_behind: int) -> int:
    """Return the number of items of a claim for the leg that begins after `milestones_behind` milestones."""
    return max(1, len(own_segments(order, milestones_behind)))


def auction_items(order: TaskOrder, milestones_behind: int) -> int:
    """Return the items by which escrow and collateral are reckoned in an auction behind so many milestones.

    It is `items_of`, rounded down. A standby that takes over has a part of its price by milestones, and the segments
    from the milestone's state on, which is rounded down: up to one segment fewer in all than that part has.
    """
    return max(1, order.segments * (order.milestones - milestones_behind) // order.milestones)


def segment_of(order: TaskOrder, milestones_behind: int, item: int) -> int:
    """Return the segment of an item, if the task has a trace."""
    return own_segments(order, milestones_behind).start + item
