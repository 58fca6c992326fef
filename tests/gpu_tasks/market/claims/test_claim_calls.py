"""The calls of ResultClaims: every wrong signer, stage, time and argument is refused without effect."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.market.claims import checking, result_claims
from gpu_tasks.market.claims.claim_events import (
    ClaimWindowClosed,
    MalformedFinding,
    NotChecker,
    NotClaimProvider,
    NotDisputable,
    UnknownClaim,
    WrongFinding,
    WrongSamples,
)
from gpu_tasks.market.claims.claims import DISPUTES_MAX, ClaimOutcome, ClaimStage
from gpu_tasks.market.claims.findings import Finding, Verdict, finding_commitment
from gpu_tasks.market.claims.handlers import Ruling
from gpu_tasks.market.claims.result_claims import ResultClaims
from runtime.encoding.types import Root, Signed, Unsigned, Weight
from runtime.frame.call import FREE, Call
from runtime.frame.errors import BadOrigin, FundsUnavailable
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from simulation.chains.claim_chain import (
    Checks,
    ClaimChain,
    commit_call,
    finding_of,
    open_call,
    samples_of,
    show_call,
)
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, Keys, refused, salt_of, signed

NOTHING = b"n" * 32
STAGES = tuple(ClaimStage)
WINDOWS = (ClaimStage.COMMITTING, ClaimStage.SHOWING, ClaimStage.OPENING, ClaimStage.CONCEDING)
OTHER = Checks(label=b"other")


def at(stage: ClaimStage, **changed: Any) -> tuple[ClaimChain, bytes]:
    """Return a chain with a claim in a stage. Its first checker shows samples that differ from the provider's."""
    is_called = stage is ClaimStage.CALLING
    chain = ClaimChain(checker=lambda *_: Checks(label=b"other", is_conceded=is_called), **changed)
    claim_id = chain.open()
    assert chain.run(claim_id, until=stage) is None
    return chain, claim_id


def checker_of(chain: ClaimChain, claim_id: bytes) -> Keys:
    """Return the keys of the newest checker."""
    return chain.chain.keys_of(chain.claim(claim_id).checks[-1].checker)


def right_calls(chain: ClaimChain, claim_id: bytes) -> dict[ClaimStage, tuple[bytes, Call]]:
    """Return the signer and the call for each stage with a window, as far as there is a check."""
    claim = chain.claim(claim_id)
    if not claim.checks:
        commit = ResultClaims.commit_finding(claim=claim_id, commitment=NOTHING)
        return {ClaimStage.COMMITTING: (chain.chain.validators[0].stash, commit)}
    keys = checker_of(chain, claim_id)
    return {
        ClaimStage.COMMITTING: (keys.provider, commit_call(claim_id, claim, keys, OTHER)),
        ClaimStage.SHOWING: (chain.owner.stash, show_call(claim_id, claim)),
        ClaimStage.OPENING: (keys.provider, open_call(claim_id, claim, keys, OTHER)),
        ClaimStage.CONCEDING: (keys.provider, ResultClaims.concede(claim=claim_id)),
    }


@pytest.mark.parametrize("stage", STAGES)
def test_each_call_has_its_stage(stage: ClaimStage) -> None:
    chain, claim_id = at(stage)
    has_check = stage not in (ClaimStage.DRAWING, ClaimStage.CALLING)
    for own, (signer, call) in right_calls(chain, claim_id).items():
        if own is stage:
            chain.chain.now().dispatch(call, Signed(signer))
        elif has_check or own is ClaimStage.SHOWING:
            chain.chain.block(refused(signer, call, ClaimWindowClosed))
        else:
            chain.chain.block(refused(signer, call, NotChecker))
        if chain.claim(claim_id).stage is not stage:
            return


@pytest.mark.parametrize("stage", WINDOWS)
def test_only_the_right_account_acts_by_its_stash_or_its_provider_key(stage: ClaimStage) -> None:
    chain, claim_id = at(stage)
    signer, call = right_calls(chain, claim_id)[stage]
    actor = chain.owner if stage is ClaimStage.SHOWING else checker_of(chain, claim_id)
    error = NotClaimProvider if stage is ClaimStage.SHOWING else NotChecker
    others = [keys for keys in (*chain.chain.validators, *chain.chain.others, CUSTOMER) if keys != actor]
    keys = [key for each in others for key in (each.stash, each.provider)]
    bound = chain.chain.now()
    for who in (*keys, actor.public("session"), b"?" * 32):
        with pytest.raises(error):
            bound.dispatch(call, Signed(who))
    assert signer in (actor.stash, actor.provider)
    chain.chain.now().dispatch(call, Signed(actor.stash))
    for origin in (Root(), Unsigned()):
        with pytest.raises(BadOrigin):
            bound.dispatch(call, origin)


@pytest.mark.parametrize("stage", WINDOWS)
def test_a_duty_call_is_free_and_a_concession_is_not(stage: ClaimStage) -> None:
    chain, claim_id = at(stage)
    signer, call = right_calls(chain, claim_id)[stage]
    assert (chain.chain.now().dispatch(call, Signed(signer)) == FREE) == (stage is not ClaimStage.CONCEDING)


@pytest.mark.parametrize("stage", WINDOWS)
def test_the_last_block_of_a_window_counts_and_the_next_does_not(
    stage: ClaimStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, claim_id = at(stage)
    signer, call = right_calls(chain, claim_id)[stage]
    assert not chain.claim(claim_id).deadline, "the window opens once the previous step is final"
    chain.chain.block()
    deadline = chain.claim(claim_id).deadline
    assert deadline == chain.chain.height + chain.chain.now()[ResultClaims].duty_blocks
    chain.chain.blocks_to(deadline - 1)
    # A hook without room would look at the claim later. The clock decides all the same.
    monkeypatch.setattr(checking, "step", lambda *_: None)
    chain.chain.height += 1
    chain.chain.begun().dispatch(call, Signed(signer))
    chain.chain.height -= 1
    chain.chain.blocks(1)
    late = chain.chain.runtime.at(chain.chain.state)
    late.pallets[0].number.set(deadline + 1)  # type: ignore[attr-defined]
    with pytest.raises(ClaimWindowClosed):
        late.dispatch(call, Signed(signer))


@pytest.mark.parametrize("stage", WINDOWS)
def test_no_window_runs_while_the_previous_step_is_not_final(stage: ClaimStage) -> None:
    chain, claim_id = at(stage, epoch_blocks=600)
    chain.chain.final_lag = 10_000
    chain.chain.blocks(chain.chain.now()[ResultClaims].duty_blocks + 2)
    assert not chain.claim(claim_id).deadline
    signer, call = right_calls(chain, claim_id)[stage]
    chain.chain.now().dispatch(call, Signed(signer))


def test_a_late_hook_opens_no_window_of_a_step_that_is_not_final(monkeypatch: pytest.MonkeyPatch) -> None:
    chain, claim_id = at(ClaimStage.COMMITTING, final_lag=5)
    signer, call = right_calls(chain, claim_id)[ClaimStage.COMMITTING]
    with monkeypatch.context() as full:
        full.setattr(result_claims, "CLAIMS_BUDGET", Weight(0, 0))
        chain.chain.blocks(5)
        assert list(chain.chain.now()[ResultClaims].due.items()), "the claim is due, and no block has room for it"
        chain.chain.block(signed(signer, call))
    chain.chain.block()
    claim = chain.claim(claim_id)
    assert (claim.stage, claim.deadline) == (ClaimStage.SHOWING, 0)
    chain.chain.blocks(4)
    assert chain.claim(claim_id).deadline


def test_a_claim_that_waits_for_room_can_be_disputed_and_goes_on_after_that(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = ClaimChain()
    claim_id = chain.open()
    with monkeypatch.context() as full:
        full.setattr(result_claims, "CLAIMS_BUDGET", Weight(0, 0))
        while not list(chain.chain.now()[ResultClaims].due.items()):
            chain.chain.block()
        chain.chain.block(signed(chain.stranger.stash, ResultClaims.dispute(claim=claim_id, index=0)))
        assert not list(chain.chain.now()[ResultClaims].due.items())
    chain.decide(claim_id, Ruling(None, is_appealed=False, voters=(), appeal_voters=()))
    assert chain.claim(claim_id).stage is ClaimStage.DRAWING
    assert chain.run(claim_id) is ClaimOutcome.PASSED


def test_samples_must_fit_the_points() -> None:
    chain = ClaimChain()
    claim_id = chain.open(items=1_000, rate_ppm=4_000)
    chain.run(claim_id, until=ClaimStage.SHOWING)
    claim = chain.claim(claim_id)
    right = samples_of(claim, claim.checks[-1].seed)
    assert len(right) == 4
    outside = (replace(right[0], index=1_000), *right[1:])
    for samples in ((), right[:-1], (*right, right[0]), outside):
        call = ResultClaims.show_samples(claim=claim_id, samples=samples)
        chain.chain.block(refused(chain.owner.stash, call, WrongSamples))
    chain.chain.block(signed(chain.owner.stash, show_call(claim_id, claim)))
    chain.chain.block(refused(chain.owner.stash, show_call(claim_id, claim), ClaimWindowClosed))


MALFORMED: dict[str, Callable[[Finding], Finding]] = {
    "no samples": lambda right: replace(right, samples=()),
    "too few samples": lambda right: replace(right, samples=right.samples[:-1]),
    "too many samples": lambda right: replace(right, samples=(*right.samples, right.samples[0])),
    "right at a place": lambda right: replace(right, place=1),
    "wrong with samples": lambda right: replace(right, verdict=Verdict.WRONG),
    "wrong at no point": lambda _: Finding(Verdict.WRONG, 4, ()),
    "unavailable with samples": lambda right: replace(right, verdict=Verdict.UNAVAILABLE),
    "unavailable at no point": lambda _: Finding(Verdict.UNAVAILABLE, 4, ()),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_finding_must_fit_the_points(name: str) -> None:
    chain = ClaimChain()
    claim_id = chain.open(items=1_000, rate_ppm=4_000)
    chain.run(claim_id, until=ClaimStage.COMMITTING)
    claim, keys = chain.claim(claim_id), checker_of(chain, claim_id)
    finding, salt = MALFORMED[name](finding_of(claim, Checks())), salt_of(keys, claim_id)
    commitment = finding_commitment(GENESIS_HASH, claim_id, 0, keys.stash, finding, salt)
    chain.chain.block(signed(keys.provider, ResultClaims.commit_finding(claim=claim_id, commitment=commitment)))
    chain.chain.block(signed(chain.owner.stash, show_call(claim_id, claim)))
    call = ResultClaims.open_finding(claim=claim_id, finding=finding, salt=salt)
    chain.chain.block(refused(keys.provider, call, MalformedFinding))


def test_a_finding_opens_its_own_commitment_once() -> None:
    chain, claim_id = at(ClaimStage.OPENING)
    claim, keys = chain.claim(claim_id), checker_of(chain, claim_id)
    finding = finding_of(claim, OTHER)
    other = ResultClaims.open_finding(claim=claim_id, finding=finding_of(claim, Checks()), salt=salt_of(keys, claim_id))
    salted = ResultClaims.open_finding(claim=claim_id, finding=finding, salt=NOTHING)
    right = open_call(claim_id, claim, keys, OTHER)
    chain.chain.block(
        refused(keys.provider, other, WrongFinding),
        refused(keys.provider, salted, WrongFinding),
        signed(keys.provider, right),
        refused(keys.provider, right, ClaimWindowClosed),
    )


def test_a_copied_commitment_opens_nothing() -> None:
    """A replacement that copies the commitment of an earlier checker cannot open it: it binds check and stash."""
    chain, claim_id = at(ClaimStage.CALLING)
    copied = chain.claim(claim_id).checks[0].commitment
    assert copied is not None
    chain.run(claim_id, until=ClaimStage.COMMITTING)
    claim, keys = chain.claim(claim_id), checker_of(chain, claim_id)
    chain.chain.block(signed(keys.provider, ResultClaims.commit_finding(claim=claim_id, commitment=copied)))
    chain.chain.block(signed(chain.owner.stash, show_call(claim_id, claim)))
    for salt in (salt_of(keys, claim_id), salt_of(chain.chain.keys_of(claim.checks[0].checker), claim_id)):
        call = ResultClaims.open_finding(claim=claim_id, finding=finding_of(claim, OTHER), salt=salt)
        chain.chain.block(refused(keys.provider, call, WrongFinding))


def test_an_unknown_claim() -> None:
    chain, claim_id = at(ClaimStage.OPENING)
    claim, keys = chain.claim(claim_id), checker_of(chain, claim_id)
    calls = (
        ResultClaims.commit_finding(claim=NOTHING, commitment=NOTHING),
        ResultClaims.show_samples(claim=NOTHING, samples=()),
        ResultClaims.open_finding(claim=NOTHING, finding=finding_of(claim, OTHER), salt=NOTHING),
        ResultClaims.concede(claim=NOTHING),
        ResultClaims.dispute(claim=NOTHING, index=0),
    )
    chain.chain.block(*(refused(keys.provider, call, UnknownClaim) for call in calls))


# ------------------------------------------------------------------------------------------------------- disputes


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage is not ClaimStage.DISPUTED])
def test_anybody_disputes_an_item_of_an_open_claim(stage: ClaimStage) -> None:
    chain, claim_id = at(stage)
    call = ResultClaims.dispute(claim=claim_id, index=0)
    chain.chain.block(signed(chain.stranger.stash, call), refused(CUSTOMER.stash, call, NotDisputable))
    claim = chain.claim(claim_id)
    assert (claim.stage, claim.disputer, claim.paused) == (ClaimStage.DISPUTED, chain.stranger.stash, stage)


@pytest.mark.parametrize(("index", "is_there"), [(0, True), (999, True), (1_000, False)])
def test_a_disputed_item_belongs_to_the_claim(index: int, is_there: bool) -> None:
    chain = ClaimChain()
    claim_id = chain.open(items=1_000, rate_ppm=4_000)
    call = ResultClaims.dispute(claim=claim_id, index=index)
    step = signed(CUSTOMER.stash, call) if is_there else refused(CUSTOMER.stash, call, NotDisputable)
    chain.chain.block(step)


def test_nobody_disputes_a_finding_that_is_about_to_be_compared() -> None:
    chain, claim_id = at(ClaimStage.OPENING)
    signer, call = right_calls(chain, claim_id)[ClaimStage.OPENING]
    dispute = ResultClaims.dispute(claim=claim_id, index=0)
    chain.chain.block(signed(signer, call), refused(CUSTOMER.stash, dispute, NotDisputable))


def test_disputes_of_a_claim_have_a_limit() -> None:
    chain, claim_id = at(ClaimStage.DRAWING)

    def many(bound: Bound) -> None:
        claims = bound[ResultClaims].claims
        claims[claim_id] = replace(chain.claim(claim_id), disputes=DISPUTES_MAX)

    chain.chain.block(many, refused(CUSTOMER.stash, ResultClaims.dispute(claim=claim_id, index=0), NotDisputable))
    assert chain.run(claim_id, until=ClaimStage.DISPUTED) is None, "a check may still be disputed"


def test_a_disputer_needs_its_bond() -> None:
    chain, claim_id = at(ClaimStage.DRAWING)
    poor = chain.stranger.stash
    chain.chain.block(lambda bound: bound[Balances].transfer(poor, CUSTOMER.stash, chain.free(poor) - 1_000_000))
    chain.chain.block(refused(poor, ResultClaims.dispute(claim=claim_id, index=0), FundsUnavailable))
    assert chain.run(claim_id, until=ClaimStage.COMMITTING) is None
