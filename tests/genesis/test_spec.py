"""Chain specifications: a written one reads back equal, and errors are named."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genesis.spec import ChainSpec, SpecError, from_json, to_json

SPEC = ChainSpec(
    name="Development",
    id="dev",
    chain_type="Development",
    parameters="devnet",
    properties={"ss58Format": 42, "tokenDecimals": 8, "tokenSymbol": "oGPU"},
    patch={"balances": {"balances": [["5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY", 10**15]]}},
    raw=None,
    boot_nodes=("/ip4/127.0.0.1/tcp/30333/p2p/12D3KooW",),
)
RAW = replace(SPEC, patch=None, raw={b":code": b"\x01", b"": b""})


@pytest.mark.parametrize("spec", [SPEC, RAW, replace(SPEC, start_time=1_800_000_000)])
def test_round_trip(spec: ChainSpec) -> None:
    assert from_json(to_json(spec).encode()) == spec


def changed(**fields: Any) -> bytes:
    content = json.loads(to_json(SPEC))
    content.update(fields)
    return json.dumps({name: value for name, value in content.items() if value is not ...}).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not JSON"),
        (b"[]", "must be an"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"name": 1, "name": 2}', "'name' occurs twice"),
        (changed(name=...), "name is missing"),
        (changed(nmae="x"), "nmae is unknown"),
        (changed(name=7), "name must be a text"),
        (changed(name="x" * 300), "name must be a text"),
        (changed(id="../up"), "id must be"),
        (changed(chainType="Test"), "chainType must be"),
        (changed(parameters="fast"), "parameters must be"),
        (changed(genesis={}), "genesis must be"),
        (changed(genesis={"raw": {"top": {"0xzz": "0x"}}}), "not lower-case hex"),
        (changed(genesis={"raw": {"top": {"0x00": 7}}}), "not lower-case hex"),
        (changed(genesis={"raw": {"top": {}, "childrenDefault": {"0x": {}}}}), "childrenDefault"),
        (changed(genesis={"runtimeGenesis": {"patch": {"balances": []}}}), "patch.balances must be"),
        (changed(genesis={"runtimeGenesis": {"patch": {"a": {"b": 1.5}}}}), "1.5 is not an integer"),
        (changed(genesis={"runtimeGenesis": {"patch": {"a": {"b": float("nan")}}}}), "NaN is not an integer"),
        (changed(bootNodes=["x"] * 100), "bootNodes must be"),
        (changed(bootNodes="x"), "bootNodes must be"),
        (changed(startTime="1"), "startTime must be a"),
        (changed(startTime=True), "startTime must be a"),
        (changed(startTime=-1), "startTime must be the"),
        (changed(startTime=1_800_000_000_000), "startTime must be the"),
        (changed(codeSubstitutes={"1": "0x"}), "codeSubstitutes"),
    ],
)
def test_what_is_wrong_is_named(data: bytes, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        from_json(data)


@given(st.integers(0, len(to_json(SPEC)) - 1), st.integers(0, 255))
def test_one_changed_byte_is_a_specification_or_a_spec_error(at: int, byte: int) -> None:
    data = bytearray(to_json(SPEC).encode())
    data[at] = byte
    with suppress(SpecError):
        from_json(bytes(data))
