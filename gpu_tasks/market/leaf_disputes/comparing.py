"""From two roots to one leaf: the shown nodes, the first difference, and the remaining sides.

    SUBTREES ─all have shown, or lost─> LEAVES ─> JUDGED ─> one root is left, or none: over
                                           ^         └─ several are: the next leaf in which they differ
                                           └─────────────┘ in another subtree

Invariants: the nodes that a side shows combine, with their sums, to its commitment. So sides with different roots have
a first different subtree, and in it a first different leaf. A side that shows nothing in time is out. No side is out
before the request has been final for half a window: if finality halts, a provider that reads only final blocks would
lose.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpu_tasks.batches.sum_tree import (
    SUBTREE_LEAVES,
    Totals,
    TreeNode,
    batch_root,
    combined,
    leaves_below,
    node_claim,
    subtree_count,
)
from gpu_tasks.market.leaf_disputes.disputes import LeafDispute, LeafDisputeStage, ShownNodes, Side, side_of
from gpu_tasks.market.leaf_disputes.events import (
    LeafDisputed,
    NodesAsked,
    NodesShown,
    NotASide,
    NothingAsked,
    TreeWithheld,
    WrongNodes,
)
from gpu_tasks.market.leaf_disputes.storage import DisputeStorage, NodeLists
from runtime.frame.pallet import ensure


def begin(room: DisputeStorage, handler: int, unit: bytes, requests: int, sides: tuple[Side, ...]) -> None:
    """Open a dispute: each side shows its tree, from the top if there is more than one subtree."""
    assert unit not in room.disputes, "a batch has one dispute at a time"
    assert len(sides) > 1, "sides differ"
    opened = LeafDispute(handler, requests, sides, room.show_blocks, LeafDisputeStage.SUBTREES)
    if subtree_count(requests) > 1:
        _ask(room, unit, opened, None)
    else:
        _ask(room, unit, opened, 0)


def show(
    room: DisputeStorage, unit: bytes, dispute: LeafDispute, who: bytes, totals: Totals, nodes: Sequence[TreeNode]
) -> None:
    """Record the requested nodes, shown by a member of a side.

    When all sides have shown theirs, the next block's hook compares.
    """
    side = side_of(dispute, who)
    ensure(side is not None, NotASide)
    assert side is not None, "checked above"
    is_open = room.height <= dispute.deadline or room.awaits_finality(unit)
    ensure(dispute.stage is not LeafDisputeStage.JUDGED and is_open and not side.has_shown, NothingAsked)
    ensure(batch_root(totals) == side.root and totals.requests == dispute.requests, WrongNodes)
    ensure(len(nodes) == _asked(dispute), WrongNodes)
    ensure(combined(nodes) == _above(room, unit, dispute, side.root, totals), WrongNodes)
    listed = room.subtrees if dispute.stage is LeafDisputeStage.SUBTREES else room.leaves
    listed[unit, side.root] = tuple(nodes)
    _drop_duties(room, unit, (side,))
    sides = tuple(replace(each, has_shown=True) if each.root == side.root else each for each in dispute.sides)
    room.emit(NodesShown(unit, who, side.root))
    if all(each.has_shown for each in sides):
        # Otherwise `begin_window` would move the deadline of the comparison.
        room.final_agenda.drop(unit)
        room.put(unit, replace(dispute, sides=sides, deadline=room.height))
    else:
        room.disputes[unit] = replace(dispute, sides=sides)


def begin_window(room: DisputeStorage, unit: bytes, dispute: LeafDispute) -> None:
    """Begin the window of a final request: at least half a window is left."""
    room.put(unit, replace(dispute, deadline=max(dispute.deadline, room.height + dispute.window // 2)))


def step(room: DisputeStorage, unit: bytes, dispute: LeafDispute) -> None:
    """End a window: silent sides are out, and the shown nodes are compared. Or act on a judged leaf."""
    assert room.height > dispute.deadline, "a dispute is processed when its window is over"
    if dispute.found is not None:
        _go_on(room, unit, _without_wrong(room, unit, dispute, dispute.found))
        return
    silent = tuple(side for side in dispute.sides if not side.has_shown)
    # A provider reads only final blocks, so it may not know of the request yet.
    if silent and room.awaits_finality(unit):
        return
    if silent:
        _drop_duties(room, unit, silent)
        for side in silent:
            room.emit(TreeWithheld(unit, side.root))
        room.handler(dispute).let_fall(unit, [side.root for side in silent])
    left = tuple(side for side in dispute.sides if side.has_shown)
    _go_on(room, unit, replace(dispute, sides=left))


def narrow(room: DisputeStorage, unit: bytes, dispute: LeafDispute, claim: bytes) -> None:
    """Record the right claim of the judged leaf. The next step continues with the sides that have it.

    The hook of Disputes does not compare: its charge for a ruling does not cover eight trees.
    """
    assert dispute.stage is LeafDisputeStage.JUDGED, "a leaf was judged"
    room.put(unit, replace(dispute, found=claim, deadline=room.height))


def close(room: DisputeStorage, unit: bytes, dispute: LeafDispute) -> None:
    """Drop all records of a dispute. It is on no schedule, because a step or the voters have it."""
    _drop_duties(room, unit, dispute.sides)
    for listed in (room.subtrees, room.leaves):
        for root in [root for root, _ in listed.under(unit)]:
            del listed[unit, root]
    del room.disputes[unit]


def claims_of(room: DisputeStorage, unit: bytes, dispute: LeafDispute) -> dict[bytes, bytes]:
    """Return the claim of each remaining root about the judged leaf."""
    position = dispute.leaf - dispute.subtree * SUBTREE_LEAVES
    return {side.root: node_claim(room.leaves[unit, side.root][position]) for side in dispute.sides}


def _without_wrong(room: DisputeStorage, unit: bytes, dispute: LeafDispute, claim: bytes) -> LeafDispute:
    claims = claims_of(room, unit, dispute)
    left = tuple(side for side in dispute.sides if claims[side.root] == claim)
    return replace(dispute, sides=left, found=None)


def _go_on(room: DisputeStorage, unit: bytes, dispute: LeafDispute) -> None:
    if len(dispute.sides) < 2:
        root = dispute.sides[0].root if dispute.sides else None
        close(room, unit, dispute)
        room.handler(dispute).agree(unit, root)
        return
    if dispute.stage is not LeafDisputeStage.SUBTREES:
        position = _first_difference(_lists(room.leaves, unit, dispute.sides))
        if position is not None:
            _judge(room, unit, dispute, position)
            return
    # The shown leaves belong to another subtree, and say nothing about this one.
    subtree = _first_difference(_lists(room.subtrees, unit, dispute.sides))
    assert subtree is not None, "trees with the same nodes have the same root"
    _ask(room, unit, dispute, subtree)


def _ask(room: DisputeStorage, unit: bytes, dispute: LeafDispute, subtree: int | None) -> None:
    """Request the leaves of a subtree from every side, or the subtrees."""
    until = room.height + dispute.window
    sides = tuple(replace(side, has_shown=False) for side in dispute.sides)
    stage = LeafDisputeStage.SUBTREES if subtree is None else LeafDisputeStage.LEAVES
    for account in _accounts(sides):
        room.duties[account, unit] = True
    room.emit(NodesAsked(unit, subtree, until))
    room.put(unit, replace(dispute, sides=sides, stage=stage, subtree=subtree or 0, deadline=until))
    # The window of a request counts from its finality, because providers read only final blocks.
    room.final_agenda.put(room.height, unit)


def _judge(room: DisputeStorage, unit: bytes, dispute: LeafDispute, position: int) -> None:
    leaf = dispute.subtree * SUBTREE_LEAVES + position
    room.put(unit, replace(dispute, stage=LeafDisputeStage.JUDGED, leaf=leaf, deadline=0))
    room.emit(LeafDisputed(unit, leaf))
    room.handler(dispute).judge_leaf(unit, leaf)


def _asked(dispute: LeafDispute) -> int:
    """Return the number of requested nodes."""
    if dispute.stage is LeafDisputeStage.SUBTREES:
        return subtree_count(dispute.requests)
    return leaves_below(dispute.requests, dispute.subtree)


def _above(room: DisputeStorage, unit: bytes, dispute: LeafDispute, root: bytes, totals: Totals) -> TreeNode:
    """Return the node to which the shown nodes must combine."""
    if dispute.stage is LeafDisputeStage.LEAVES and subtree_count(dispute.requests) > 1:
        return room.subtrees[unit, root][dispute.subtree]
    return TreeNode(totals.top, totals.tokens_in, totals.tokens_out)


def _lists(listed: NodeLists, unit: bytes, sides: Iterable[Side]) -> list[ShownNodes]:
    return [listed[unit, side.root] for side in sides]


def _first_difference(lists: Sequence[Sequence[TreeNode]]) -> int | None:
    """Return the first index at which not all lists are equal."""
    return next(
        (position for position, nodes in enumerate(zip(*lists, strict=True)) if len(dict.fromkeys(nodes)) > 1), None
    )


def _drop_duties(room: DisputeStorage, unit: bytes, sides: Iterable[Side]) -> None:
    for account in _accounts(sides):
        del room.duties[account, unit]


def _accounts(sides: Iterable[Side]) -> Iterator[bytes]:
    return (account for side in sides for account in side.accounts)
