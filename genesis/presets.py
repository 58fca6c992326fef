"""Ready-made chains: `dev`, where Alice is the only validator, and `local`, with four.

What always holds: every grain of the cap exists in the genesis state: what the accounts do not get lies in the reserve.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from genesis import dev_accounts
from genesis.chain import genesis_state
from genesis.dev_accounts import DEV_NAMES
from genesis.spec import ChainSpec, Patch, from_json
from runtime.hashing import blake2_256
from runtime.pallets.pots import RESERVE
from runtime.ss58 import encode as ss58
from runtime.types import CAP_GRAINS, GRAINS_PER_OGPU

PROPERTIES = {"ss58Format": 42, "tokenDecimals": 8, "tokenSymbol": "oGPU"}
ENDOWMENT = 1_000_000 * GRAINS_PER_OGPU
PROVIDER_ENDOWMENT = 10 * GRAINS_PER_OGPU
GENESIS_BOND = 10_000 * GRAINS_PER_OGPU
VALIDATORS_MAX = 16

PRESETS = ("dev", "local")


def load_spec(source: str | bytes) -> ChainSpec:
    """The preset of that name, or the specification in these bytes (`genesis.spec.SpecError` if it is none)."""
    if isinstance(source, bytes):
        return from_json(source)
    if source == "dev":
        return preset("Development", "dev", "Development", validator_names(1))
    if source == "local":
        return preset("Local Testnet", "local_testnet", "Local", validator_names(4))
    raise KeyError(source)


def validator_names(count: int) -> tuple[str, ...]:
    """Alice to Ferdie, then Node7 and so on."""
    if not 1 <= count <= VALIDATORS_MAX:
        raise ValueError(f"a preset has 1 to {VALIDATORS_MAX} validators")
    return (DEV_NAMES + tuple(f"Node{n}" for n in range(len(DEV_NAMES) + 1, VALIDATORS_MAX + 1)))[:count]


def preset(name: str, chain_id: str, chain_type: str, validators: tuple[str, ...]) -> ChainSpec:
    """A chain whose validators and rich accounts are well known."""
    return ChainSpec(
        name=name,
        id=chain_id,
        chain_type=chain_type,
        parameters="devnet",
        properties=dict(PROPERTIES),
        patch=_patch(chain_id, validators),
        raw=None,
    )


def raw_spec(spec: ChainSpec) -> ChainSpec:
    """The same chain, its genesis as storage keys and values."""
    return replace(spec, patch=None, raw=genesis_state(spec))


def _patch(chain_id: str, validators: tuple[str, ...]) -> Patch:
    names = tuple(dict.fromkeys((*validators, *DEV_NAMES)))
    balances = [[ss58(dev_accounts.stash(name)), ENDOWMENT] for name in names]
    balances += [[ss58(dev_accounts.key(name, dev_accounts.PROVIDER)), PROVIDER_ENDOWMENT] for name in names]
    given = sum(amount for _, amount in balances if isinstance(amount, int))
    balances.append([ss58(RESERVE), CAP_GRAINS - given])
    return {
        "balances": {"balances": balances},
        "beacon": {"seed": "0x" + blake2_256(b"ogpu preset " + chain_id.encode()).hex()},
        "trustStake": {"validators": [_validator(name) for name in validators]},
        "sudo": {"key": ss58(dev_accounts.stash("Alice"))},
    }


def _validator(name: str) -> dict[str, Any]:
    return {
        "stash": ss58(dev_accounts.stash(name)),
        "session_key": "0x" + dev_accounts.key(name, dev_accounts.SESSION).hex(),
        "vrf_key": "0x" + dev_accounts.key(name, dev_accounts.VRF).hex(),
        "provider_key": "0x" + dev_accounts.key(name, dev_accounts.PROVIDER).hex(),
        "bond": GENESIS_BOND,
    }
