"""The first migration, on the state of a chain that the program before recorded: nobody has a grain more or less."""

import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from genesis.chain import runtime_of
from genesis.spec import from_json
from runtime.encoding.types import Signed
from runtime.frame.runtime import Bound
from runtime.frame.storage import StateCorrupted, storage_prefix
from runtime.frame.storage_version import migrate, version_key, version_value
from runtime.pallets.balances import Balances
from runtime.pallets.pots import RESERVE, STAKES, STAKING_REWARDS
from runtime.pallets.staking.holdings import earned_by, stake_of, value_now
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from runtime.state.overlay import Memory
from scripts.chains.hold_books import check_holds
from scripts.chains.stake_holds import check_stakes, stake_holds

RECORDED = Path(__file__).parents[3] / "vectors" / "stakes_version_0.json.z"
"""2,500 extrinsics by `scripts.replay.record` of the program that copied delegators, at five heights: what pallets of
the chain itself wrote since the height before, and what that program's `OgpuApi` said that every account had."""
HEIGHTS = (30, 78, 130, 202, 292)
POTS = {STAKING_REWARDS, RESERVE, STAKES}
Height = dict[str, Any]


@pytest.fixture(scope="module")
def recorded() -> dict[int, Height]:
    """By height: the whole state, and what each account had."""
    found, state = json.loads(zlib.decompress(RECORDED.read_bytes())), dict[bytes, bytes]()
    heights = {}
    for one in found["heights"]:
        changes = {bytes.fromhex(key): value for key, value in one["changes"].items()}
        state = {key: value for key, value in state.items() if key not in changes}
        state |= {key: bytes.fromhex(value) for key, value in changes.items() if value is not None}
        accounts = {bytes.fromhex(account): had for account, had in one["accounts"].items()}
        heights[one["height"]] = {"spec": found["spec"], "state": state, "accounts": accounts}
    return heights


def bound_at(one: Height) -> Bound:
    return runtime_of(from_json(one["spec"].encode())).at(Memory(one["state"]))


@pytest.fixture
def bound(recorded: dict[int, Height]) -> Bound:
    """The head."""
    return bound_at(recorded[HEIGHTS[-1]])


def has(bound: Bound, who: bytes) -> dict[str, int]:
    stake = bound[TrustStake]
    behind = [who, *(validator for validator, _ in stake.positions.under(who))]
    return {
        "free": bound[Balances].free_balance(who),
        "staked": sum(stake_of(stake, who, validator) for validator in behind),
        "waiting": sum(value_now(stake, chunk) for chunk in stake.unlocking[who]),
        "earned": sum(earned_by(stake, who, validator) for validator in behind),
    }


@pytest.mark.parametrize("height", HEIGHTS)
def test_everybody_has_what_it_had(recorded: dict[int, Height], height: int) -> None:
    accounts, bound = recorded[height]["accounts"], bound_at(recorded[height])
    issued, waiting = bound[Balances].total_issuance.get(), in_pots(bound)
    weight = migrate(bound.pallets)
    assert weight is not None
    assert weight.ref_time > 0
    assert everybody(bound) <= accounts.keys() | POTS, "of each account it was written down what it had"
    assert {who: has(bound, who) for who in accounts if who not in POTS} == {
        who: had for who, had in accounts.items() if who not in POTS
    }
    # What nobody had asked for lies in one pot, the rest in the other; together they are what they were.
    assert in_pots(bound) == waiting
    assert bound[Balances].free_balance(STAKING_REWARDS) >= sum(had["earned"] for had in accounts.values())
    assert bound[Balances].total_issuance.get() == issued
    check_holds(bound)
    check_stakes(bound)
    held = dict(bound[Balances].held_cases.items())
    assert all(held[who, hold] >= amount for who, hold, amount in stake_holds(bound))
    for gone in ("Stakes", "Backing", "DelegatorCount", "Claimed"):
        assert not list(bound.overlay.keys(storage_prefix("TrustStake", gone)))


def in_pots(bound: Bound) -> int:
    return sum(bound[Balances].free_balance(pot) for pot in (STAKING_REWARDS, RESERVE))


def everybody(bound: Bound) -> set[bytes]:
    """Who has an account, or stake, or stake on its way out, or something to claim."""
    stake = bound[TrustStake]
    stakers = {who for (who, _), _ in stake.positions.items()} | {who for who, _ in stake.bonds.items()}
    others = {who for who, _ in stake.unlocking.items()} | {who for who, _ in stake.earned.items()}
    return {who for who, _ in bound[System].account.items()} | stakers | others


def test_what_was_recorded_has_stakes_of_every_kind(recorded: dict[int, Height]) -> None:
    assert tuple(recorded) == HEIGHTS
    for kind in ("free", "staked", "waiting", "earned"):
        having = [sum(had[kind] > 0 for had in one["accounts"].values()) for one in recorded.values()]
        assert having[-1] > 3, kind
        assert sum(count > 0 for count in having) >= 3, "not at the head alone"


def test_it_is_done_once_and_what_came_of_it_goes_on(bound: Bound) -> None:
    migrate(bound.pallets)
    assert migrate(bound.pallets) is None
    stake = bound[TrustStake]
    claimed = [account for account, amount in stake.earned.items() if amount]
    assert claimed
    for account in claimed:
        bound.dispatch(TrustStake.claim(validator=account), Signed(account))
    for (delegator, validator), _ in list(stake.positions.items()):
        value = stake_of(stake, delegator, validator)
        bound.dispatch(TrustStake.undelegate(validator=validator, value=value), Signed(delegator))
    assert not list(stake.pools.keys())
    check_stakes(bound)
    assert all(info.sufficients <= 1 for _, info in bound[System].account.items())


def test_a_raise_that_waits_and_what_root_had_set_go_along(recorded: dict[int, Height]) -> None:
    """The program before stored who is paid for a raise, and the parts of a slash with the offences."""
    one = recorded[HEIGHTS[-1]]
    raised, reporter = (562_500).to_bytes(4, "little"), b"r" * 32
    old = {("TrustLock", "Raised"): raised + reporter, ("TrustLock", "SlashReporter"): (70_000).to_bytes(4, "little")}
    state = {**one["state"], **{storage_prefix(*item): value for item, value in old.items()}}
    runtime = runtime_of(from_json(one["spec"].encode()))
    bound = runtime.at(Memory(state))
    migrate(bound.pallets)
    changes = {**state, **bound.overlay.changes()}
    later = runtime.at(Memory({key: value for key, value in changes.items() if value is not None}))
    assert later[TrustLock].raised.get() == 562_500
    assert (later[TrustStake].slash_reporter, later[TrustStake].slash_treasury) == (70_000, 400_000)
    assert storage_prefix("TrustLock", "SlashReporter") not in {key for key, value in changes.items() if value}


def test_storage_of_a_newer_program_is_not_touched(bound: Bound) -> None:
    bound.overlay.store_raw(version_key("TrustStake"), version_value(3))
    with pytest.raises(StateCorrupted, match="of a newer program"):
        migrate(bound.pallets)


def test_a_pallet_says_what_becomes_of_older_storage(bound: Bound) -> None:
    with pytest.raises(NotImplementedError, match="nothing leads from storage version 0"):
        bound[System].migrate(0)
