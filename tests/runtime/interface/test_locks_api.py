"""Locked money in the chain's API: for every reason, with the sum of all holds, never 0 after a taken deposit."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from counted_reads import CountingReader
from genesis import dev_accounts
from genesis.chain import APIS, DEVELOPMENT_PALLETS, PALLETS, apis_for, genesis_state, runtime_of
from genesis.presets import load_spec
from gpu_tasks.market.inference.units import UNIT_DEPOSIT
from gpu_tasks.market.training.tasks import TASK_DEPOSIT
from runtime.encoding.types import Signed
from runtime.frame.api import Apis
from runtime.frame.holds import Hold, HoldReason
from runtime.frame.runtime import Bound
from runtime.interface import locks_api
from runtime.interface.locks_api import EntrustedLocks, HeldLocks, Lock, LockPart, SlashWait
from runtime.pallets.balances import Balances
from runtime.pallets.staking.delegations import Position
from runtime.pallets.staking.slash_factors import WHOLE, Liability, OffenceFactor
from runtime.pallets.staking.stakers import PROFILE, STAKE, Unlocking
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.state.overlay import Memory
from simulation.economy.season import Season

STEPS = 3_000
REASONS = tuple(reason for pallet in (*PALLETS, *DEVELOPMENT_PALLETS) for reason in pallet.hold_reasons)
SPEC = load_spec("dev")
ALICE = dev_accounts.stash("Alice")
SAVER = b"saver".ljust(32, b"_")
GRAINS = 10**8


def dev_apis() -> Apis:
    return apis_for(SPEC.parameters, is_development=True)


def ask(apis: Apis, state: Any, method: str, *arguments: Any) -> Any:
    """Call over the wire form, so that a wrong or too long value does not encode."""
    known = apis.methods[f"LocksApi_{method}"]
    data = b"".join(codec.encode(given) for (_, codec), given in zip(known.inputs, arguments, strict=True))
    return known.output.decode(apis.call(state, bytes(32), f"LocksApi_{method}", data))


def all_held(apis: Apis, state: Any, who: bytes) -> list[Lock]:
    found: list[Lock] = []
    behind: Hold | None = None
    while True:
        page: HeldLocks = ask(apis, state, "held", who, behind)
        found += page.locks
        behind = page.more_behind
        if behind is None:
            return found


def all_entrusted(apis: Apis, state: Any, who: bytes) -> list[Lock]:
    found: list[Lock] = []
    behind: bytes | None = None
    while True:
        page: EntrustedLocks = ask(apis, state, "entrusted", who, behind)
        found += page.locks
        behind = page.more_behind
        if behind is None:
            return found


@pytest.mark.parametrize("reason", [reason for reason in REASONS if reason is not STAKE], ids=str)
def test_of_each_reason_a_deposit_alone_comes_back_whole(reason: HoldReason, bound: Bound) -> None:
    """Also for a case that the state has dropped."""
    rich(bound)
    bound[Balances].hold(SAVER, Hold(reason, ALICE), 7 * GRAINS)
    (lock,) = all_held(dev_apis(), state_of(bound), SAVER)
    assert (lock.reason, lock.case, lock.amount) == (reason, ALICE, 7 * GRAINS)
    assert (lock.part, lock.until_block, lock.stays_blocks) == (LockPart.WHOLE, None, 0)
    assert lock.at_most == (0 if reason.is_deposit else 7 * GRAINS)


# ------------------------------------------------------------------------------------------------ a chain of all calls


@pytest.mark.nightly
def test_over_a_lively_chain_the_page_adds_up_and_tells_no_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each account's locks equal its holds, and no lock marked as safe loses any money."""
    taken: set[HoldReason] = set()
    pay_held = Balances.pay_held

    def watched(self: Balances, who: bytes, hold: Hold, shares: Sequence[tuple[bytes | None, int]]) -> None:
        if any(payee != who and amount for payee, amount in shares):
            taken.add(hold.reason)
        pay_held(self, who, hold, shares)

    monkeypatch.setattr(Balances, "pay_held", watched)
    season = Season(1, 0)
    apis, seen, dated = Apis(season.runtime, APIS), dict[HoldReason, Lock](), set[HoldReason]()

    def look() -> None:
        if season.height % 16:
            return
        bound, state = season.runtime.at(season.state), season.state
        for who, holds in bound[Balances].holds.items():
            locks = all_held(apis, state, who)
            for entry in holds:
                mine = [lock.amount for lock in locks if lock.reason is entry.id]
                # a slash that has not been collected yet is still there, and no longer its owner's
                assert sum(mine) == entry.amount or (entry.id is STAKE and sum(mine) < entry.amount)
            seen.update({lock.reason: lock for lock in locks})
            dated.update(lock.reason for lock in locks if lock.until_block is not None)

    season.play(STEPS, look)
    unseen = {str(reason) for reason in REASONS} - {str(reason) for reason in seen}
    assert len(unseen) <= len(REASONS) // 3, f"the chain is too tame to show anything: {sorted(unseen)}"
    assert dated == {UNIT_DEPOSIT, TASK_DEPOSIT}
    assert len(taken) >= 4, sorted(map(str, taken))
    for reason in taken & seen.keys():
        assert seen[reason].at_most > 0, f"{reason} was taken, and the page says that nothing takes it"


# ------------------------------------------------------------------------------------------------ stakes


@pytest.fixture
def bound() -> Bound:
    return runtime_of(SPEC).at(Memory(genesis_state(SPEC)))


def rich(bound: Bound) -> None:
    bound[Balances].debit(ALICE, 100 * GRAINS)
    bound[Balances].credit(SAVER, 100 * GRAINS)


def state_of(bound: Bound) -> Memory:
    assert isinstance(bound.overlay.reader, Memory)
    return bound.overlay.reader.updated(bound.overlay.changes())


def told(locks: Iterable[Lock]) -> list[tuple[LockPart, int, int | None]]:
    return [(lock.part, lock.amount // GRAINS, lock.until_epoch) for lock in locks]


def test_a_bond_a_delegation_and_what_leaves_both(bound: Bound) -> None:
    rich(bound)
    saver = Signed(SAVER)
    stake = bound[TrustStake]
    stake.bond(saver, 30 * GRAINS)
    stake.unbond(saver, 12 * GRAINS)
    stake.delegate(saver, ALICE, 20 * GRAINS)
    stake.undelegate(saver, ALICE, 5 * GRAINS)
    apis, state = dev_apis(), state_of(bound)
    own, entrusted = all_held(apis, state, SAVER), all_entrusted(apis, state, SAVER)
    assert told(own) == [(LockPart.BOND, 18, None), (LockPart.LEAVING, 12, 6)]
    assert told(entrusted) == [(LockPart.DELEGATION, 15, None), (LockPart.LEAVING, 5, 6)]
    assert [lock.case for lock in (*own, *entrusted)] == [SAVER, SAVER, ALICE, ALICE]
    assert [(lock.stays_epochs, lock.kept_by) for lock in (*own, *entrusted)] == [(6, 0), (0, 0), (6, 0), (0, 0)]
    (pool,) = {who for (who, hold), _ in bound[Balances].held_cases.items() if hold == Hold(STAKE, ALICE)} - {ALICE}
    assert [(lock.part, lock.case) for lock in all_held(apis, state, pool)] == [(LockPart.POOLED, ALICE)]


def test_a_slash_that_waits_is_said_to_keep_everything(bound: Bound) -> None:
    rich(bound)
    stake = bound[TrustStake]
    stake.delegate(Signed(SAVER), ALICE, 20 * GRAINS)
    stake.undelegate(Signed(SAVER), ALICE, 5 * GRAINS)
    stake.pending_slash_counts[ALICE] = 1
    kept_by = [lock.kept_by for lock in all_entrusted(dev_apis(), state_of(bound), SAVER)]
    assert kept_by == [SlashWait.UNDECIDED] * 2


def test_what_waits_is_kept_by_each_validator_that_it_answers_for(bound: Bound) -> None:
    stake, before = bound[TrustStake], b"before".ljust(32, b"_")
    answers = (Liability(ALICE, 0, ()), Liability(before, 0, ()))
    stake.unlocking[SAVER] = (Unlocking(ALICE, 7 * GRAINS, 6, answers),)
    (lock,) = all_entrusted(dev_apis(), state_of(bound), SAVER)
    assert lock.kept_by is SlashWait.NONE
    stake.slash_factors[before] = (OffenceFactor(0, WHOLE // 2),)
    stake.tombstones[before] = 0
    (lock,) = all_entrusted(dev_apis(), state_of(bound), SAVER)
    assert lock.kept_by is SlashWait.RAISABLE, "it was taken, and may be raised"
    stake.pending_slash_counts[before] = 1
    (lock,) = all_entrusted(dev_apis(), state_of(bound), SAVER)
    assert lock.kept_by is SlashWait.UNDECIDED


def test_a_slash_that_others_may_raise_keeps_what_waits_and_says_until_when(bound: Bound) -> None:
    rich(bound)
    stake = bound[TrustStake]
    stake.delegate(Signed(SAVER), ALICE, 20 * GRAINS)
    stake.undelegate(Signed(SAVER), ALICE, 5 * GRAINS)
    stake.slash_factors[ALICE] = (OffenceFactor(0, WHOLE // 2),)
    stake.tombstones[ALICE] = 0
    _, leaving = all_entrusted(dev_apis(), state_of(bound), SAVER)
    assert leaving.kept_by is SlashWait.RAISABLE
    assert leaving.until_epoch == 1 + stake.unbonding_epochs + 1
    assert leaving.until_epoch > stake.unlocking[SAVER][0].until_epoch


def test_a_profile_is_a_deposit_that_nothing_takes(bound: Bound) -> None:
    bound[TrustStake].set_profile(Signed(ALICE), b"alice", b"")
    (lock,) = [each for each in all_held(dev_apis(), state_of(bound), ALICE) if each.reason is PROFILE]
    assert (lock.part, lock.at_most) == (LockPart.WHOLE, 0)
    assert lock.amount > 0


# ------------------------------------------------------------------------------------------------ pages


def test_pages_join_without_a_gap_and_cost_what_they_show(bound: Bound, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks_api, "LOCKS_PER_PAGE", 3)
    for number in range(10):
        bound[Balances].hold(ALICE, Hold(TASK_DEPOSIT, number.to_bytes(32, "big")), 1 + number)
        bound[TrustStake].delegations[SAVER, number.to_bytes(32, "big")] = Position(shares=1, era=0, index=0)
    for number in range(2_000):
        bound[Balances].held_cases[number.to_bytes(32, "big"), Hold(TASK_DEPOSIT, bytes(32))] = 1
    apis, state = dev_apis(), state_of(bound)
    amounts = sorted(lock.amount for lock in all_held(apis, state, ALICE) if lock.reason is TASK_DEPOSIT)
    assert amounts == list(range(1, 11))
    assert sorted(lock.case for lock in all_entrusted(apis, state, SAVER)) == [n.to_bytes(32, "big") for n in range(10)]
    reads = CountingReader(state)
    page: HeldLocks = ask(apis, reads, "held", ALICE, None)
    assert len(page.locks) == 3
    assert page.more_behind is not None
    assert reads.reads < 40


def test_what_waits_is_on_the_first_page_alone(bound: Bound, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks_api, "LOCKS_PER_PAGE", 1)
    stake = bound[TrustStake]
    for number in range(3):
        stake.delegations[SAVER, number.to_bytes(32, "big")] = Position(shares=1, era=0, index=0)
    stake.unlocking[SAVER] = (Unlocking(ALICE, 7, 9),)
    found = all_entrusted(dev_apis(), state_of(bound), SAVER)
    assert [lock.part for lock in found].count(LockPart.LEAVING) == 1
    assert len(found) == 4


def test_who_has_nothing_locked_has_an_empty_page(bound: Bound) -> None:
    apis, state = dev_apis(), state_of(bound)
    assert all_held(apis, state, SAVER) == all_entrusted(apis, state, SAVER) == []
