"""Claims of a random chain: providers show samples, checkers commit, open and concede, accounts dispute items.

Invariant: in a claim, only liars err, withhold or stay silent. All liars' statements are functions of the claim.
"""

from collections.abc import Iterator, Sequence

from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.claims.claims import Check, ClaimStage, ResultClaim
from gpu_tasks.market.claims.convictions import open_check
from gpu_tasks.market.claims.findings import (
    FINGERPRINT_BYTES,
    Finding,
    ItemSample,
    Samples,
    Verdict,
    finding_commitment,
)
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.cryptography.hashing import blake2_256
from simulation.actors import BY_STASH, Actor, Deed, World, portion, salt_of
from simulation.replay import task_deeds
from simulation.replay.answers import has_bad_input, is_false, unit_of
from simulation.replay.roll_deeds import false_rows
from simulation.replay.session_deeds import is_claim_false

FORGETS = 0.06
WITHHOLDS, MUTE, FRAMES = 0.1, 0.05, 0.1
"""The shares of claims of which a lying provider serves no item, shows no samples, or shows false ones of right items.
"""
SILENT, UNOPENED, UNAVAILABLE, GUESSED, REVERSED = 0.1, 0.2, 0.3, 0.45, 0.6
"""Bounds of the shares of checks in which a lying checker does not commit, does not open, does not fetch, invents its
samples, or reverses its verdict."""
CONCEDES = 0.5
LOOKS = 0.1
"""The chance per block that a customer looks at a claim."""
DISPUTES, INSISTS = 0.5, 0.3
"""The shares of claims that it disputes: with a false item, and as a liar of right ones."""


def claim_deeds(world: World) -> Iterator[Deed]:
    """Yield the duties in open claims, except for forgotten ones."""
    room = world.bound[ResultClaims]
    for stash, actor in sorted(BY_STASH.items()):
        for claim_id, _ in list(room.duties.under(stash)):
            if world.chance.random() >= FORGETS:
                yield from _duty(world, actor, claim_id, room.open_claim(claim_id))
    if world.chance.random() < LOOKS:
        yield from _dispute(world)


def is_withheld(world: World, claim_id: bytes, claim: ResultClaim) -> bool:
    """Return whether nobody but the provider has the items."""
    is_unserved = has_bad_input(claim_id) or portion(claim_id, b"withholds") < WITHHOLDS
    return is_unserved and is_liar(world, claim.terms.provider)


def is_liar(world: World, stash: bytes) -> bool:
    """Return whether the actor with this stash sometimes lies."""
    actor = BY_STASH.get(stash)
    return actor is not None and actor.name in world.liars


def is_item_false(world: World, claim_id: bytes, claim: ResultClaim, index: int) -> bool:
    """Return whether an item of a claim is false."""
    if claim.terms.handler == Capacity.index:
        return index in false_rows(claim_id, claim.terms.root, claim.terms.items)
    if claim.terms.handler == Sessions.index:
        return is_claim_false(claim_id, claim, world.liars)
    market = world.bound[TrainingMarket]
    task_id = market.task_of_claim[claim_id]
    if task_id is None:
        return is_false(claim_id, unit_of(world, claim_id), claim.terms.root, index)
    return task_deeds.is_item_false(task_id, market.claimed_slot(claim_id)[1], claim.terms.root, index)


def false_items(world: World, claim_id: bytes, claim: ResultClaim) -> Sequence[int]:
    """Return the false items of a claim, in order."""
    if claim.terms.handler == Capacity.index:
        return false_rows(claim_id, claim.terms.root, claim.terms.items)
    return [index for index in range(claim.terms.items) if is_item_false(world, claim_id, claim, index)]


def index_at(claim: ResultClaim, point: int) -> int:
    """Return the item at a point, as if all items had the mean weight."""
    return min(point // max(1, mean_weight(claim)), claim.terms.items - 1)


def mean_weight(claim: ResultClaim) -> int:
    """Return the mean weight of a claim's items."""
    return claim.terms.weight // claim.terms.items


def sample(work: bytes, index: int, weight: int, seed: bytes, label: bytes = b"") -> ItemSample:
    """Return the right sample of an item. A label makes another one."""
    content = work + index.to_bytes(4, "little") + seed + label
    return ItemSample(index, weight, blake2_256(content)[:FINGERPRINT_BYTES])


def _duty(world: World, actor: Actor, claim_id: bytes, claim: ResultClaim) -> Iterator[Deed]:
    check = open_check(claim)
    if check is None or claim.stage is ClaimStage.DISPUTED:
        return
    if claim.stage is ClaimStage.SHOWING:
        if not (is_liar(world, claim.terms.provider) and portion(claim_id + check.seed, b"mute") < MUTE):
            shown = _shown(world, claim_id, claim, check)
            yield Deed(actor.provider, ResultClaims.show_samples(claim=claim_id, samples=shown))
        return
    behaviour = portion(claim_id + actor.stash.account, b"checks") if actor.name in world.liars else 1.0
    finding, salt = _finding(world, claim_id, claim, check, behaviour), salt_of(actor, claim_id)
    if claim.stage is ClaimStage.COMMITTING and behaviour >= SILENT:
        number = len(claim.checks) - 1
        commitment = finding_commitment(world.genesis_hash, claim_id, number, check.checker, finding, salt)
        yield Deed(actor.provider, ResultClaims.commit_finding(claim=claim_id, commitment=commitment))
    elif claim.stage is ClaimStage.OPENING and behaviour >= UNOPENED:
        yield Deed(actor.provider, ResultClaims.open_finding(claim=claim_id, finding=finding, salt=salt))
    elif claim.stage is ClaimStage.CONCEDING and behaviour < REVERSED and portion(claim_id, b"concedes") < CONCEDES:
        yield Deed(actor.provider, ResultClaims.concede(claim=claim_id))


def _finding(world: World, claim_id: bytes, claim: ResultClaim, check: Check, behaviour: float) -> Finding:
    """Return a checker's finding. `behaviour` is 1 for an honest one."""
    if UNOPENED <= behaviour < UNAVAILABLE or is_withheld(world, claim_id, claim):
        return Finding(Verdict.UNAVAILABLE, 0, ())
    if UNAVAILABLE <= behaviour < GUESSED:
        return Finding(Verdict.RIGHT, 0, _samples(claim_id, claim, check, b"guess"))
    points = enumerate(claim.points)
    false = [place for place, point in points if is_item_false(world, claim_id, claim, index_at(claim, point))]
    if bool(false) is not (GUESSED <= behaviour < REVERSED):
        return Finding(Verdict.WRONG, false[0] if false else 0, ())
    return Finding(Verdict.RIGHT, 0, _samples(claim_id, claim, check, b""))


def _shown(world: World, claim_id: bytes, claim: ResultClaim, check: Check) -> Samples:
    """Return the provider's samples. They are false for false items, and if a liar frames its checker."""
    if is_liar(world, claim.terms.provider) and portion(claim_id + check.seed, b"frames") < FRAMES:
        return _samples(claim_id, claim, check, b"framing")
    right, false = (_samples(claim_id, claim, check, label) for label in (b"", b"false"))
    pairs = zip(right, false, strict=True)
    return tuple(lie if is_item_false(world, claim_id, claim, each.index) else each for each, lie in pairs)


def _samples(claim_id: bytes, claim: ResultClaim, check: Check, label: bytes) -> Samples:
    weight = mean_weight(claim)
    return tuple(sample(claim_id, index_at(claim, point), weight, check.seed, label) for point in claim.points)


def _dispute(world: World) -> Iterator[Deed]:
    """Yield a customer's dispute of a false item, or a liar's of a right one."""
    claim_id = world.claim()
    claim = world.bound[ResultClaims].claims[claim_id]
    actor = None if claim is None else BY_STASH.get(claim.terms.customer)
    if claim is None or actor is None or claim.stage is ClaimStage.DISPUTED:
        return
    false = false_items(world, claim_id, claim)
    share = DISPUTES if false else INSISTS if actor.name in world.liars else 0
    if portion(claim_id, b"disputes") < share:
        yield Deed(actor.stash, ResultClaims.dispute(claim=claim_id, index=false[0] if false else 0))
