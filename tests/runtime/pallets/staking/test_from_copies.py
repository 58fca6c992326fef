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
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from runtime.state.overlay import Memory
from scripts.chains.hold_books import check_holds
from scripts.chains.stake_holds import check_stakes, stake_holds

RECORDED = Path(__file__).parents[3] / "vectors" / "stakes_version_0.json.z"
"""2,500 extrinsics by `scripts.replay.record` of the program that copied delegators, and what each account had."""


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(zlib.decompress(RECORDED.read_bytes()))
    return found


@pytest.fixture
def bound(recorded: dict[str, Any]) -> Bound:
    state = {bytes.fromhex(key): bytes.fromhex(value) for key, value in recorded["state"].items()}
    return runtime_of(from_json(recorded["spec"].encode())).at(Memory(state))


def has(bound: Bound, who: bytes) -> dict[str, int]:
    stake = bound[TrustStake]
    behind = [who, *(validator for validator, _ in stake.positions.under(who))]
    return {
        "free": bound[Balances].free_balance(who),
        "staked": sum(stake_of(stake, who, validator) for validator in behind),
        "waiting": sum(value_now(stake, chunk) for chunk in stake.unlocking[who]),
        "earned": sum(earned_by(stake, who, validator) for validator in behind),
    }


def test_everybody_has_what_it_had(bound: Bound, recorded: dict[str, Any]) -> None:
    issued = bound[Balances].total_issuance.get()
    weight = migrate(bound.pallets)
    assert weight is not None
    assert weight.ref_time > 0
    pots = {STAKING_REWARDS, RESERVE, STAKES}
    for account, had in recorded["accounts"].items():
        who = bytes.fromhex(account)
        if who not in pots:
            assert has(bound, who) == had, account
    assert sum(had["staked"] for had in recorded["accounts"].values()) > 0
    assert sum(had["waiting"] for had in recorded["accounts"].values()) > 0
    assert bound[Balances].total_issuance.get() == issued
    check_holds(bound)
    check_stakes(bound)
    held = dict(bound[Balances].held_cases.items())
    assert all(held[who, hold] >= amount for who, hold, amount in stake_holds(bound))
    for gone in ("Stakes", "Backing", "DelegatorCount", "Claimed"):
        assert not list(bound.overlay.keys(storage_prefix("TrustStake", gone)))


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


def test_storage_of_a_newer_program_is_not_touched(bound: Bound) -> None:
    bound.overlay.store_raw(version_key("TrustStake"), version_value(2))
    with pytest.raises(StateCorrupted, match="of a newer program"):
        migrate(bound.pallets)


def test_a_pallet_says_what_becomes_of_older_storage(bound: Bound) -> None:
    with pytest.raises(NotImplementedError, match="nothing leads from storage version 0"):
        bound[System].migrate(0)
