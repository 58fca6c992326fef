"""Validators by their own names: where that is safe, and refused with those that there are elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.wallet.validator_names import NAMED_MAX, alike, name_text, named
from error_codes import ended_code
from genesis import dev_accounts
from runtime.cryptography import ss58
from wallet.suri import keypair_from_suri
from wallet_runner import answer, chain, said, wallet

A, B, C = (bytes([number]) * 32 for number in (1, 2, 3))
WIDE = "\N{FULLWIDTH LATIN SMALL LETTER B}ob"
NAMES = {A: "Alice & sons", B: "bob", C: ""}
ALICE = ss58.encode(dev_accounts.stash("Alice"))
KINDS = (dev_accounts.SESSION, dev_accounts.VRF, dev_accounts.PROVIDER)
IDLE = "cannot be elected"
BOB = ss58.encode(keypair_from_suri("//Bob").account)


@pytest.mark.parametrize(("typed", "found"), [("bob", B), ("BOB", B), (" alice &  SONS ", A), (WIDE, B)])
def test_a_name_of_one_is_its_account(typed: str, found: bytes) -> None:
    assert named(typed, NAMES) == found


@pytest.mark.parametrize(
    ("typed", "names", "words"),
    [
        (
            "carol",
            NAMES,
            ("bob " + ss58.encode(B), "Alice & sons " + ss58.encode(A)),
        ),
        ("", NAMES, ("bob", "Alice & sons")),
        ("bob", {A: "Bob", B: "bob"}, ("2 validators", ss58.encode(A), ss58.encode(B))),
        ("bob", {A: WIDE, B: "bob"}, ("2 validators",)),
        ("bob", {C: ""}, ("No validator",)),
        ("bob", {}, ("No validator",)),
    ],
)
def test_a_name_of_none_or_several_is_refused_with_those_that_there_are(
    typed: str, names: dict[bytes, str], words: tuple[str, ...]
) -> None:
    told = named(typed, names)
    assert isinstance(told, str)
    assert all(word in told for word in words), told


def test_a_long_list_is_cut() -> None:
    names = {bytes([number]) * 32: f"name {number}" for number in range(20)}
    told = named("nobody", names)
    assert isinstance(told, str)
    assert told.count("name ") == NAMED_MAX
    assert "and 12 more (`candidates`)" in told


def test_what_a_name_is_to_a_reader() -> None:
    assert name_text(b" Alice\x1b[2J\n ") == "Alice [2J"
    assert name_text(b"Alice\nerror: use\n\tmine") == "Alice error: use mine"
    assert name_text(b"\xff") == "\N{REPLACEMENT CHARACTER}"
    assert alike(f"{WIDE}  AL") == alike("bob al")


def test_money_goes_behind_a_name_only_where_somebody_looks(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        answer(wallet(tmp_path, url, "profile", "Alice & sons", "--key", "//Alice", "--yes"))
        to_name = ("delegate", "alice & SONS", "50", "--key", "//Bob")
        unseen = wallet(tmp_path, url, *to_name, "--yes")
        assert (unseen.exit_code, ended_code(unseen)) == (2, "name_unchecked")
        planned = wallet(tmp_path, url, *to_name, "--dry-run")
        assert answer(planned)["validator"] == ALICE
        assert any(ALICE in note for note in said(planned, "note"))
        assert answer(wallet(tmp_path, url, *to_name, typed="y\n", attended=True))["success"]
        moved = ("redelegate", ALICE, "alice & sons", "10", "--key", "//Bob")
        assert ended_code(wallet(tmp_path, url, *moved, "--yes")) == "name_unchecked"
        taken = wallet(tmp_path, url, "undelegate", "alice & sons", "10", "--key", "//Bob", "--yes")
        assert answer(taken)["success"], "who chose a validator before means that one"
        nobodys = wallet(tmp_path, url, "undelegate", "alice & sons", "10", "--key", "//Ferdie", "--dry-run")
        assert (nobodys.exit_code, ended_code(nobodys)) == (2, "unknown_validator")
        rows = answer(wallet(tmp_path, url, "stakes", "//Bob"))
        assert {row["name"] for row in rows if row["kind"] == "delegation"} == {"Alice & sons"}


def test_who_offers_no_more_is_left_by_its_name_and_its_delegators_are_told(tmp_path: Path) -> None:
    keys = ("//Bob", "0x" + dev_accounts.key("Bob", dev_accounts.PROVIDER).hex())
    with chain(tmp_path) as url:
        for words in (("stake", "20"), ("validate", *keys), ("profile", "Bob & sons")):
            assert answer(wallet(tmp_path, url, *words, "--key", "//Bob", "--yes"))["success"], words
        assert answer(wallet(tmp_path, url, "delegate", BOB, "5", "--key", "//Ferdie", "--yes"))["success"]
        assert not any(IDLE in told for told in said(wallet(tmp_path, url, "stakes", "//Ferdie"), "note"))
        assert answer(wallet(tmp_path, url, "chill", "--key", "//Bob", "--yes"))["success"]
        told = said(wallet(tmp_path, url, "stakes", "//Ferdie"), "note")
        assert any(f"{BOB} {IDLE}" in note and "`redelegate`" in note for note in told)
        assert not any(IDLE in note for note in said(wallet(tmp_path, url, "stakes", "//Bob"), "note"))
        left = wallet(tmp_path, url, "undelegate", "bob & SONS", "all", "--key", "//Ferdie", "--yes")
        assert answer(left)["success"]
