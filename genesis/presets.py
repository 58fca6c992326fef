"""Ready-made chains: `dev`, where Alice is the only validator, and `local`, with four.

Invariant: every grain of the cap exists in the genesis state. The reserve holds the grains that no account gets.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from genesis import dev_accounts
from genesis.chain import genesis_state
from genesis.preset_names import CUSTOMER_NAMES, DEV_NAMES, VALIDATORS_MAX
from genesis.spec import ChainSpec, Patch, from_json
from gpu_tasks.market.devices.records import device_id_of
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.ss58 import encode as ss58
from runtime.encoding.types import CAP_GRAINS, GRAINS_PER_OGPU
from runtime.pallets.pots import RESERVE

PROPERTIES = {"ss58Format": 42, "tokenDecimals": 8, "tokenSymbol": "oGPU"}
ENDOWMENT = 1_000_000 * GRAINS_PER_OGPU
PROVIDER_ENDOWMENT = 10 * GRAINS_PER_OGPU
GENESIS_BOND = 10_000 * GRAINS_PER_OGPU
WAITING_BOND = GENESIS_BOND // 2
"""The bond of candidates without a seat: a few delegations lift them above the weakest seat."""

DEVICE_BOND = 2_000 * GRAINS_PER_OGPU
"""The bond of a device. A collateral is about fifty times the price: it covers 41 units at once at an oGPU each."""
DEVICE_QUEUE = 7
"""The units in a device's queue while it works on one: those of three blocks, if each takes less than half of one."""
BLOB_PORT_FIRST = 9750

ASK = GRAINS_PER_OGPU // 100
"""The price of a preset's provider for a thousand output tokens: 0.01 oGPU."""
INPUT_SHARE = 250_000
"""The weight of an input token, in ppm of an output token: a quarter, because inputs are read in batches."""
CHECK_PPM = 200_000
"""The cost of checking a request over the cost of computing it, in ppm: a check reads the output like an input."""
PACE = 64
"""The output tokens in a block. A CPU under load, one request at a time, computes more."""
RATE_MAX = 20 * GRAINS_PER_OGPU
"""The most that a preset's customer may offer for a thousand tokens."""
TEXT_WORKLOAD = bytes.fromhex("9262a7006ef76c8a59dd052564cf127cf4caeb5972af4f01db513850949a9e89")
TEXT_MODEL = bytes.fromhex("b3a4e322b1d98ef404bb55a2aa5fc18d6a605bb867805829f656f3f4d0ecf4e4")
"""The workload decoder-int8 and its built-in model. A test compares them, and `CHECK_PPM`, with the package's."""


def load_spec(source: str | bytes) -> ChainSpec:
    """Return the preset of that name, or the specification in these bytes.

    Raise SpecError for malformed bytes, KeyError for an unknown name.
    """
    if isinstance(source, bytes):
        return from_json(source)
    if source == "dev":
        return preset("Development", "dev", "Development", validator_names(1))
    if source == "local":
        return preset("Local Testnet", "local_testnet", "Local", validator_names(4))
    raise KeyError(source)


def validator_names(count: int, excluded_names: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return Alice to Ferdie, then Node7 and so on, without the names in `excluded_names`."""
    names = tuple(name for name in all_names() if name not in excluded_names)
    if not 1 <= count <= len(names):
        raise ValueError(f"a preset has 1 to {len(names)} validators")
    return names[:count]


def customer_names(validators: tuple[str, ...]) -> tuple[str, ...]:
    """Return the well-known accounts with `ENDOWMENT` grains that do not validate in a preset of these validators."""
    return tuple(name for name in DEV_NAMES if name not in validators) or CUSTOMER_NAMES


def preset(
    name: str,
    chain_id: str,
    chain_type: str,
    validators: tuple[str, ...],
    *,
    seat_count: int | None = None,
    parameters: str = "devnet",
) -> ChainSpec:
    """Return a chain with well-known validators and rich accounts. The first `seat_count` validators are active."""
    return ChainSpec(
        name=name,
        id=chain_id,
        chain_type=chain_type,
        parameters=parameters,
        properties=dict(PROPERTIES),
        patch=_patch(chain_id, validators, seat_count),
        raw=None,
    )


def raw_spec(spec: ChainSpec) -> ChainSpec:
    """Return the same chain with its genesis as storage keys and values."""
    return replace(spec, patch=None, raw=genesis_state(spec))


def blob_endpoint(name: str) -> str:
    """Return the URL at which the provider of a development account serves blobs."""
    return f"http://127.0.0.1:{BLOB_PORT_FIRST + all_names().index(name)}"


def all_names() -> tuple[str, ...]:
    """Return every account that a preset may seat, in order."""
    return DEV_NAMES + tuple(f"Node{number}" for number in range(len(DEV_NAMES) + 1, VALIDATORS_MAX + 1))


def _patch(chain_id: str, validators: tuple[str, ...], seat_count: int | None) -> Patch:
    sitting = len(validators) if seat_count is None else seat_count
    # Each account once, because block 0 refuses a balance named twice.
    names = tuple(dict.fromkeys((*validators, *DEV_NAMES, *customer_names(validators))))
    balances = [[ss58(dev_accounts.stash(name)), ENDOWMENT] for name in names]
    balances += [[ss58(dev_accounts.key(name, dev_accounts.PROVIDER)), PROVIDER_ENDOWMENT] for name in names]
    given_grains = sum(grains for _, grains in balances if isinstance(grains, int))
    # The reserve takes the rest, because block 0 must hold all grains of the cap.
    balances.append([ss58(RESERVE), CAP_GRAINS - given_grains])
    return {
        "balances": {"balances": balances},
        "beacon": {"seed": "0x" + blake2_256(b"ogpu preset " + chain_id.encode()).hex()},
        "trustStake": {
            "validators": [
                _validator(name, GENESIS_BOND if validator_index < sitting else WAITING_BOND)
                for validator_index, name in enumerate(validators)
            ]
        },
        "devices": {
            "providers": [_provider(name) for name in validators],
            "devices": [_device(name) for name in validators],
        },
        "inferenceMarket": {
            "services": [_text_generation()],
            "offers": [{"service": 0, "device": "0x" + _device_id(name).hex(), "ask": ASK} for name in validators],
        },
        "sudo": {"key": ss58(dev_accounts.stash("Alice"))},
        # The election after genesis must keep the same number of seats.
        **({} if seat_count is None else {"chainParameters": {"TrustStake.validator_count": seat_count}}),
    }


def _validator(name: str, bond: int) -> dict[str, Any]:
    return {
        "stash": ss58(dev_accounts.stash(name)),
        "session_key": "0x" + dev_accounts.key(name, dev_accounts.SESSION).hex(),
        "vrf_key": "0x" + dev_accounts.key(name, dev_accounts.VRF).hex(),
        "provider_key": "0x" + dev_accounts.key(name, dev_accounts.PROVIDER).hex(),
        "bond": bond,
    }


def _provider(name: str) -> dict[str, Any]:
    return {
        "stash": ss58(dev_accounts.stash(name)),
        "seal_key": "0x" + dev_accounts.seal_key(name).hex(),
        "endpoint": blob_endpoint(name),
    }


def _device(name: str) -> dict[str, Any]:
    owner, uuid_hash = dev_accounts.stash(name), _uuid_hash(name)
    hardware = {"kind": "cpu", "uuid_hash": "0x" + uuid_hash.hex()}
    return {"owner": ss58(owner), **hardware, "bond": DEVICE_BOND, "queue": DEVICE_QUEUE}


def _device_id(name: str) -> bytes:
    return device_id_of(dev_accounts.stash(name), _uuid_hash(name))


def _uuid_hash(name: str) -> bytes:
    return blake2_256(b"ogpu preset device " + name.encode())


def _text_generation() -> dict[str, Any]:
    return {
        "owner": ss58(dev_accounts.stash("Alice")),
        "name": "ogpu-bytes",
        "workload": "0x" + TEXT_WORKLOAD.hex(),
        "model": "0x" + TEXT_MODEL.hex(),
        "price_min": ASK,
        "price_max": RATE_MAX,
        "ramp": 10,
        "commit_window": 30,
        "tokens_max": 256,
        "input_share": INPUT_SHARE,
        "check_ppm": CHECK_PPM,
        "pace": PACE,
    }
