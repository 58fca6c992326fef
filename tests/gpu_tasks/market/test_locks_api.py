"""What is said of locked money: of every reason, adding up to what is held, never "nothing" where something took it."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from counted_reads import CountingReader
from genesis import dev_accounts
from genesis.chain import APIS, DEVELOPMENT_PALLETS, PALLETS, apis_for, genesis_state, runtime_of
from genesis.presets import load_spec
from gpu_tasks.market import locks_api
from gpu_tasks.market.case_locks import TASK_RECORD, UNIT_RECORD
from gpu_tasks.market.locks_api import LOCK_TABLE, EntrustedLocks, HeldLocks, LocksApi
from gpu_tasks.market.training.tasks import TASK_DEPOSIT
from runtime.encoding.types import Signed
from runtime.frame.api import Apis
from runtime.frame.holds import Hold, HoldReason
from runtime.frame.runtime import Bound
from runtime.interface.locks import LOCK_WORDS_MAX, NOTHING_TAKES_IT, HeldMoney, Lock
from runtime.interface.stake_locks import DELEGATION, LEAVING, OWN_BOND, PROFILE_TERMS
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
    """Over the wire, so that what is too long or wrong does not encode."""
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


# ----------------------------------------------------------------------------------------------- no reason is forgotten


def test_every_reason_to_hold_money_has_its_row() -> None:
    """A new reason brings a row: what it is, until when, what could take it."""
    assert {str(reason) for reason in LOCK_TABLE} == {str(reason) for reason in REASONS}
    assert LocksApi in APIS


@pytest.mark.parametrize("reason", REASONS, ids=str)
def test_a_row_says_what_until_when_and_what_could_take_it(reason: HoldReason) -> None:
    """Also of a case of which the state knows nothing any more."""
    bound = runtime_of(SPEC).at(Memory(genesis_state(SPEC)))
    held = HeldMoney(ALICE, Hold(reason, ALICE), 7 * GRAINS)
    locks = LOCK_TABLE[reason](bound, held)
    assert locks
    for lock in locks:
        assert (lock.reason, lock.case) == (reason, ALICE)
        for words in (lock.what, lock.until, lock.taken_by):
            assert 10 < len(words.encode()) <= LOCK_WORDS_MAX
        assert lock.at_most == (0 if lock.taken_by == NOTHING_TAKES_IT else lock.amount)


# ------------------------------------------------------------------------------------------------ a chain of all calls


@pytest.mark.nightly
def test_over_a_lively_chain_the_page_adds_up_and_tells_no_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each account's locks are what it holds; who was told that nothing takes a deposit lost none of it."""
    taken: set[HoldReason] = set()
    pay_held = Balances.pay_held

    def watched(self: Balances, who: bytes, hold: Hold, shares: Sequence[tuple[bytes | None, int]]) -> None:
        if any(payee != who and amount for payee, amount in shares):
            taken.add(hold.reason)
        pay_held(self, who, hold, shares)

    monkeypatch.setattr(Balances, "pay_held", watched)
    season = Season(1, 0)
    apis, seen, dated = Apis(season.runtime, APIS), dict[HoldReason, Lock](), set[str]()

    def look() -> None:
        if season.height % 16:
            return
        bound, state = season.runtime.at(season.state), season.state
        for who, holds in bound[Balances].holds.items():
            locks = all_held(apis, state, who)
            for entry in holds:
                mine = [lock.amount for lock in locks if lock.reason is entry.id]
                # a slash that nobody has collected yet lies there still, and is its owner's no more
                assert sum(mine) == entry.amount or (entry.id is STAKE and sum(mine) < entry.amount)
            seen.update({lock.reason: lock for lock in locks})
            dated.update(lock.what for lock in locks if lock.until_block is not None)

    season.play(STEPS, look)
    unseen = {str(reason) for reason in REASONS} - {str(reason) for reason in seen}
    assert len(unseen) <= len(REASONS) // 3, f"the chain is too tame to show anything: {sorted(unseen)}"
    assert dated == {UNIT_RECORD.what, TASK_RECORD.what}
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


def told(locks: Iterable[Lock]) -> list[tuple[str, int, int | None]]:
    return [(lock.what, lock.amount // GRAINS, lock.until_epoch) for lock in locks]


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
    assert told(own) == [(OWN_BOND.what, 18, None), (LEAVING.what, 12, 6)]
    assert told(entrusted) == [(DELEGATION.what, 15, None), (LEAVING.what, 5, 6)]
    assert [lock.case for lock in (*own, *entrusted)] == [SAVER, SAVER, ALICE, ALICE]
    assert own[0].until == "until you unbond it, and 6 epochs after that"
    assert "until you unbond it" in all_held(apis, state, ALICE)[0].until + all_held(apis, state, ALICE)[1].until


def test_a_slash_that_waits_is_said_to_keep_everything(bound: Bound) -> None:
    rich(bound)
    stake = bound[TrustStake]
    stake.delegate(Signed(SAVER), ALICE, 20 * GRAINS)
    stake.undelegate(Signed(SAVER), ALICE, 5 * GRAINS)
    stake.frozen[ALICE] = 1
    untils = [lock.until for lock in all_entrusted(dev_apis(), state_of(bound), SAVER)]
    assert len(untils) == 2
    assert all("not before the slash that waits" in until for until in untils)


def test_what_waits_is_kept_by_each_validator_that_it_answers_for(bound: Bound) -> None:
    stake, before = bound[TrustStake], b"before".ljust(32, b"_")
    answers = (Liability(ALICE, 0, ()), Liability(before, 0, ()))
    stake.unlocking[SAVER] = (Unlocking(ALICE, 7 * GRAINS, 6, answers),)
    told_of = {"until you withdraw it, from that epoch on"}
    assert {lock.until for lock in all_entrusted(dev_apis(), state_of(bound), SAVER)} == told_of
    stake.factors[before] = (OffenceFactor(0, WHOLE // 2),)
    stake.tombstones[before] = 0
    (lock,) = all_entrusted(dev_apis(), state_of(bound), SAVER)
    assert "nobody can raise the slash" in lock.until, "it was taken, and may be raised"
    stake.frozen[before] = 1
    (lock,) = all_entrusted(dev_apis(), state_of(bound), SAVER)
    assert "not before the slash that waits" in lock.until


def test_a_slash_that_others_may_raise_keeps_what_waits_and_says_until_when(bound: Bound) -> None:
    rich(bound)
    stake = bound[TrustStake]
    stake.delegate(Signed(SAVER), ALICE, 20 * GRAINS)
    stake.undelegate(Signed(SAVER), ALICE, 5 * GRAINS)
    stake.factors[ALICE] = (OffenceFactor(0, WHOLE // 2),)
    stake.tombstones[ALICE] = 0
    _, leaving = all_entrusted(dev_apis(), state_of(bound), SAVER)
    assert "nobody can raise the slash" in leaving.until
    assert leaving.until_epoch == 1 + stake.unbonding_epochs + 1
    assert leaving.until_epoch > stake.unlocking[SAVER][0].until_epoch


def test_a_profile_is_a_deposit_that_nothing_takes(bound: Bound) -> None:
    bound[TrustStake].set_profile(Signed(ALICE), b"alice", b"")
    (lock,) = [each for each in all_held(dev_apis(), state_of(bound), ALICE) if each.reason is PROFILE]
    assert (lock.what, lock.at_most) == (PROFILE_TERMS.what, 0)
    assert lock.amount > 0


# ------------------------------------------------------------------------------------------------ pages


def test_pages_join_without_a_gap_and_cost_what_they_show(bound: Bound, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks_api, "LOCKS_PER_PAGE", 3)
    for number in range(10):
        bound[Balances].hold(ALICE, Hold(TASK_DEPOSIT, number.to_bytes(32, "big")), 1 + number)
        bound[TrustStake].positions[SAVER, number.to_bytes(32, "big")] = Position(shares=1, era=0, index=0)
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
        stake.positions[SAVER, number.to_bytes(32, "big")] = Position(shares=1, era=0, index=0)
    stake.unlocking[SAVER] = (Unlocking(ALICE, 7, 9),)
    found = all_entrusted(dev_apis(), state_of(bound), SAVER)
    assert [lock.what for lock in found].count(LEAVING.what) == 1
    assert len(found) == 4


def test_who_has_nothing_locked_has_an_empty_page(bound: Bound) -> None:
    apis, state = dev_apis(), state_of(bound)
    assert all_held(apis, state, SAVER) == all_entrusted(apis, state, SAVER) == []
