"""The calls and the hook of ResultClaims at their worst: a batch with ten checks, each of five items."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from benchmarks.weights.actors import RACED, Actor
from benchmarks.weights.races import BLOCKS_BEFORE, ROUNDS, MarketCases, attach, raced
from benchmarks.weights.world import World
from gpu_tasks.market.claims.claims import CHECKER_BOND, CHECKS_MAX, Check, CheckEnd, ClaimStage, ResultClaim
from gpu_tasks.market.claims.collateral import CLAIM_POINTS
from gpu_tasks.market.claims.disputes import EXCLUDED_MAX
from gpu_tasks.market.claims.draws import beacon_heights
from gpu_tasks.market.claims.findings import (
    FINGERPRINT_BYTES,
    Finding,
    ItemSample,
    Samples,
    Verdict,
    finding_commitment,
)
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.inference.units import RACERS_MAX
from runtime.frame.call import Call
from runtime.frame.holds import Hold
from runtime.frame.runtime import Bound
from runtime.pallets.staking.trust_lock import TrustLock
from simulation.chains.market_chain import signed

HOOK = "ResultClaims.on_initialize"
UNITS = 12
STAGE_BLOCKS_MAX = 200
POINTS = tuple(range(CLAIM_POINTS + 1))
"""The most points of a unit's claim: four expected ones, and one of a short last part."""
SAMPLES: Samples = tuple(ItemSample(point, 1, b"s" * FINGERPRINT_BYTES) for point in POINTS)
FINDINGS = {
    Verdict.RIGHT: Finding(Verdict.RIGHT, 0, SAMPLES),
    Verdict.WRONG: Finding(Verdict.WRONG, POINTS[-1], ()),
}


class ClaimCalls(MarketCases):
    """A claim that passes its last check, and one whose checker concedes."""

    def measure(self) -> None:
        """Measure all cases, after the work left by earlier cases has ended."""
        self.world.blocks(BLOCKS_BEFORE)
        self._looks()
        self._conceded()
        self._passed(self._named())
        self.races.wake_devices()

    def _looks(self) -> None:
        """Measure looks at validators that may check, each of which reads all its entries."""
        unit = claimed(self)
        now = self.world.now()[ResultClaims]
        may_check = now.may_check(now.open_claim(unit))
        stashes = [actor.stash for actor in self.world.validators]
        real = self.least(lambda: [may_check(stash) for stash in stashes])
        self.found.rows[f"{HOOK} look"] = real / len(stashes)
        self._silent_provider(unit)

    def _named(self) -> bytes:
        """Measure a draw of points that names a checker, and return its claim."""
        world = self.world
        unit = claimed(self)
        world.blocks(beacon_heights(claim_of(world, unit).recorded_at)[-1] - world.height)
        self._row("name", self._real("points and a checker drawn") - self.found.rows[f"{HOOK} step"])
        world.block()
        return unit

    def _passed(self, unit: bytes) -> None:
        """Measure the calls of the tenth check, and the end of its claim. All checkers are paid and released."""
        world = self.world
        world.block(checked(self, unit, Verdict.RIGHT, self.found.call))
        ten = self._real("a claim ends, ten checkers")
        world.block()
        if unit in world.now()[ResultClaims].claims:
            raise RuntimeError("the claim has not ended")
        self._row("checker", (ten - self._unchecked()) / CHECKS_MAX)

    def _unchecked(self) -> float:
        """Return the cost of a claim's draw and end if it has no points."""
        races, world = self.races, self.world
        units = races.drawn(RACED, UNITS)
        world.block(*races.commits(units))
        world.blocks(2)
        world.block(attach(races.reveals(units, 0, RACERS_MAX)), partial(without_points, units))
        world.blocks(beacon_heights(world.height)[-1] - world.height)
        each = self._real("claims end without a check") / UNITS
        world.block()
        if any(unit in world.now()[ResultClaims].claims for unit in units):
            raise RuntimeError("not all claims have ended")
        self._row("end", each - self.found.rows[f"{HOOK} step"])
        return each

    def _conceded(self) -> None:
        """Measure a concession, a dispute, and the steps after a wrong finding and after silence."""
        world, found = self.world, self.found
        unit = claimed(self)
        until(world, unit, ClaimStage.COMMITTING)
        world.block(checked(self, unit, Verdict.WRONG))
        self._step("a finding that differs", unit, ClaimStage.CONCEDING)
        checker = world.by_stash[claim_of(world, unit).checks[-1].checker]
        found.call(self._stranger().stash, ResultClaims.dispute(claim=unit, index=0))
        found.call(checker.provider, ResultClaims.concede(claim=unit))
        world.block(partial(_as_first, unit), signed(checker.provider, ResultClaims.concede(claim=unit)))
        until(world, unit, ClaimStage.COMMITTING)
        self._reach_deadline(unit)
        self._step("a silent checker", unit, ClaimStage.CALLING)
        self._silent_provider(unit)

    def _real(self, name: str) -> float:
        """Return the cost of the next block's hook above its cost in a block where nothing is due."""
        real, _ = self.found.hooks(name, rounds=ROUNDS)["ResultClaims"]
        return real - self.found.rows.get(HOOK, 0.0)

    def _row(self, part: str, nanoseconds: float) -> None:
        self.found.rows[f"{HOOK} {part}"] = max(100.0, nanoseconds)

    def _step(self, name: str, unit: bytes, then: ClaimStage) -> None:
        """Measure the step of the next block, and take it."""
        self._row("step", max(self._real(name), self.found.rows.get(f"{HOOK} step", 0.0)))
        self.world.block()
        if claim_of(self.world, unit).stage is not then:
            raise RuntimeError(f"{name}: the claim has not gone on")

    def _silent_provider(self, unit: bytes) -> None:
        """End a claim: its checker commits, and its provider shows no samples."""
        world = self.world
        claim = until(world, unit, ClaimStage.COMMITTING)
        checker = world.by_stash[claim.checks[-1].checker]
        world.block(signed(checker.provider, ResultClaims.commit_finding(claim=unit, commitment=b"c" * 32)))
        self._reach_deadline(unit)
        world.block()
        self.races.wake_devices()

    def _reach_deadline(self, unit: bytes) -> None:
        while not claim_of(self.world, unit).deadline:
            self.world.block()
        self.world.blocks(claim_of(self.world, unit).deadline - self.world.height)

    def _stranger(self) -> Actor:
        """Return an account without a part in any claim, and with the grains for a bond."""
        return self.world.validators[0]


def claimed(cases: MarketCases) -> bytes:
    """Return a batch with an open claim."""
    unit = raced(cases.world, cases.races)
    claim_of(cases.world, unit)
    return unit


def claim_of(world: World, unit: bytes) -> ResultClaim:
    """Return the open claim of a unit."""
    return world.now()[ResultClaims].open_claim(unit)


def until(world: World, unit: bytes, stage: ClaimStage) -> ResultClaim:
    """Make blocks until a claim is in a stage, and return it."""
    for _ in range(STAGE_BLOCKS_MAX):
        claim = claim_of(world, unit)
        if claim.stage is stage:
            return claim
        world.block()
    raise RuntimeError(f"the claim does not reach {stage!r}")


def checked(
    cases: MarketCases, unit: bytes, verdict: Verdict, measure: Callable[[bytes, Call], object] | None = None
) -> Callable[[Bound], None]:
    """Have the checker of a claim commit and the provider show its samples, as after nine other checks.

    Return the step that opens the finding.
    """
    world = cases.world
    world.block(partial(_grow, world, unit))
    claim = claim_of(world, unit)
    checker, provider = (world.by_stash[who] for who in (claim.checks[-1].checker, claim.terms.provider))
    finding, number = FINDINGS[verdict], len(claim.checks) - 1
    sealed = finding_commitment(world.genesis, unit, number, checker.stash, finding, checker.stash)
    calls = (
        (checker, ResultClaims.commit_finding(claim=unit, commitment=sealed)),
        (provider, ResultClaims.show_samples(claim=unit, samples=SAMPLES)),
        (checker, ResultClaims.open_finding(claim=unit, finding=finding, salt=checker.stash)),
    )
    for who, call in calls:
        if measure is not None:
            measure(who.provider, call)
        if call is not calls[-1][1]:
            world.block(signed(who.provider, call))
    last, opening = calls[-1]
    return signed(last.provider, opening)


def _grow(world: World, unit: bytes, bound: Bound) -> None:
    """Give a claim the most points, excluded accounts and earlier checks."""
    room = bound[ResultClaims]
    claim = room.open_claim(unit)
    held, (last,) = claim.terms.collateral, claim.checks
    parts = dict.fromkeys((*claim.terms.excluded, claim.terms.provider, last.checker))
    others = [actor.stash for actor in world.validators if actor.stash not in parts][: CHECKS_MAX - 1]
    for stash in others:
        bound[TrustLock].lock(stash, Hold(CHECKER_BOND, unit), held)
    earlier = tuple(
        Check(stash, stash, place >= CHECKS_MAX // 2, held, 1, stash, SAMPLES, FINDINGS[Verdict.RIGHT], CheckEnd.PASSED)
        for place, stash in enumerate(others)
    )
    strangers = tuple(actor.stash for actor in world.senders[: EXCLUDED_MAX - len(claim.terms.excluded)])
    room.put(
        unit,
        replace(
            claim,
            terms=replace(claim.terms, excluded=(*claim.terms.excluded, *strangers)),
            points=POINTS,
            is_second=True,
            checks=(*earlier, replace(last, is_second=True)),
        ),
    )


def without_points(claims: Sequence[bytes], bound: Bound) -> None:
    """Give the open ones of these claims so small a rate that no point is drawn."""
    room = bound[ResultClaims]
    for claim_id in claims:
        claim = room.claims[claim_id]
        if claim is not None:
            room.put(claim_id, replace(claim, terms=replace(claim.terms, rate_ppm=1)))


def _as_first(unit: bytes, bound: Bound) -> None:
    """Drop the earliest checks of a claim, so that others find a place."""
    room = bound[ResultClaims]
    claim = room.open_claim(unit)
    gone, left = claim.checks[:4], claim.checks[4:]
    for check in gone:
        bound[TrustLock].unlock(check.checker, Hold(CHECKER_BOND, unit), check.held)
    room.put(unit, replace(claim, checks=left))
