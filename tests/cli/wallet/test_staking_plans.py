"""Plans of the stake commands before sending: accounts, amounts, times of unlocking and risks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli import calls
from cli.wallet import rewards
from cli.wallet.rewards import CLAIMS_PER_BATCH
from cli.wallet.validators_table import OUTLOOKS
from error_codes import ended_code
from genesis import dev_accounts
from planted_state import chain_with
from runtime.cryptography import ss58
from runtime.encoding.types import GRAINS_PER_OGPU as OGPU
from runtime.encoding.types import Signed
from runtime.frame.runtime import Bound
from runtime.interface.staking_api import PendingReward
from runtime.pallets.balances import Balances
from runtime.pallets.pots import STAKING_REWARDS
from runtime.pallets.staking.stakers import NAME_BYTES_MAX, WEB_BYTES_MAX, Why
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.trial import TrialError
from wallet_runner import answer, chain, said, wallet

ALICE, BOB = (ss58.encode(dev_accounts.stash(name)) for name in ("Alice", "Bob"))
KEYS = ["0x" + dev_accounts.key("Bob", role).hex() for role in (dev_accounts.SESSION, dev_accounts.VRF, "provider")]
JOINED = {
    "earns_from": "era 1 (epoch 1, about ",
    "free_if_unstaked_now": "epoch 6, about ",
    "now": "epoch 0 of era 0, ",
}
LEFT = {"free": "epoch 6, about ", "now": "epoch 0 of era 0, "}
Facts = dict[str, Any]


def shown(value: Any) -> str:
    """A fact as a test names it: amounts in oGPU."""
    return value["ogpu"] if isinstance(value, dict) else str(value)


def check(facts: Facts, wanted: dict[str, str]) -> None:
    for name, text in wanted.items():
        assert shown(facts[name]).startswith(text), (name, facts)


PLANS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "stake": (
        ("stake", "20", "--key", "//Ferdie"),
        {"amount": "20", "bond_afterwards": "20", "validator_bond_min": "10", "can_go_wrong": "an offence", **JOINED},
    ),
    "more stake": (("stake", "5", "--key", "//Bob"), {"amount": "5", "bond_afterwards": "25", **JOINED}),
    "delegate": (
        ("delegate", "//Alice", "7", "--key", "//Bob"),
        {
            "validator": ALICE, "amount": "7", "behind_it_afterwards": "57", "delegation_min": "1", "commission": "5 %",
            "can_go_wrong": "an offence", **JOINED,
        },
    ),
    "undelegate": (
        ("undelegate", "//Alice", "10", "--key", "//Bob"),
        {"validator": ALICE, "takes_back": "10", "left_behind": "40", "can_go_wrong": "it earns nothing", **LEFT},
    ),
    "undelegate all": (
        ("undelegate", "//Alice", "all", "--key", "//Bob"), {"takes_back": "50", "left_behind": "0", **LEFT}
    ),
    "unstake of a delegation": (
        ("unstake", "all", "--validator", "//Alice", "--key", "//Bob"), {"takes_back": "50", "validator": ALICE}
    ),
    "unstake": (
        ("unstake", "4", "--key", "//Bob"), {"takes_back": "4", "bond_afterwards": "16", "can_go_wrong": "an", **LEFT}
    ),
    "redelegate": (
        ("redelegate", "//Alice", "//Bob", "20", "--key", "//Charlie"),
        {
            "from_behind": ALICE, "behind": BOB, "amount": "20", "left_behind": "10", "behind_it_afterwards": "20",
            "can_go_wrong": "offences of both", **JOINED,
        },
    ),
    "redelegate all": (
        ("redelegate", "//Alice", "//Bob", "all", "--key", "//Charlie"), {"amount": "30", "left_behind": "0"}
    ),
    "commission": (
        ("commission", "5.5", "--key", "//Bob"),
        {
            "commission_now": "5 %", "commission_then": "5.5 %", "holds_from": "era 2 (epoch 2, about ",
            "commission_min": "5 %", "commission_step": "1 %", "now": "epoch 0",
        },
    ),
    "profile": (
        ("profile", "Bob", "https://bob.example", "--key", "//Bob"),
        {"name": "Bob", "web": "https://bob.example", "deposit": "0.1", "now": "epoch 0"},
    ),
    "validate": (
        ("validate", "//Bob", KEYS[2], "--key", "//Bob"),
        {
            "session_key": KEYS[0], "vrf_key": KEYS[1], "provider_key": KEYS[2], "commission": "5 %", "bond": "20",
            "commission_min": "5 %", "validator_bond_min": "10", "may_sit_from": "era 2 (", "now": "epoch 0",
        },
    ),
    "chill": (
        ("chill", "--key", "//Bob"),
        {"bond": "20", "behind_you": "0 delegators", "no_seat_from": "era 2 (epoch 2, about ", "now": "epoch 0"},
    ),
}  # fmt: skip
REFUSALS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "leave too little": (
        ("undelegate", "//Alice", "49.5", "--key", "//Bob"),
        (f"your stake behind {ALICE} would be 0.5 oGPU", "the least is 1 oGPU (delegation_min)", "all 50 oGPU"),
    ),
    "delegate too little": (("delegate", "//Alice", "0.25", "--key", "//Ferdie"), ("add 0.75 oGPU",)),
    "a commission too far": (("commission", "7", "--key", "//Bob"), ("from 5 % to 6 %",)),
    "a commission of nothing": (("commission", "4", "--key", "//Bob"), ("4 % is below the least, 5 %",)),
    "a candidate takes too much": (("unstake", "15", "--key", "//Bob"), ("take at most 10 oGPU",)),
    "all of a candidate": (("unstake", "all", "--key", "//Bob"), ("would be 0 oGPU", "`chill` first")),
    "too early": (("withdraw", "--key", "//Charlie"), ("5 oGPU are from epoch 6 on, it is epoch 0 now",)),
    "nothing there": (("profile", "--clear", "--key", "//Bob"), ("would hold 0.1 oGPU",)),
}


@pytest.fixture(scope="module")
def staked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Bob has 50 behind Alice and a bond of 20, and offers; Charlie has 30 behind Alice, and 5 on their way out."""
    folder = tmp_path_factory.mktemp("staked")
    with chain(folder) as url:
        for words in (
            ("delegate", "//Alice", "50", "--key", "//Bob"),
            ("stake", "20", "--key", "//Bob"),
            ("validate", "//Bob", KEYS[2], "--key", "//Bob"),
            ("delegate", "//Alice", "35", "--key", "//Charlie"),
            ("undelegate", "//Alice", "5", "--key", "//Charlie"),
        ):
            answer(wallet(folder, url, *words, "--yes"))
        yield folder, url


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_shows_who_how_much_when_and_what_can_go_wrong(staked: tuple[Path, str], name: str) -> None:
    folder, url = staked
    words, wanted = PLANS[name]
    facts = answer(wallet(folder, url, *words, "--dry-run"))
    check(facts, wanted)
    assert (facts["refused"], facts["sent"]) == (None, False)
    assert int(facts["fee"]["grains"]) > 0
    assert facts["now"].endswith(" UTC")


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_names_the_number(staked: tuple[Path, str], name: str) -> None:
    folder, url = staked
    words, wanted = REFUSALS[name]
    result = wallet(folder, url, *words, "--yes")
    assert result.exit_code == 1, result.output
    (error,) = said(result, "error")
    assert all(text in error for text in wanted), error


MISTAKES = {
    "both": (("rewards", "//Bob", "--claim", "--compound"), "usage"),
    "nothing to claim": (("rewards", "//Bob", "--claim", "--yes"), "nothing_to_claim"),
    "no name": (("profile", "--key", "//Bob", "--yes"), "usage"),
    "name and clear": (("profile", "Bob", "--clear", "--key", "//Bob", "--yes"), "usage"),
    "a long name": (("profile", "ä" * 17, "--key", "//Bob", "--yes"), "too_long"),
    "a long address": (("profile", "", "w" * 97, "--key", "//Bob", "--yes"), "too_long"),
    "no part": (("commission", "5,5", "--key", "//Bob", "--yes"), "bad_parameter"),
    "more than all": (("commission", "100.0001", "--key", "//Bob", "--yes"), "bad_parameter"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_a_sentence(staked: tuple[Path, str], name: str) -> None:
    folder, url = staked
    words, wanted = MISTAKES[name]
    result = wallet(folder, url, *words)
    assert (result.exit_code, ended_code(result)) == (2, wanted)


def test_the_longest_name_and_web_address_are_taken(staked: tuple[Path, str]) -> None:
    folder, url = staked
    name, web = "ä" * (NAME_BYTES_MAX // 2), "https://".ljust(WEB_BYTES_MAX, "w")
    facts = answer(wallet(folder, url, "profile", name, web, "--key", "//Alice", "--dry-run"))
    assert (facts["name"], facts["web"], facts["refused"]) == (name, web, None)


def test_a_part_on_its_way_out_has_its_epoch_and_its_date(staked: tuple[Path, str]) -> None:
    folder, url = staked
    result = wallet(folder, url, "stakes", "//Charlie")
    (row,) = [row for row in answer(result) if row["kind"] == "unstaking"]
    assert (row["amount"]["ogpu"], row["until_epoch"], row["slash_waits"]) == ("5", 6, False)
    assert row["free"].startswith("about 2023-")
    assert any("epoch 0 of era 0" in note for note in said(result, "note"))
    waits = json.loads(wallet(folder, url, "withdraw", "--key", "//Charlie", "--dry-run").stdout)
    assert waits["waits"].startswith(f"5 oGPU from behind {ALICE}: epoch 6, about 2023-")


def test_tables_of_validators_and_candidates(staked: tuple[Path, str]) -> None:
    folder, url = staked
    result = wallet(folder, url, "validators")
    (alice,) = answer(result)
    assert (alice["stash"], alice["own"]["ogpu"], alice["total"]["ogpu"]) == (ALICE, "10000", "10080")
    assert (alice["commission"], alice["return_a_year"], alice["slashes_taken"]) == ("5 %", None, 0)
    assert any(" eras at " in note for note in said(result, "note"))
    offers = {row["stash"]: row for row in answer(wallet(folder, url, "candidates"))}
    assert set(offers) == {ALICE, BOB}
    assert (offers[BOB]["elected"], offers[BOB]["to_be_elected"]) == (False, None), "it is off line: no stake helps"
    assert offers[BOB]["session_key"] == KEYS[0]
    assert (offers[ALICE]["elected"], offers[ALICE]["to_be_elected"]) == (True, None)
    assert (offers[ALICE]["outlook"], offers[ALICE]["weight"]["ogpu"]) == ("off line, must stay for now", "10000")
    assert (offers[BOB]["outlook"], offers[BOB]["weight"]["ogpu"]) == ("off line", "0"), "this chain has seen no node"
    assert set(OUTLOOKS) == set(Why), "each has words"


def test_the_history_of_an_account(staked: tuple[Path, str]) -> None:
    folder, url = staked
    result = wallet(folder, url, "history", "//Charlie")
    rows = answer(result)
    assert [(row["what"], row["amount"]["ogpu"], row["behind"]) for row in rows] == [
        ("delegated", "35", ALICE),
        ("began to leave", "5", ALICE),
    ]
    assert {row["shown_by"] for row in rows} == {"proof"}
    assert rows[1]["more"] == "free from epoch 6 on"
    assert any(note.startswith("blocks 1 to ") for note in said(result, "note"))
    last = answer(wallet(folder, url, "history", "//Charlie", "--blocks", "1"))
    assert [row["what"] for row in last] == ["began to leave"]
    believed = answer(wallet(folder, url, "--trust-node", "history", "//Charlie"))
    assert {row["shown_by"] for row in believed} == {"the node's word"}


def test_the_history_follows_a_validator_while_stake_is_on_its_way_out(tmp_path: Path) -> None:
    """Dave bears the slashes of Alice until he withdraws, so his history shows what she does."""
    with chain(tmp_path) as url:
        for words in (
            ("delegate", "//Alice", "5", "--key", "//Dave"),
            ("undelegate", "//Alice", "all", "--key", "//Dave"),
            ("commission", "5.5", "--key", "//Alice"),
        ):
            answer(wallet(tmp_path, url, *words, "--yes"))
        last = answer(wallet(tmp_path, url, "history", "//Dave", "--blocks", "1"))
        assert [(row["what"], row["behind"]) for row in last] == [("announced a commission", ALICE)]
        assert answer(wallet(tmp_path, url, "history", "//Ferdie", "--blocks", "1")) == []


def test_many_rewards_are_claimed_in_two_goes(staked: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, url = staked
    pending = tuple(PendingReward(bytes([number]) * 32, OGPU * (1 + number)) for number in range(CLAIMS_PER_BATCH + 2))

    async def all_of_them(*_: Any) -> tuple[PendingReward, ...]:
        return pending

    monkeypatch.setattr(rewards, "_unpaid", all_of_them)
    for how in ("--claim", "--compound"):
        facts = json.loads(wallet(folder, url, "rewards", "//Bob", how, "--dry-run").stdout)
        assert facts["call"] == "Utility.batch_all"
        assert facts["claims"]["ogpu"] == str(sum(range(1, CLAIMS_PER_BATCH + 1)))
        assert facts["left_for_a_second_time"]["ogpu"] == str(33 + 34)
        assert len(facts["earned_with"].splitlines()) == CLAIMS_PER_BATCH
        assert ("can_go_wrong" in facts, "free_if_unstaked_now" in facts) == ((how == "--compound"),) * 2
        assert "earned 0 with" in facts["refused"]
    rows = answer(wallet(folder, url, "rewards", "//Bob"))
    assert len(rows) == len(pending)
    monkeypatch.setattr(rewards, "CLAIMS_PER_BATCH", len(pending))
    assert "left_for_a_second_time" not in json.loads(
        wallet(folder, url, "rewards", "//Bob", "--claim", "--dry-run").stdout
    )


def ripe(bound: Bound) -> None:
    """Alice earned 3 oGPU, and 5 oGPU of Bob's may be withdrawn."""
    bob, stake = dev_accounts.stash("Bob"), bound[TrustStake]
    for call in (
        TrustStake.bond(value=60 * OGPU),
        TrustStake.unbond(value=5 * OGPU),
        Balances.transfer_keep_alive(dest=STAKING_REWARDS, value=3 * OGPU),
    ):
        bound.dispatch(call, Signed(bob))
    stake.unlocking[bob] = tuple(replace(chunk, until_epoch=0, answers=()) for chunk in stake.unlocking[bob])
    stake.pending_rewards[dev_accounts.stash("Alice")] = 3 * OGPU


def test_what_was_paid_is_shown_at_the_end_whatever_was_shown_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def before_the_era_ended(*_: Any) -> tuple[PendingReward, ...]:
        return (PendingReward(dev_accounts.stash("Alice"), OGPU),)

    monkeypatch.setattr(rewards, "_unpaid", before_the_era_ended)
    with chain_with(tmp_path, ripe) as url:
        assert answer(wallet(tmp_path, url, "rewards", "//Alice", "--claim", "--yes"))["claimed"]["ogpu"] == "3"
        planned = answer(wallet(tmp_path, url, "withdraw", "--key", "//Bob", "--dry-run"))
        done = answer(wallet(tmp_path, url, "withdraw", "--key", "//Bob", "--yes"))
        assert (planned["frees"]["ogpu"], done["freed"]["ogpu"]) == ("5", "5")
        assert planned["fee"] == planned["total"] == done["fee"]


def test_a_fee_that_could_not_be_tried_is_called_the_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def untried(*_: object) -> None:
        raise TrialError("the node has no state")

    monkeypatch.setattr(calls, "attempt", untried)
    with chain_with(tmp_path, ripe) as url:
        result = wallet(tmp_path, url, "withdraw", "--key", "//Bob", "--dry-run")
        done = answer(wallet(tmp_path, url, "withdraw", "--key", "//Bob", "--yes"))
        assert int(answer(result)["fee"]["grains"]) > int(done["fee"]["grains"])
        assert any("the most" in note for note in said(result, "note"))
