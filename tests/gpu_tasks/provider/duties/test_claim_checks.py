"""Checks of claims by daemons: a finding and samples that agree, and each step no earlier than it is safe."""

import asyncio
from dataclasses import replace

import pytest

from claim_book import NEW_SEED, SEED, ClaimedBatch, claimed_batch, parts_of, sources_of, stepped
from gpu_tasks.batches.leaf_draws import leaf_weight
from gpu_tasks.market.claims.claims import CheckEnd, ClaimStage
from gpu_tasks.market.claims.findings import Finding, ItemSample, Verdict
from gpu_tasks.provider.duties.checking import CheckingDuty
from gpu_tasks.provider.duties.item_sources import NO_FINGERPRINT
from gpu_tasks.provider.execution.executor import BadRequestError, CheckedOutput, ExecutionError
from provider_chain import Miner, Village, in_village
from runtime.cryptography.hashing import blake2_256

ASKED = [b"complete this", b"no request", b"complete that one too", b"complete it"]


def duty_of(batch: ClaimedBatch, miner: Miner) -> CheckingDuty:
    return CheckingDuty(parts_of(batch.book, miner), sources_of(batch.book, miner))


def right_sample(batch: ClaimedBatch, index: int, seed: bytes = SEED) -> ItemSample:
    request = ASKED[index]
    fingerprint = blake2_256(b"fingerprint" + request + seed)[:16] if index != 1 else NO_FINGERPRINT
    return ItemSample(index, leaf_weight(batch.leaves[index], batch.floor), fingerprint)


def finding_of(batch: ClaimedBatch, miner: Miner, number: int = 0) -> Finding:
    return miner.daemon.parts.journal.findings[batch.id, number].statement


@in_village(4)
async def test_checker_and_provider_agree_about_a_right_claim(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    checker = batch.others()[0]
    batch.call_checker(checker, 0, 1, 2, 2)
    checking, providing = duty_of(batch, checker), duty_of(batch, batch.provider)
    runs = len(checker.executor.runs)
    for height in range(1, 5):
        await stepped(checking, height)
        await stepped(providing, height)
        batch.apply()
    samples = tuple(right_sample(batch, index) for index in (0, 1, 2, 2))
    (check,) = batch.claim.checks
    assert check.finding == Finding(Verdict.RIGHT, 0, samples)
    assert check.shown == samples
    assert checker.executor.checks == 2, "each completed item once"
    assert len(checker.executor.runs) == runs


@in_village(4)
async def test_a_wrong_item_is_computed_before_it_is_called_wrong(village: Village) -> None:
    batch = await claimed_batch(village, ASKED, spoil=True)
    checker = batch.others()[0]
    batch.call_checker(checker, 1, 2, 0)
    await stepped(duty_of(batch, checker), 1)
    assert finding_of(batch, checker) == Finding(Verdict.WRONG, 1, ())
    assert checker.executor.runs[-1] == ASKED[2]
    assert len(batch.book.calls("ResultClaims.commit_finding")) == 1


@in_village(4)
async def test_a_checker_whose_check_and_computation_differ_says_nothing(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    checker = batch.others()[0]
    batch.call_checker(checker, 0)

    async def refuted(request: bytes, output: bytes, seed: bytes) -> CheckedOutput:
        return CheckedOutput(is_right=False, fingerprint=None)

    checker.executor.check = refuted  # type: ignore[method-assign]  # a broken machine
    await stepped(duty_of(batch, checker), 1)
    assert not checker.daemon.parts.journal.findings
    assert not batch.book.sent
    assert checker.heard.codes("claim_not_computed") == ["unsure"]


@in_village(4)
async def test_a_request_that_the_provider_refused_wrongly_is_wrong(village: Village) -> None:
    batch = await claimed_batch(village, ASKED, trouble=BadRequestError("none of these"))
    checker = batch.others()[0]
    batch.call_checker(checker, 1, 2)
    await stepped(duty_of(batch, checker), 1)
    assert finding_of(batch, checker) == Finding(Verdict.WRONG, 1, ())


@in_village(4)
async def test_a_claim_that_is_not_delivered_is_unavailable_shortly_before_the_deadline(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    checker = batch.others()[0]
    batch.call_checker(checker, 0, 1, deadline=40)
    batch.provider.daemon.server._deliverer = None
    checking = duty_of(batch, checker)
    for height in (1, 20, 33):
        await stepped(checking, height)
        assert not batch.book.sent
    await stepped(checking, 34)
    found = finding_of(batch, checker)
    assert (found.verdict, found.samples) == (Verdict.UNAVAILABLE, ())
    claim = batch.book.claims[batch.id]
    assert found.place == int.from_bytes(claim.checks[-1].seed, "little") % len(claim.points) > 0
    assert len(batch.book.calls("ResultClaims.commit_finding")) == 1
    assert len(checker.heard.codes("claim_not_delivered")) == 3


@in_village(4)
async def test_a_provider_that_drips_until_the_window_is_over_is_called_unavailable(village: Village) -> None:
    """A checker that waits for it to the end would be silent, and so would be all voters."""
    batch = await claimed_batch(village, ASKED)
    checker = batch.others()[0]
    batch.call_checker(checker, 0, deadline=40)
    checking, asked = duty_of(batch, checker), asyncio.Event()

    async def hang(*_: object) -> bytes:
        asked.set()
        return await asyncio.Future()

    checker.daemon.parts.blobs.ask = hang  # type: ignore[method-assign, assignment]
    await checking.step(parts_of(batch.book, checker).chain.view(1))
    await asked.wait()
    await checking.step(parts_of(batch.book, checker).chain.view(33))
    assert not batch.book.sent
    await stepped(checking, 34)
    assert finding_of(batch, checker).verdict is Verdict.UNAVAILABLE
    assert len(batch.book.calls("ResultClaims.commit_finding")) == 1


@in_village(4)
async def test_a_checker_that_cannot_compute_does_not_blame_the_provider(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    checker = batch.others()[0]
    batch.call_checker(checker, 0, deadline=10)

    async def failing(request: bytes, output: bytes, seed: bytes) -> CheckedOutput:
        raise ExecutionError("no memory", code="execution_failed")

    checker.executor.check = failing  # type: ignore[method-assign]  # a machine without memory
    checking = duty_of(batch, checker)
    for height in range(1, 11):
        await stepped(checking, height)
    assert not batch.book.sent
    assert not checker.daemon.parts.journal.findings


@in_village(4)
async def test_nothing_is_found_committed_shown_or_opened_before_it_is_final(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    checker = batch.others()[0]
    batch.call_checker(checker, 0)
    checking, providing = duty_of(batch, checker), duty_of(batch, batch.provider)
    steps = ((checking, "commit_finding"), (providing, "show_samples"), (checking, "open_finding"))
    for height, (duty, name) in enumerate(steps):
        batch.book.is_final = False
        await stepped(duty, 10 * height + 1)
        assert not batch.book.sent
        batch.book.is_final = True
        await stepped(duty, 10 * height + 9)
        assert len(batch.book.calls(f"ResultClaims.{name}")) == 1
        batch.apply()
    assert batch.claim.checks[0].finding is not None


@in_village(4)
async def test_a_claim_with_another_weight_than_its_unit_gets_no_finding(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    checker = batch.others()[0]
    batch.call_checker(checker, 0)
    batch.change(terms=replace(batch.claim.terms, weight=batch.claim.terms.weight + 1))
    await stepped(duty_of(batch, checker), 1)
    assert not batch.book.sent
    assert checker.heard.codes("claim_not_computed") == ["other_weight"]


@pytest.mark.parametrize("differs", ["points", "seed"])
@in_village(4)
async def test_nothing_is_found_or_shown_for_points_or_a_seed_of_another_branch(
    village: Village, *, differs: str
) -> None:
    batch = await claimed_batch(village, ASKED)
    checker = batch.others()[0]
    batch.call_checker(checker, 0)
    (check,) = batch.claim.checks
    in_final = {"points": (batch.point_of(2),)} if differs == "points" else {"checks": (replace(check, seed=NEW_SEED),)}
    batch.book.final_claims[batch.id] = replace(batch.claim, **in_final)
    await stepped(duty_of(batch, checker), 1)
    assert not batch.book.sent
    assert checker.heard.codes("claim_not_computed") == ["claim_not_final"]
    if differs == "seed":
        batch.change_check(commitment=b"c" * 32)
        batch.change(stage=ClaimStage.SHOWING)
        committed = replace(check, seed=NEW_SEED, commitment=b"c" * 32)
        batch.book.final_claims[batch.id] = replace(batch.claim, checks=(committed,))
        await stepped(duty_of(batch, batch.provider), 2)
        assert not batch.book.sent
        assert batch.provider.heard.codes("samples_not_shown") == ["claim_not_final"]


@in_village(4)
async def test_samples_follow_the_seed_of_the_branch_that_becomes_final(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    batch.call_checker(batch.others()[0], 0)
    batch.change_check(commitment=b"c" * 32)
    batch.change(stage=ClaimStage.SHOWING)
    providing = duty_of(batch, batch.provider)
    for height, seed in ((1, SEED), (20, NEW_SEED)):
        batch.change_check(seed=seed)
        await stepped(providing, height)
    shown = [call["samples"] for call in batch.book.calls("ResultClaims.show_samples")]
    assert shown == [(right_sample(batch, 0),), (right_sample(batch, 0, NEW_SEED),)]


@in_village(4)
async def test_a_restart_sends_the_same_finding(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    checker = batch.others()[0]
    batch.call_checker(checker, 0)
    await stepped(duty_of(batch, checker), 1)
    (first,) = batch.book.calls("ResultClaims.commit_finding")
    checker = await village.restart(checker)
    checks = checker.executor.checks
    await stepped(duty_of(batch, checker), 2)
    assert batch.book.calls("ResultClaims.commit_finding") == [first, first]
    assert checker.executor.checks == checks


@in_village(4)
async def test_the_next_check_of_a_claim_has_a_finding_of_its_own(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    first, second, _ = batch.others()
    batch.call_checker(first, 0)
    providing = duty_of(batch, batch.provider)
    for checker in (first, second):
        checking = duty_of(batch, checker)
        for height in range(1, 5):
            await stepped(checking, height)
            await stepped(providing, height)
            batch.apply()
        assert batch.claim.checks[-1].finding is not None
        (ended,) = (replace(batch.claim.checks[-1], end=CheckEnd.PASSED),)
        again = replace(ended, checker=second.keys.stash, seed=NEW_SEED, commitment=None, shown=None, finding=None)
        batch.change(checks=(*batch.claim.checks[:-1], ended, replace(again, end=CheckEnd.OPEN)))
        batch.change(stage=ClaimStage.COMMITTING)
    assert finding_of(batch, second, 1).samples == (right_sample(batch, 0, NEW_SEED),)
    shown = [check.shown for check in batch.claim.checks[:2]]
    assert shown == [(right_sample(batch, 0),), (right_sample(batch, 0, NEW_SEED),)]


@in_village(4)
async def test_an_ended_claim_is_over_in_the_journal(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    checker = batch.others()[0]
    batch.call_checker(checker, 0)
    checking, journal = duty_of(batch, checker), checker.daemon.parts.journal
    await stepped(checking, 4)
    assert len(list(journal.open_findings())) == 1
    del batch.book.claims[batch.id]
    await stepped(checking, 8)
    assert not list(journal.open_findings())


@in_village(4)
async def test_claims_of_other_markets_are_left_alone(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    checker = batch.others()[0]
    batch.call_checker(checker, 0)
    batch.change(terms=replace(batch.claim.terms, handler=255))
    await stepped(duty_of(batch, checker), 1)
    assert not batch.book.sent
