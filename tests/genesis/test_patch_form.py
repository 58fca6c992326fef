"""Inconsistent specifications: each raises a SpecError that names the field."""

import copy
import json
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genesis import patch_form
from genesis.chain import genesis_state
from genesis.presets import load_spec, raw_spec
from genesis.spec import SpecError, from_json, to_json
from runtime.cryptography import ss58
from runtime.pallets.pots import RESERVE

LOCAL: dict[str, Any] = json.loads(to_json(load_spec("local")))
RAW: dict[str, Any] = json.loads(to_json(raw_spec(load_spec("local"))))
ACCOUNTS = "0x26aa394eea5630e07c48ae0c9558cef7b99d880ec681799c0cf30e8886371da9"

Patch = dict[str, Any]
Change = Callable[[Patch], object]


def patched(change: Change) -> bytes:
    spec = copy.deepcopy(LOCAL)
    change(spec["genesis"]["runtimeGenesis"]["patch"])
    return json.dumps(spec).encode()


def validator(patch: Patch, place: int = 0) -> Patch:
    found: Patch = patch["trustStake"]["validators"][place]
    return found


CHANGES: dict[str, tuple[Change, str]] = {
    "no validators": (lambda p: p["trustStake"].update(validators=[]), "validators is empty"),
    "no stake": (lambda p: p.pop("trustStake"), "patch.trustStake is missing"),
    "no seed": (lambda p: p.pop("beacon"), "patch.beacon is missing"),
    "validator twice": (lambda p: p["trustStake"]["validators"].append(validator(p)), "listed twice"),
    "key of another": (lambda p: validator(p, 1).update(vrf_key=validator(p)["vrf_key"]), "vrf_key: KeyTaken"),
    "key of small order": (
        lambda p: validator(p).update(session_key="0x" + "00" * 32),
        "session_key.*ed25519.*UnsafeKey",
    ),
    "mistyped field": (lambda p: validator(p).update(comission_ppm=1), r"validators\[0\].comission_ppm is unknown"),
    "field left out": (lambda p: validator(p).pop("bond"), r"validators\[0\].bond is missing"),
    "number as text": (lambda p: validator(p).update(bond="10"), r"bond must be an integer"),
    "negative": (lambda p: validator(p).update(bond=-1), r"bond must be an integer"),
    "truth as number": (lambda p: p["balances"]["balances"][0].__setitem__(1, True), r"balances\[0\]\[1\] must be"),
    "too large": (lambda p: p["balances"]["balances"][0].__setitem__(1, 2**128), r"balances\[0\]\[1\] must be"),
    "three of two": (lambda p: p["balances"]["balances"][0].append(1), r"balances\[0\] must be"),
    "account twice": (lambda p: p["balances"]["balances"].append(p["balances"]["balances"][0]), "named twice"),
    "money missing": (lambda p: p["balances"]["balances"].pop(5), f"inconsistent|{ss58.encode(RESERVE)}"),
    "too much money": (
        lambda p: p["balances"]["balances"].append([ss58.encode(b"n" * 32), 10**9]),
        f"1,000,000,000 more than the cap.*{ss58.encode(RESERVE)}",
    ),
    "bond of the poor": (lambda p: validator(p).update(bond=10**16), "validator 5\\w*: FundsUnavailable"),
    "device of the poor": (lambda p: p["devices"]["devices"][0].update(bond=10**16), "of 5\\w*: FundsUnavailable"),
    "short hash": (lambda p: p["beacon"].update(seed="0x00"), "beacon.seed"),
    "kind of device": (lambda p: p["devices"]["devices"][0].update(kind="tpu"), r"devices\[0\].kind must be one of"),
    "device twice": (
        lambda p: p["devices"]["devices"].append(p["devices"]["devices"][0]),
        "device of 5\\w*: DeviceKnown",
    ),
    "endless commit window": (
        lambda p: p["inferenceMarket"]["services"][0].update(commit_window=601),
        "of 5\\w*: UnsoundTerms",
    ),
    "offer of nothing": (lambda p: p["inferenceMarket"]["offers"][0].update(service=9), "device or service"),
    "nobody's key": (lambda p: p["sudo"].update(key=None), "sudo.key must be an address"),
    "no such pallet": (lambda p: p.update(staking={}), r"patch\.staking: no such"),
    "nothing to configure": (lambda p: p.update(utility={"x": 1}), "utility must be empty"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_wrong_is_named(name: str) -> None:
    change, message = CHANGES[name]
    with pytest.raises(SpecError, match=message):
        genesis_state(from_json(patched(change)))


def test_a_live_chain_says_why_it_has_no_sudo() -> None:
    spec = copy.deepcopy(LOCAL) | {"chainType": "Live"}
    with pytest.raises(SpecError, match=r"patch\.sudo: .* no Root"):
        genesis_state(from_json(json.dumps(spec).encode()))


@pytest.mark.parametrize("entries", [patch_form.LIST_LENGTH_MAX + 1, 10 * patch_form.LIST_LENGTH_MAX])
def test_a_list_that_is_too_long_is_said_to_be_that_and_not_printed(entries: int) -> None:
    """P5: the message was "must be a list, not [[..."."""
    listed = [None] * entries
    with pytest.raises(SpecError) as refused:
        patch_form.PALLETS["balances"]({"balances": listed}, "patch.balances")
    assert f"balances has {entries:,} entries" in str(refused.value)
    assert str(refused.value).endswith("1,000,000")


@pytest.mark.parametrize(("value", "said"), [({"a": 1}, "not dict of 1"), ("x" * 10_000, "not 'xxx")])
def test_what_stands_in_a_lists_place_is_said_in_few_words(value: Any, said: str) -> None:
    with pytest.raises(SpecError, match=said) as refused:
        patch_form.PALLETS["balances"]({"balances": value}, "patch.balances")
    assert len(str(refused.value)) < 150


RAW_CHANGES: dict[str, tuple[Change, str]] = {
    "empty": (lambda top: top.clear(), "cap"),
    "an account left out": (lambda top: top.pop(first_account(top)), "accounts hold"),
    "an account cut": (lambda top: top.update({first_account(top): "0x01"}), "damaged"),
    "a byte too many": (lambda top: top.update({first_account(top): top[first_account(top)] + "00"}), "damaged"),
}


def first_account(top: Patch) -> str:
    return next(key for key in top if key.startswith(ACCOUNTS))


@pytest.mark.parametrize("name", RAW_CHANGES)
def test_a_damaged_state_is_refused(name: str) -> None:
    change, message = RAW_CHANGES[name]
    spec = copy.deepcopy(RAW)
    change(spec["genesis"]["raw"]["top"])
    with pytest.raises(SpecError, match=message):
        genesis_state(from_json(json.dumps(spec).encode()))


JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2**64, 2**128, 10**40, "", "0x", "0x00", "x" * 300, "0x" + "ff" * 32, "cpu", "\ud800", "1e3",
    [], {}, [[]], [{}], {"a": 1}, [1, 2, 3],
)  # fmt: skip


def holders(value: Any) -> list[Any]:
    """Yield every list and object inside."""
    if not isinstance(value, dict | list):
        return []
    found = [value]
    for item in value.values() if isinstance(value, dict) else value:
        found += holders(item)
    return found


def spoil(spec: Any, chance: random.Random) -> None:
    """Replace, remove or add a value at a random place."""
    holder = chance.choice([candidate for candidate in holders(spec) if candidate])
    place = chance.choice(list(holder) if isinstance(holder, dict) else list(range(len(holder))))
    action = chance.randrange(5)
    if action == 0:
        del holder[place]
    elif action == 1 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[place]))
    elif action == 1:
        holder["extra"] = 1
    else:
        holder[place] = copy.deepcopy(chance.choice(JUNK))


@given(st.sampled_from([LOCAL, RAW]), st.randoms(use_true_random=False), st.integers(1, 2))
def test_anything_is_a_chain_or_a_spec_error(whole: Any, chance: random.Random, times: int) -> None:
    spec = copy.deepcopy(whole)
    for _ in range(times):
        spoil(spec, chance)
    with suppress(SpecError):
        assert genesis_state(from_json(json.dumps(spec).encode()))
