"""Leaf checks of a recorded chain: parties show, audit and dispute leaves. Some lie, and some err.

Invariant: the right leaves of a batch, and its liars' leaves, are functions of its unit. All liars of a unit lie alike.
"""

from collections.abc import Iterator
from functools import lru_cache

from gpu_tasks.batches.leaf_draws import drawn_points, index_at, weight_floor
from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.batches.sum_tree import batch_root, leaf_path, leaf_paths, path_claim, totals_of
from gpu_tasks.market.courts.opinions import Answered
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.market.leaf_checks.checks import LeafCheck, LeafStage
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_checks.proofs import leaves_proof
from runtime.cryptography.hashing import blake2_256
from simulation.actors import BY_STASH, Actor, Deed, World, portion

WITHHOLDS, SILENT = 0.05, 0.15
"""The share of batches without shown leaves, and of auditors without an opinion."""
ERRS = 0.1
"""The share of auditors that err: they call a right leaf wrong, or pass without computing."""
ALL_WRONG = 0.5
"""The share of falsified batches without any right leaf. The others have one false leaf."""
DISPUTES, INSISTS = 0.9, 0.15
"""The shares of customers that dispute a leaf, of batches with a false leaf and of right ones."""

Leaves = tuple[Leaf, ...]


def leaves_of(unit_id: bytes, unit: Unit, *, is_right: bool) -> Leaves:
    """Return the right leaves of a batch, or the liars' leaves. Some take fewer tokens than allowed, some none."""
    terms = unit.terms
    tokens_out = terms.tokens_max * int(3 * portion(unit_id, b"spent")) // 2
    return _leaves(unit_id, terms.requests, terms.tokens_in, tokens_out, is_right)


def leaf_deeds(world: World) -> Iterator[Deed]:
    """Yield the duties of open checks, except for forgotten ones."""
    room = world.bound[LeafChecks]
    for unit_id, check in list(room.checks.items()):
        assert check is not None
        if check.stage is LeafStage.SHOWING and not check.shown:
            yield from _show(world, unit_id, check)
        elif check.stage is LeafStage.CHECKING and check.auditor is not None:
            yield from _audit(world, unit_id, check, BY_STASH[check.auditor])
        elif check.stage is LeafStage.OPEN:
            yield from _dispute(world, unit_id, check)


def true_of_leaves(world: World, case_id: bytes) -> Answered | None:
    """Return the right opinion on a case of a check, or None for another case."""
    room = world.bound[LeafChecks]
    unit_id = room.unit_of_case[case_id]
    if unit_id is None:
        return None
    check, right = room.open_check(unit_id), leaves_of(unit_id, _unit(world, unit_id), is_right=True)
    if check.doubt is not None:
        return Answered(path_claim(leaf_path(right, check.doubt.shown.index)))
    assert check.auditor is not None
    return Answered(_proof(world, unit_id, check, check.auditor))


def _show(world: World, unit_id: bytes, check: LeafCheck) -> Iterator[Deed]:
    assert check.seed is not None
    leaves, terms = _settled(world, unit_id, check), check.terms
    actor = BY_STASH[terms.answerers[0].account]
    if portion(unit_id, b"withholds") < WITHHOLDS or world.chance.random() < 0.5:
        return
    floor, totals = weight_floor(terms.allowed, terms.requests), totals_of(leaves)
    points = drawn_points(check.seed, unit_id, totals, floor, input_share=terms.input_share)
    drawn = tuple(index_at(leaves, floor, point, input_share=terms.input_share) for point in points)
    call = LeafChecks.show_leaves(unit=unit_id, totals=totals, paths=tuple(leaf_paths(leaves, drawn)))
    yield Deed(actor.provider, call)


def _audit(world: World, unit_id: bytes, check: LeafCheck, actor: Actor) -> Iterator[Deed]:
    """Yield a doubt about a wrong leaf, or a pass. An erring auditor does the opposite."""
    name = unit_id + actor.stash.account
    if portion(name, b"audits") < SILENT:
        return
    right = leaves_of(unit_id, _unit(world, unit_id), is_right=True)
    wrong = [leaf for leaf in check.shown if path_claim(leaf_path(right, leaf.index)) != leaf.claim]
    errs = portion(name, b"errs") < ERRS
    if bool(wrong) == errs:
        proof = blake2_256(name) if errs else _proof(world, unit_id, check, actor.stash.account)
        yield Deed(actor.provider, LeafChecks.pass_leaves(unit=unit_id, proof=proof))
    else:
        doubted = (wrong or check.shown)[0]
        found = blake2_256(name) if errs else path_claim(leaf_path(right, doubted.index))
        yield Deed(actor.provider, LeafChecks.doubt_leaf(unit=unit_id, index=doubted.index, found=found))


def _dispute(world: World, unit_id: bytes, check: LeafCheck) -> Iterator[Deed]:
    actor = BY_STASH.get(check.terms.customer)
    if actor is None:
        return
    said, right = _settled(world, unit_id, check), leaves_of(unit_id, _unit(world, unit_id), is_right=True)
    index = next((place for place, leaf in enumerate(said) if leaf != right[place]), None)
    if portion(unit_id, b"disputes") >= (INSISTS if index is None else DISPUTES):
        return
    path = leaf_path(said, index or 0)
    found = blake2_256(unit_id) if index is None else path_claim(leaf_path(right, index))
    call = LeafChecks.dispute_leaf(unit=unit_id, totals=totals_of(said), path=path, found=found)
    yield Deed(actor.stash, call)


def _settled(world: World, unit_id: bytes, check: LeafCheck) -> Leaves:
    """Return the leaves that the settled root commits to."""
    unit = _unit(world, unit_id)
    right = leaves_of(unit_id, unit, is_right=True)
    is_right = batch_root(totals_of(right)) == check.terms.output_root
    return right if is_right else leaves_of(unit_id, unit, is_right=False)


def _proof(world: World, unit_id: bytes, check: LeafCheck, auditor: bytes) -> bytes:
    right = leaves_of(unit_id, _unit(world, unit_id), is_right=True)
    is_shown = all(path_claim(leaf_path(right, leaf.index)) == leaf.claim for leaf in check.shown)
    digests = [right[leaf.index].digest for leaf in check.shown]
    return leaves_proof(world.genesis_hash, unit_id, auditor, blake2_256(unit_id), digests, is_shown=is_shown)


def _unit(world: World, unit_id: bytes) -> Unit:
    unit = world.bound[InferenceMarket].units[unit_id]
    assert unit is not None, "its check is not over"
    return unit


@lru_cache(maxsize=128)
def _leaves(unit_id: bytes, requests: int, tokens_in: int, tokens_out: int, is_right: bool) -> Leaves:
    wrong = (
        range(requests)
        if portion(unit_id, b"all wrong") < ALL_WRONG
        else (int(requests * portion(unit_id, b"wrong leaf")),)
    )
    names = (b"right" if is_right or index not in wrong else b"wrong" for index in range(requests))
    return tuple(
        Leaf(
            tokens_in // requests + (index < tokens_in % requests),
            tokens_out // requests + (index < tokens_out % requests),
            blake2_256(name + unit_id + index.to_bytes(4, "little")),
        )
        for index, name in enumerate(names)
    )
