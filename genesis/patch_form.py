"""The form of each pallet's configuration in a specification: its fields, their types, and the required ones.

Invariant: a patch that passes has only known fields, and every value has its type and range. Any error names the field
by its path. The pallets themselves check whether values fit together (such as a bond that its owner can pay).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from genesis.spec import Patch, SpecError, SpecJson
from gpu_tasks.market.devices.records import QUEUE_MAX
from runtime.cryptography.ss58 import account_from_text

GRAINS_MAX = (1 << 128) - 1
U32_MAX = (1 << 32) - 1
PPM = 1_000_000
LIST_LENGTH_MAX = 1_000_000
TEXT_LENGTH_MAX = 256

Form = Callable[[SpecJson, str], None]
"""Checks a value at a path, such as `patch.balances.balances[3]`. Raises SpecError if it does not fit."""


def check_patch(patch: Patch) -> None:
    """Raise SpecError unless every pallet's configuration has its form."""
    for name in NEEDED:
        if name not in patch:
            raise SpecError(f"patch.{name} is missing")
    for pallet, config in patch.items():
        form = PALLETS.get(pallet)
        if form is None and config:
            raise SpecError(f"patch.{pallet} must be empty: this pallet has no configuration")
        if form is not None:
            form(config, f"patch.{pallet}")
    if not patch["trustStake"]["validators"]:
        raise SpecError("patch.trustStake.validators is empty. A chain needs at least one validator.")


def _refuse(json_path: str, requirement: str, value: SpecJson) -> NoReturn:
    # The value may have millions of parts, so only its kind and length are shown.
    value_text = f"{type(value).__name__} of {len(value):,}" if isinstance(value, list | dict) else f"{value!r:.80}"
    raise SpecError(f"{json_path} must be {requirement}, not {value_text}")


def _number(lowest: int, highest: int) -> Form:
    def check(value: SpecJson, json_path: str) -> None:
        # JSON's `true` is an int to isinstance, and would count as one grain.
        if type(value) is not int or not lowest <= value <= highest:
            _refuse(json_path, f"an integer from {lowest} to {highest}", value)

    return check


def _account(value: SpecJson, json_path: str) -> None:
    try:
        if isinstance(value, str):
            account_from_text(value)
            return
    except ValueError as error:
        raise SpecError(f"{json_path}: {error}") from error
    _refuse(json_path, "an address, or 0x and 64 hex digits", value)


def _hash(value: SpecJson, json_path: str) -> None:
    if not isinstance(value, str) or not value.startswith("0x"):
        _refuse(json_path, "0x and 64 hex digits", value)
    _account(value, json_path)


def _text(value: SpecJson, json_path: str) -> None:
    if not isinstance(value, str) or len(value) > TEXT_LENGTH_MAX or not value.isascii():
        _refuse(json_path, f"a text of at most {TEXT_LENGTH_MAX} ASCII characters", value)


def _word(*words: str) -> Form:
    def check(value: SpecJson, json_path: str) -> None:
        if value not in words:
            _refuse(json_path, "one of " + ", ".join(words), value)

    return check


def _list_of(form: Form) -> Form:
    def check(value: SpecJson, json_path: str) -> None:
        if not isinstance(value, list):
            _refuse(json_path, "a list", value)
        # Before the items, each of which costs a check.
        if len(value) > LIST_LENGTH_MAX:
            raise SpecError(f"{json_path} has {len(value):,} entries, more than the limit of {LIST_LENGTH_MAX:,}")
        for item_index, item in enumerate(value):
            form(item, f"{json_path}[{item_index}]")

    return check


def _pair(first: Form, second: Form) -> Form:
    def check(value: SpecJson, json_path: str) -> None:
        if not isinstance(value, list) or len(value) != 2:
            _refuse(json_path, "a list of two items", value)
        first(value[0], f"{json_path}[0]")
        second(value[1], f"{json_path}[1]")

    return check


def _fields(*, optional: dict[str, Form] | None = None, **required: Form) -> Form:
    forms = {**required, **(optional or {})}

    def check(value: SpecJson, json_path: str) -> None:
        if not isinstance(value, dict):
            _refuse(json_path, "an object", value)
        for field_name in value:
            if field_name not in forms:
                raise SpecError(f"{json_path}.{field_name} is unknown. Known fields: {', '.join(forms)}")
        # After the unknown names, so that a misspelt field is named as written.
        for field_name in required:
            if field_name not in value:
                raise SpecError(f"{json_path}.{field_name} is missing")
        for field_name, item in value.items():
            forms[field_name](item, f"{json_path}.{field_name}")

    return check


_GRAINS = _number(0, GRAINS_MAX)
_U32 = _number(0, U32_MAX)

_VALIDATOR = _fields(
    stash=_account,
    session_key=_hash,
    vrf_key=_hash,
    provider_key=_account,
    bond=_GRAINS,
    optional={"commission_ppm": _number(0, PPM)},
)
_PROVIDER = _fields(stash=_account, seal_key=_hash, endpoint=_text)
_DEVICE = _fields(
    owner=_account,
    kind=_word("cpu", "consumer", "datacenter"),
    uuid_hash=_hash,
    bond=_GRAINS,
    optional={"queue": _number(0, QUEUE_MAX)},
)
_SERVICE = _fields(
    owner=_account,
    name=_text,
    workload=_hash,
    model=_hash,
    price_min=_GRAINS,
    price_max=_GRAINS,
    ramp=_U32,
    commit_window=_U32,
    tokens_max=_U32,
    optional={"input_share": _U32, "check_ppm": _U32, "pace": _U32, "consumer_pace": _U32, "datacenter_pace": _U32},
)
_OFFER = _fields(service=_U32, device=_hash, ask=_GRAINS)

PARAMETERS_MAX = 1_024


def _numbers_by_name(value: SpecJson, json_path: str) -> None:
    if not isinstance(value, dict) or len(value) > PARAMETERS_MAX:
        _refuse(json_path, f"an object of at most {PARAMETERS_MAX:,} parameters", value)
    for field_name, number in value.items():
        _GRAINS(number, f"{json_path}.{field_name}")


PALLETS: dict[str, Form] = {
    "balances": _fields(balances=_list_of(_pair(_account, _GRAINS))),
    "beacon": _fields(seed=_hash),
    "trustStake": _fields(validators=_list_of(_VALIDATOR)),
    "devices": _fields(optional={"providers": _list_of(_PROVIDER), "devices": _list_of(_DEVICE)}),
    "inferenceMarket": _fields(optional={"services": _list_of(_SERVICE), "offers": _list_of(_OFFER)}),
    "chainParameters": _numbers_by_name,
    "sudo": _fields(key=_account),
}
"""The form of each pallet's configuration. A pallet without an entry has no configuration."""
NEEDED = ("balances", "beacon", "trustStake")
