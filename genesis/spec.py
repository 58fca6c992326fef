"""The chain specification: a JSON file in Substrate's shape that defines a chain.

Invariant: every `ChainSpec` has passed all checks that need no runtime. For an unknown, missing, repeated or mistyped
field a SpecError names it. Numbers are integers: a float anywhere is refused.

The genesis is either a `patch` for people (one object for each pallet) or `raw` (storage keys and values, exact).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NoReturn

SPEC_BYTES_MAX = 64 * 1024 * 1024
BOOTNODES_MAX = 64
START_TIME_MAX = 2**33
TEXT_LENGTH_MAX = 256
CHAIN_TYPES = ("Development", "Local", "Live")
PARAMETER_SETS = ("devnet", "devnet-fast", "mainnet")
_ID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")

SpecJson = Any
Patch = dict[str, dict[str, SpecJson]]
RawState = dict[bytes, bytes]


class SpecError(ValueError):
    """A chain specification that cannot be used. The message names the field and its allowed values."""


@dataclass(frozen=True, slots=True)
class ChainSpec:
    """One chain: exactly one of `patch` and `raw` is not None."""

    name: str
    id: str
    chain_type: str
    parameters: str  # the set of `genesis.parameters` that the chain uses
    properties: dict[str, SpecJson]
    patch: Patch | None
    raw: RawState | None
    boot_nodes: tuple[str, ...] = ()
    protocol_id: str = "ogpu"
    start_time: int = 0
    """The start of the chain in Unix seconds, from which the age of block 0 follows. 0 if unknown."""

    def __post_init__(self) -> None:
        """Check each field. Raise SpecError if one is invalid."""
        _require(
            bool(self.id) and set(self.id) <= _ID_CHARACTERS,
            "id",
            "lower-case letters, digits, _ and -, because it names a folder",
        )
        _require(self.chain_type in CHAIN_TYPES, "chainType", "one of " + ", ".join(CHAIN_TYPES))
        _require(self.parameters in PARAMETER_SETS, "parameters", "one of " + ", ".join(PARAMETER_SETS))
        _require((self.patch is None) != (self.raw is None), "genesis", "either runtimeGenesis.patch or raw")
        _require(0 <= self.start_time <= START_TIME_MAX, "startTime", "the chain's start in Unix seconds")
        _require(len(self.boot_nodes) <= BOOTNODES_MAX, "bootNodes", f"at most {BOOTNODES_MAX} addresses")


def to_json(spec: ChainSpec) -> str:
    """Return the file's text. `from_json` returns the same specification from it."""
    if spec.patch is not None:
        genesis: SpecJson = {"runtimeGenesis": {"patch": spec.patch}}
    else:
        top = {
            "0x" + storage_key.hex(): "0x" + encoded_value.hex()
            for storage_key, encoded_value in sorted((spec.raw or {}).items())
        }
        genesis = {"raw": {"top": top, "childrenDefault": {}}}
    content = {
        "name": spec.name,
        "id": spec.id,
        "chainType": spec.chain_type,
        "bootNodes": list(spec.boot_nodes),
        "telemetryEndpoints": None,
        "protocolId": spec.protocol_id,
        "properties": spec.properties,
        "parameters": spec.parameters,
        "codeSubstitutes": {},
        **({"startTime": spec.start_time} if spec.start_time else {}),
        "genesis": genesis,
    }
    return json.dumps(content, indent=2) + "\n"


def from_json(data: bytes) -> ChainSpec:
    """Read a specification. Raise SpecError if it is invalid."""
    json_object = _object(_parsed(data), "the file")
    _only(json_object, "", *_FIELDS)
    if json_object.get("telemetryEndpoints") or json_object.get("codeSubstitutes") or json_object.get("forkId"):
        raise SpecError(
            "telemetryEndpoints, codeSubstitutes and forkId must be empty: this chain does not support them"
        )
    genesis = _object(_get(json_object, "genesis"), "genesis")
    _only(genesis, "genesis", "runtimeGenesis", "raw")
    return ChainSpec(
        name=_text(json_object, "name"),
        id=_text(json_object, "id"),
        chain_type=_text(json_object, "chainType"),
        parameters=_text(json_object, "parameters"),
        properties=_object(json_object.get("properties") or {}, "properties"),
        patch=_patch(genesis["runtimeGenesis"]) if "runtimeGenesis" in genesis else None,
        raw=_raw(genesis["raw"]) if "raw" in genesis else None,
        boot_nodes=_texts(json_object.get("bootNodes") or [], "bootNodes"),
        protocol_id=_text(json_object, "protocolId") if "protocolId" in json_object else "ogpu",
        start_time=_whole(json_object, "startTime") if "startTime" in json_object else 0,
    )


_FIELDS = (
    "name", "id", "chainType", "bootNodes", "telemetryEndpoints", "protocolId", "forkId", "properties", "parameters",
    "codeSubstitutes", "startTime", "genesis",
)  # fmt: skip


def _parsed(data: bytes) -> SpecJson:
    # Before parsing, which takes many times the memory.
    if len(data) > SPEC_BYTES_MAX:
        raise SpecError(f"a chain spec has at most {SPEC_BYTES_MAX:,} bytes, not {len(data):,}")
    try:
        return json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_float=_no_float, parse_constant=_no_float
        )
    except UnicodeDecodeError as error:
        raise SpecError(f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise SpecError(f"not JSON: {error}") from error
    except RecursionError as error:  # deterministic: a file of this machine, and never part of a block
        raise SpecError("not a chain spec: nested too deep") from error


def _unique(pairs: list[tuple[str, SpecJson]]) -> dict[str, SpecJson]:
    # `json.loads` alone would silently keep the last of two equal keys.
    json_object = dict(pairs)
    if len(json_object) != len(pairs):
        field_names = [field_name for field_name, _ in pairs]
        raise SpecError(
            f"{next(field_name for field_name in field_names if field_names.count(field_name) > 1)!r} occurs twice"
        )
    return json_object


def _no_float(text: str) -> NoReturn:
    # A float would round amounts, and differently from program to program.
    raise SpecError(f"{text} is not an integer. Amounts are whole grains (10^-8 oGPU).")


def _patch(value: SpecJson) -> Patch:
    genesis = _object(value, "genesis.runtimeGenesis")
    _only(genesis, "genesis.runtimeGenesis", "patch")
    patch = _object(_get(genesis, "patch"), "genesis.runtimeGenesis.patch")
    return {pallet: _object(config, f"patch.{pallet}") for pallet, config in patch.items()}


def _raw(value: SpecJson) -> RawState:
    genesis = _object(value, "genesis.raw")
    _only(genesis, "genesis.raw", "top", "childrenDefault")
    if genesis.get("childrenDefault"):
        raise SpecError("genesis.raw.childrenDefault must be empty: this chain has no child tries")
    top = _object(_get(genesis, "top"), "genesis.raw.top")
    return {
        _hex(storage_key, "genesis.raw.top"): _hex(encoded_value, f"genesis.raw.top[{storage_key}]")
        for storage_key, encoded_value in top.items()
    }


def _hex(text: SpecJson, json_path: str) -> bytes:
    try:
        # A round trip, because `fromhex` also accepts spaces and upper case: one state, one text.
        if isinstance(text, str) and "0x" + bytes.fromhex(text[2:]).hex() == text:
            return bytes.fromhex(text[2:])
    except ValueError:
        pass
    raise SpecError(f"{json_path}: {text!r:.80} is not lower-case hex with 0x")


def _get(json_object: dict[str, SpecJson], field_name: str) -> SpecJson:
    if field_name not in json_object:
        raise SpecError(f"{field_name} is missing")
    return json_object[field_name]


def _text(json_object: dict[str, SpecJson], field_name: str) -> str:
    value = _get(json_object, field_name)
    if not isinstance(value, str) or not 1 <= len(value) <= TEXT_LENGTH_MAX or not value.isprintable():
        raise SpecError(f"{field_name} must be a text of 1 to {TEXT_LENGTH_MAX} printable characters")
    return value


def _whole(json_object: dict[str, SpecJson], field_name: str) -> int:
    value = _get(json_object, field_name)
    if type(value) is not int:  # true is an int too
        raise SpecError(f"{field_name} must be a whole number")
    return value


def _texts(value: SpecJson, field_name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and len(item) <= TEXT_LENGTH_MAX for item in value):
        raise SpecError(f"{field_name} must be a list of texts")
    return tuple(value)


def _object(value: SpecJson, field_name: str) -> dict[str, SpecJson]:
    if not isinstance(value, dict):
        raise SpecError(f"{field_name} must be an object")
    return value


def _only(json_object: dict[str, SpecJson], json_path: str, *known_names: str) -> None:
    for field_name in json_object:
        if field_name not in known_names:
            raise SpecError(
                f"{json_path}{'.' * bool(json_path)}{field_name} is unknown. Known fields: {', '.join(known_names)}"
            )


def _require(is_valid: bool, field_name: str, requirement: str) -> None:
    if not is_valid:
        raise SpecError(f"{field_name} must be {requirement}")
