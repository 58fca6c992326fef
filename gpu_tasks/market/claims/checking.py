"""The life of a claim: draws, checks, concessions, disputes, and its end.

    DRAWING ──no points──> the end
       │
    (CALLING ─>) COMMITTING ──> SHOWING ──> OPENING ──passed──> a second draw, or the end
       ^             │             │           │
       └── silent ───┘   silent: the end       └──> CONCEDING ──> DISPUTED ──> the end, or as if passed
       └──────────────────── conceded, not opened ────┘

Invariants: points and checkers are unknown before the claim opens. A step waits until the previous one is final, and
only then its window runs. Calls follow the clock, so a late hook gives nobody more time.
"""

from dataclasses import replace

from gpu_tasks.market.claims import claim_closing as closing
from gpu_tasks.market.claims.claim_events import (
    CheckEnded,
    CheckerDrawn,
    ClaimOpened,
    ClaimWindowClosed,
    FindingCommitted,
    FindingOpened,
    ItemDisputed,
    MalformedFinding,
    NotChecker,
    NotClaimProvider,
    NotDisputable,
    PointsDrawn,
    SamplesShown,
    WrongFinding,
    WrongSamples,
)
from gpu_tasks.market.claims.claims import (
    CHECKER_BOND,
    DISPUTES_MAX,
    FAILURES_MAX,
    REPLACEMENTS,
    Check,
    CheckEnd,
    ClaimOutcome,
    ClaimStage,
    ClaimTerms,
    ResultClaim,
)
from gpu_tasks.market.claims.claims_storage import ClaimsStorage, parties_of
from gpu_tasks.market.claims.collateral import finder_reward
from gpu_tasks.market.claims.convictions import compared_checks, convicted, disputed_place, open_check
from gpu_tasks.market.claims.disputes import SEATS, DisputeQuestion, DisputeTerms
from gpu_tasks.market.claims.draws import beacon_heights, draw_items, draw_second, most_points, name_checker
from gpu_tasks.market.claims.findings import (
    POINTS_DRAWN_MAX,
    Finding,
    Samples,
    Verdict,
    finding_commitment,
    seed_of,
)
from gpu_tasks.market.claims.handlers import Ruling
from gpu_tasks.market.claims.money import MoneyEvent, Payee, Purse
from gpu_tasks.market.devices.checkers import DEVELOPMENT_SET
from gpu_tasks.market.draws import BEACON_DELAY
from runtime.frame.holds import Hold
from runtime.frame.pallet import ensure

# ------------------------------------------------------------------------------------------------------------ the steps


def begin(room: ClaimsStorage, claim_id: bytes, terms: ClaimTerms) -> None:
    """Open a claim. Its points are drawn once its beacons are final."""
    assert claim_id not in room.claims, "a claim opens once"
    assert most_points(terms.items, terms.weight, terms.rate_ppm) <= POINTS_DRAWN_MAX, "a claim has room for its points"
    if len(room.entrants()) < DEVELOPMENT_SET:
        # A development chain has too few validators for a checker and voters.
        terms = replace(terms, rate_ppm=0)
    claim = ResultClaim(terms, room.window_of(terms.run_blocks), ClaimStage.DRAWING, room.height)
    # Raises if there is no such market: nobody could end the claim.
    room.market(claim)
    room.emit(ClaimOpened(claim_id, terms.handler, terms.provider))
    _await_beacons(room, claim_id, claim)


def step(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim) -> None:
    """Take the step that is due: a draw, or the end of a window."""
    if claim.stage is ClaimStage.DRAWING:
        _draw(room, claim_id, claim)
    elif claim.stage is ClaimStage.CALLING:
        _call_replacement(room, claim_id, claim)
    elif claim.stage is ClaimStage.DISPUTED:
        return
    elif _is_opened(claim):
        _compare(room, claim_id, claim)
    elif not claim.deadline:
        _begin_window(room, claim_id, claim)
    elif room.height <= claim.deadline:
        return
    elif claim.stage is ClaimStage.COMMITTING:
        _replace_silent(room, claim_id, claim)
    elif claim.stage is ClaimStage.SHOWING:
        _convict_silent_provider(room, claim_id, claim)
    elif claim.stage is ClaimStage.OPENING:
        _replace_unopened(room, claim_id, claim)
    else:
        _dispute_check(room, claim_id, claim)


# ------------------------------------------------------------------------------------------------------------ the calls


def commit(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim, who: bytes, commitment: bytes) -> None:
    """Record the checker's commitment to its finding."""
    check = _acting_checker(room, claim, ClaimStage.COMMITTING, who)
    room.emit(FindingCommitted(claim_id, _number(claim)))
    _enter(room, claim_id, _with_check(claim, replace(check, commitment=commitment)), ClaimStage.SHOWING)


def show(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim, who: bytes, samples: Samples) -> None:
    """Record the provider's samples, one for each point, at the checker's seed."""
    ensure(who == claim.terms.provider, NotClaimProvider)
    _ensure_open(room, claim, ClaimStage.SHOWING)
    ensure(len(samples) == len(claim.points), WrongSamples)
    ensure(all(sample.index < claim.terms.items for sample in samples), WrongSamples)
    room.emit(SamplesShown(claim_id, _number(claim), samples))
    _enter(room, claim_id, _with_check(claim, replace(claim.checks[-1], shown=samples)), ClaimStage.OPENING)


def open_finding(
    room: ClaimsStorage, claim_id: bytes, claim: ResultClaim, who: bytes, finding: Finding, salt: bytes
) -> None:
    """Record the checker's finding. The next block's hook compares it with the provider's samples."""
    check = _acting_checker(room, claim, ClaimStage.OPENING, who)
    genesis = room.system.block_hash[0]
    commitment = finding_commitment(genesis, claim_id, _number(claim), who, finding, salt)
    ensure(check.finding is None, ClaimWindowClosed)
    ensure(check.commitment == commitment, WrongFinding)
    ensure(_is_well_formed(finding, len(claim.points)), MalformedFinding)
    room.emit(FindingOpened(claim_id, _number(claim), finding))
    room.put(claim_id, _with_check(claim, replace(check, finding=finding)))
    # A call that ends a claim would weigh many times its charge.
    room.agenda.put(room.height + 1, claim_id)


def concede(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim, who: bytes) -> None:
    """Record that the checker takes its finding back, for two fees."""
    _acting_checker(room, claim, ClaimStage.CONCEDING, who)
    claim = closing.forfeit(room, claim_id, claim, MoneyEvent.CONCEDED)
    _fail(room, claim_id, _ended(room, claim_id, claim, CheckEnd.CONCEDED), REPLACEMENTS)


def dispute(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim, who: bytes, index: int) -> None:
    """Have voters compute any item of a claim, with a bond that pays them if it is right."""
    ensure(claim.stage is not ClaimStage.DISPUTED and not _is_opened(claim), NotDisputable)
    ensure(claim.disputes < DISPUTES_MAX and index < claim.terms.items, NotDisputable)
    terms = claim.terms
    bond = SEATS * closing.vote_fee(terms) + finder_reward(terms.collateral)
    is_undrawn = claim.stage is ClaimStage.DRAWING and not claim.is_second
    is_early = is_undrawn and room.height < beacon_heights(claim.recorded_at)[0]
    claim = replace(claim, disputer=who, is_early=is_early, bond=bond, paused=claim.stage)
    _open_dispute(room, claim_id, claim, index=index, point=None, seeds=())
    room.lock.lock(who, closing.bond_hold(claim_id, room.open_claim(claim_id)), bond)


# ---------------------------------------------------------------------------------------------------------- the rulings


def rule(room: ClaimsStorage, dispute_id: bytes, ruling: Ruling) -> None:
    """Carry out a ruling: convict, pay the voters, and end the claim or let it go on."""
    claim_id = room.claim_of_dispute[dispute_id]
    assert claim_id is not None, "an open dispute has a claim"
    del room.claim_of_dispute[dispute_id]
    claim = room.open_claim(claim_id)
    if claim.disputer is not None:
        _rule_for_disputer(room, claim_id, claim, claim.disputer, ruling)
    elif ruling.vote is None:
        closing.conclude(room, claim_id, claim, ClaimOutcome.RETURNED)
    else:
        _rule_about_point(room, claim_id, claim, ruling)


def _rule_for_disputer(
    room: ClaimsStorage, claim_id: bytes, claim: ResultClaim, disputer: bytes, ruling: Ruling
) -> None:
    """Convict the provider, or resume the claim. A false dispute costs its bond, one without a decision nothing."""
    payees = closing.voters_of(ruling)
    if ruling.vote is None or ruling.vote.verdict is Verdict.RIGHT:
        if ruling.vote is not None:
            bond = {Purse.DISPUTER: ((disputer, claim.bond),)}
            claim = closing.pay(room, claim_id, claim, MoneyEvent.FALSE_DISPUTE, bond, payees)
        closing.release_disputer(room, claim_id, claim)
        _resume(room, claim_id, replace(claim, disputer=None))
        return
    if claim.is_early:
        payees[Payee.FINDER] = (disputer,)
    collateral = {Purse.PROVIDER: closing.provider_purse(claim)}
    claim = closing.pay(room, claim_id, claim, MoneyEvent.PROVIDER_FALSE, collateral, payees)
    closing.conclude(room, claim_id, claim, ClaimOutcome.REFUTED)


def _rule_about_point(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim, ruling: Ruling) -> None:
    """Convict the provider with its false checkers, or the checker alone. Otherwise the check counts as passed."""
    assert ruling.vote is not None, "a vote convicts"
    check, found, payees = open_check(claim), convicted(claim, ruling.vote), closing.voters_of(ruling)
    payers = {
        Purse.PROVIDER: closing.provider_purse(claim),
        Purse.CHECKER: closing.checker_purse(claim, found.checkers),
    }
    if found.is_provider:
        is_finder = check is not None and check.checker not in found.checkers
        if check is not None and is_finder:
            payees[Payee.FINDER] = (check.checker,)
        event = MoneyEvent.BOTH_FALSE if found.checkers else MoneyEvent.PROVIDER_FALSE
        claim = closing.pay(room, claim_id, claim, event, payers, payees)
        if check is not None:
            claim = _ended(room, claim_id, claim, CheckEnd.UPHELD if is_finder else CheckEnd.REFUTED)
        closing.conclude(room, claim_id, claim, ClaimOutcome.REFUTED)
    elif check is None:
        payers = {Purse.FORFEITED: closing.forfeited(claim)}
        claim = closing.pay(room, claim_id, claim, MoneyEvent.PASSED, payers, payees)
        # The voters stand for all checkers of this draw.
        _go_on(room, claim_id, replace(claim, pending=1))
    elif found.checkers:
        payees[Payee.PROVIDER] = (claim.terms.provider,)
        fee = closing.expected_fee(claim)
        claim = closing.pay(room, claim_id, claim, MoneyEvent.CHECKER_FALSE, payers, payees, fee=fee)
        _go_on(room, claim_id, _ended(room, claim_id, claim, CheckEnd.REFUTED))
    else:
        payers[Purse.CHECKER] = closing.checker_purse(claim, (check.checker,))
        claim = closing.pay(room, claim_id, claim, MoneyEvent.FETCHED, payers, payees)
        _go_on(room, claim_id, _ended(room, claim_id, claim, CheckEnd.REFUTED))


# ---------------------------------------------------------------------------------------------------------------- draws


def _draw(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim) -> None:
    """Draw points and a checker, or a second checker. Without a draw, the claim has passed."""
    if not claim.terms.rate_ppm:
        closing.conclude(room, claim_id, claim, ClaimOutcome.PASSED)
        return
    heights = beacon_heights(claim.recorded_at)
    if room.beacon.final_height() < heights[-1]:
        return
    values = [room.beacon.value_at(height) for height in heights]
    beacons = [value for value in values if value is not None]
    if len(beacons) < len(values):
        # Finality halted for longer than the beacon remembers.
        _await_beacons(room, claim_id, replace(claim, recorded_at=room.height))
        return
    terms = claim.terms
    if claim.is_second:
        drawn = draw_second(beacons, claim_id)
    else:
        drawn = draw_items(beacons, claim_id, items=terms.items, weight=terms.weight, rate_ppm=terms.rate_ppm)
    if drawn is None:
        closing.conclude(room, claim_id, claim, ClaimOutcome.PASSED)
        return
    if not claim.is_second:
        # The second check covers the same points.
        claim = replace(claim, points=drawn.points)
        room.emit(PointsDrawn(claim_id, drawn.points))
    _name(room, claim_id, replace(claim, pending=1, failures=0), drawn.beacon)


def _call_replacement(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim) -> None:
    """Draw the next checker of the same points."""
    height = claim.recorded_at + BEACON_DELAY
    if room.beacon.final_height() < height:
        return
    beacon = room.beacon.value_at(height)
    if beacon is None:
        _await_call(room, claim_id, claim)
    else:
        _name(room, claim_id, claim, beacon)


def _name(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim, beacon: bytes) -> None:
    """Give the check to a drawn validator, or to voters if nobody is eligible."""
    checker = name_checker(beacon, claim_id, room.entrants(), room.may_check(claim))
    if checker is None:
        _ask_voters(room, claim_id, claim, beacon)
        return
    room.lock.lock(checker, Hold(CHECKER_BOND, claim_id), claim.terms.collateral)
    check = Check(checker, seed_of(beacon, claim_id, checker), claim.is_second, held=claim.terms.collateral)
    claim = replace(claim, checks=(*claim.checks, check))
    room.emit(CheckerDrawn(claim_id, _number(claim), checker, check.seed, claim.terms.collateral))
    _enter(room, claim_id, claim, ClaimStage.COMMITTING)


# -------------------------------------------------------------------------------------------- the ends of checks


def _compare(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim) -> None:
    """Compare the checker's finding with the provider's samples."""
    check = claim.checks[-1]
    assert check.finding is not None and check.shown is not None  # noqa: PT018
    if check.finding.verdict is Verdict.UNAVAILABLE:
        _dispute_check(room, claim_id, claim)
    elif check.finding.verdict is Verdict.RIGHT and check.finding.samples == check.shown:
        fee = closing.fee_of_samples(claim.terms, check.shown)
        claim = _with_check(claim, replace(check, fee=fee))
        _go_on(room, claim_id, _ended(room, claim_id, claim, CheckEnd.PASSED))
    else:
        _enter(room, claim_id, claim, ClaimStage.CONCEDING)


def _replace_silent(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim) -> None:
    claim = closing.forfeit(room, claim_id, claim, MoneyEvent.SILENT)
    _fail(room, claim_id, _ended(room, claim_id, claim, CheckEnd.SILENT), REPLACEMENTS)


def _replace_unopened(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim) -> None:
    payers = {Purse.CHECKER: closing.checker_purse(claim, (claim.checks[-1].checker,))}
    payees = {Payee.PROVIDER: (claim.terms.provider,)}
    fee = closing.expected_fee(claim)
    claim = closing.pay(room, claim_id, claim, MoneyEvent.UNOPENED, payers, payees, fee=fee)
    # It leaves no fee for a second replacement.
    _fail(room, claim_id, _ended(room, claim_id, claim, CheckEnd.UNOPENED), 1)


def _convict_silent_provider(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim) -> None:
    payees = {Payee.FINDER: (claim.checks[-1].checker,)}
    payers = {Purse.PROVIDER: closing.provider_purse(claim)}
    claim = closing.pay(room, claim_id, claim, MoneyEvent.PROVIDER_FALSE, payers, payees)
    closing.conclude(room, claim_id, _ended(room, claim_id, claim, CheckEnd.UPHELD), ClaimOutcome.REFUTED)


def _fail(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim, replacements: int) -> None:
    """Draw the replacements of a checker, or ask voters after too many failures."""
    if claim.failures == FAILURES_MAX:
        _ask_voters(room, claim_id, claim, claim.checks[-1].seed)
        return
    pending = claim.pending - 1 + replacements
    _await_call(room, claim_id, replace(claim, pending=pending, failures=claim.failures + 1))


def _go_on(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim) -> None:
    """Continue after a check that passed: with the next checker, the second draw, or the end."""
    claim = replace(claim, pending=claim.pending - 1)
    if claim.pending:
        _await_call(room, claim_id, claim)
    elif not claim.is_second:
        _await_beacons(room, claim_id, replace(claim, is_second=True, recorded_at=room.height))
    else:
        closing.conclude(room, claim_id, claim, ClaimOutcome.PASSED)


# ------------------------------------------------------------------------------------------------------------- disputes


def _dispute_check(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim) -> None:
    """Let voters decide between the provider and the checker, and a checker that passed before."""
    seeds = tuple(check.seed for check in compared_checks(claim))
    point = claim.points[disputed_place(claim)]
    _open_dispute(room, claim_id, claim, index=0, point=point, seeds=seeds)


def _ask_voters(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim, seed: bytes) -> None:
    """Let voters compute the item at a drawn point, because no checker is left."""
    # A provider that knew the point would compute only that part of its result.
    claim = replace(claim, place=int.from_bytes(seed, "little") % len(claim.points))
    seeds = tuple(check.seed for check in compared_checks(claim))
    _open_dispute(room, claim_id, claim, index=0, point=claim.points[claim.place], seeds=seeds)


def _open_dispute(
    room: ClaimsStorage, claim_id: bytes, claim: ResultClaim, *, index: int, point: int | None, seeds: tuple[bytes, ...]
) -> None:
    terms, dispute_id = claim.terms, closing.dispute_id_of(claim_id, claim.disputes)
    claim = replace(claim, stage=ClaimStage.DISPUTED, deadline=0, disputes=claim.disputes + 1)
    parties = parties_of(claim)
    room.claim_of_dispute[dispute_id] = claim_id
    room.drop_steps(claim_id, claim)
    room.put(claim_id, claim)
    room.emit(ItemDisputed(claim_id, dispute_id, index, point))
    about = DisputeTerms(
        handler=room.index,
        question=DisputeQuestion.ITEM,
        work=claim_id,
        index=index,
        point=point,
        seeds=seeds,
        parties=parties,
        excluded=tuple(who for who in room.barred(claim) if who not in parties),
        fee=closing.vote_fee(terms),
        sealed_at=terms.sealed_at,
        run_blocks=terms.run_blocks,
    )
    room.disputes.open(dispute_id, about)


def _resume(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim) -> None:
    """Continue a claim where a false dispute stopped it. An open window begins anew."""
    claim = replace(claim, stage=claim.paused)
    if claim.stage in (ClaimStage.DRAWING, ClaimStage.CALLING):
        room.put(claim_id, claim)
        if room.beacon.final_height() >= _awaited(claim):
            room.agenda.put(room.height + 1, claim_id)
        else:
            room.final_agenda.put(_awaited(claim), claim_id)
    else:
        _enter(room, claim_id, claim, claim.stage)


# -------------------------------------------------------------------------------------------------------------- records


def _await_beacons(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim) -> None:
    claim = replace(claim, stage=ClaimStage.DRAWING, deadline=0)
    _await(room, claim_id, claim, _awaited(claim))


def _await_call(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim) -> None:
    claim = replace(claim, stage=ClaimStage.CALLING, recorded_at=room.height, deadline=0)
    _await(room, claim_id, claim, _awaited(claim))


def _awaited(claim: ResultClaim) -> int:
    """Return the height of the last beacon that a draw needs. A claim that nobody checks waits for its own block."""
    if not claim.terms.rate_ppm:
        return claim.recorded_at
    is_call = claim.stage is ClaimStage.CALLING
    return claim.recorded_at + BEACON_DELAY if is_call else beacon_heights(claim.recorded_at)[-1]


def _enter(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim, stage: ClaimStage) -> None:
    """Enter a stage with a window, which opens once this block is final."""
    _await(room, claim_id, replace(claim, stage=stage, recorded_at=room.height, deadline=0), room.height)


def _await(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim, height: int) -> None:
    room.put(claim_id, claim)
    room.agenda.drop(claim_id)
    room.final_agenda.put(height, claim_id)


def _begin_window(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim) -> None:
    """Set the last block of the window, if the previous step is final."""
    if room.beacon.final_height() >= claim.recorded_at:
        deadline = room.height + claim.window
        room.put(claim_id, replace(claim, deadline=deadline))
        room.agenda.put(deadline + 1, claim_id)


def _acting_checker(room: ClaimsStorage, claim: ResultClaim, stage: ClaimStage, who: bytes) -> Check:
    """Return the check of the present checker. Raise NotChecker or ClaimWindowClosed for anybody else or later."""
    check = open_check(claim)
    ensure(check is not None and check.checker == who, NotChecker)
    assert check is not None, "checked above"
    _ensure_open(room, claim, stage)
    return check


def _ensure_open(room: ClaimsStorage, claim: ResultClaim, stage: ClaimStage) -> None:
    is_open = claim.stage is stage and (not claim.deadline or room.height <= claim.deadline)
    ensure(is_open, ClaimWindowClosed)


def _is_opened(claim: ResultClaim) -> bool:
    """Return True if the checker has opened its finding and no hook has compared it yet."""
    check = open_check(claim)
    return claim.stage is ClaimStage.OPENING and check is not None and check.finding is not None


def _is_well_formed(finding: Finding, points: int) -> bool:
    if finding.verdict is Verdict.RIGHT:
        return len(finding.samples) == points and not finding.place
    return not finding.samples and finding.place < points


def _ended(room: ClaimsStorage, claim_id: bytes, claim: ResultClaim, end: CheckEnd) -> ResultClaim:
    """Return the claim with its last check ended."""
    room.emit(CheckEnded(claim_id, _number(claim), end))
    return _with_check(claim, replace(claim.checks[-1], end=end))


def _with_check(claim: ResultClaim, check: Check) -> ResultClaim:
    return replace(claim, checks=(*claim.checks[:-1], check))


def _number(claim: ResultClaim) -> int:
    return len(claim.checks) - 1
