"""The parts of the chain: the list of pallets, and block 0 of a chain specification.

Invariant: adding a pallet touches only its own module and this list. Equal specifications give equal genesis hashes.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

from genesis.parameters import numbers, outside
from genesis.patch_form import check_patch
from genesis.relations import RELATIONS
from genesis.spec import ChainSpec, Patch, SpecError, SpecJson
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.budgets.budgets import Budgets
from gpu_tasks.market.budgets.budgets_api import BudgetsApi
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.claims.claims_api import ClaimsApi
from gpu_tasks.market.claims.disputes_api import DisputesApi
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.gpu_tasks_api import GpuTasksApi
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.sessions_api import SessionsApi
from gpu_tasks.market.training.training_api import TrainingApi
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.blocks.block import Header, genesis_header
from runtime.cryptography import ss58
from runtime.encoding.scale import DecodeError
from runtime.encoding.types import CAP_GRAINS, RuntimeVersion
from runtime.execution.supply import SupplyBroken, recount
from runtime.frame.api import Apis, RuntimeApi, with_apis
from runtime.frame.errors import DispatchError
from runtime.frame.pallet import Pallet, StorageValue
from runtime.frame.runtime import Runtime
from runtime.frame.storage import StateCorrupted, storage_prefix
from runtime.interface.locks_api import LocksApi
from runtime.interface.parameters_api import ParametersApi
from runtime.interface.staking_api import OgpuApi
from runtime.interface.standard_apis import STANDARD_APIS
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.chain_parameters import ChainParameters
from runtime.pallets.im_online import ImOnline
from runtime.pallets.pots import RESERVE
from runtime.pallets.session import Session
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.sudo import Sudo
from runtime.pallets.system import System
from runtime.pallets.timestamp import Timestamp
from runtime.pallets.transaction_payment import TransactionPayment
from runtime.pallets.utility import Utility
from runtime.state.overlay import Memory
from runtime.state.trie import Trie

PALLETS: tuple[type[Pallet], ...] = (
    System,
    Timestamp,
    Balances,
    TransactionPayment,
    Utility,
    Beacon,
    TrustStake,
    Session,
    TrustLock,
    Devices,
    Disputes,
    ResultClaims,
    Capacity,
    TrainingMarket,
    InferenceMarket,
    Sessions,
    Budgets,
    Attestations,
    ImOnline,
    ChainParameters,
)
DEVELOPMENT_PALLETS: tuple[type[Pallet], ...] = (Sudo,)

GENESIS_KEYS = (storage_prefix("TrustStake", "ActiveSet"), storage_prefix("Sudo", "Key"))
"""The entries of block 0 shown to clients that know only the genesis hash: the first validators, and the sudo key. A
development chain has a sudo key, a live one has none."""

APIS: tuple[type[RuntimeApi], ...] = (
    *STANDARD_APIS, OgpuApi, GpuTasksApi, TrainingApi, ParametersApi, LocksApi,
    ClaimsApi, DisputesApi, SessionsApi, BudgetsApi,
)  # fmt: skip

# The last number, system_version 2, tells clients that the extrinsics root is a tree of layout V1, as the state is.
VERSION = with_apis(RuntimeVersion("ogpu", "ogpu-python", 1, 1, 1, (), 1, 2), APIS)


def runtime_of(spec: ChainSpec) -> Runtime:
    """Return the state transition of this chain."""
    return runtime_for(spec.parameters, is_development=spec.chain_type != "Live")


@lru_cache(maxsize=4)
def runtime_for(parameters: str, *, is_development: bool) -> Runtime:
    """Return the state transition for a set of parameters, made once, because compiling the pallets is slow."""
    # Sudo comes last, so that leaving it out changes no other pallet's place.
    pallets = PALLETS + DEVELOPMENT_PALLETS * is_development
    return Runtime(pallets, VERSION, numbers(parameters), outside=outside(parameters), relations=RELATIONS)


@lru_cache(maxsize=4)
def apis_for(parameters: str, *, is_development: bool) -> Apis:
    """Return the runtime APIs for a set of parameters."""
    return Apis(runtime_for(parameters, is_development=is_development), APIS)


def genesis_state(spec: ChainSpec) -> dict[bytes, bytes]:
    """Return every storage key and value of block 0. Raise SpecError for an inconsistent specification."""
    runtime = runtime_of(spec)
    state = dict(sorted(spec.raw.items())) if spec.raw is not None else _built(runtime, spec.patch or {})
    _check_state(runtime, state)
    return state


def genesis_numbers(spec: ChainSpec) -> dict[str, int]:
    """Return every parameter and constant by name, as block 0 has it, without checking the relations.

    Raise SpecError for a value out of a parameter's bounds.
    """
    runtime = runtime_of(spec)
    try:
        if spec.raw is not None:
            values = runtime.at(Memory(spec.raw)).parameters.changed()
        else:
            patch = spec.patch or {}
            check_patch(patch)
            config_by_pallet = _by_pallet(runtime, patch)
            values = runtime.parameters.values_at_genesis(config_by_pallet.get(ChainParameters.__name__, {}))
    except (StateCorrupted, ValueError) as error:
        raise SpecError(f"genesis: {error}") from error
    return {**runtime.parameters.fixed, **values}


def changeable_parameters(spec: ChainSpec) -> frozenset[str]:
    """Return the names of the numbers that a specification may change."""
    table = runtime_of(spec).parameters.parameters
    return frozenset(name for name, parameter in table.items() if not parameter.is_frozen)


def _built(runtime: Runtime, patch: Patch) -> dict[bytes, bytes]:
    config_by_pallet = _by_pallet(runtime, patch)
    check_patch(patch)
    try:
        # Pallets check what no form can: keys, bonds, sums.
        genesis_changes = runtime.genesis(config_by_pallet, config_by_pallet.get(ChainParameters.__name__))
    except DispatchError as error:
        reason = f"{type(error).__name__}: {type(error).__doc__}"
        raise SpecError(f"genesis.runtimeGenesis.patch is inconsistent: {reason}") from error
    except (KeyError, TypeError, ValueError, OverflowError, DecodeError) as error:
        raise SpecError(f"genesis.runtimeGenesis.patch is inconsistent: {error}") from error
    return {
        storage_key: encoded_value
        for storage_key, encoded_value in genesis_changes.items()
        if encoded_value is not None
    }


def _check_state(runtime: Runtime, state: dict[bytes, bytes]) -> None:
    """Check the state of block 0 and whether its sudo key matches the chain's type.

    Raise SpecError unless every entry decodes, the numbers fit, all grains of the cap exist, and there is a validator.
    """
    # A raw state comes unchecked from its file.
    bound = runtime.at(Memory(state))
    try:
        for pallet in bound.pallets:
            for name in pallet.items:
                if name not in pallet.parameters:
                    _read_all(pallet.bound_item(name))
        runtime.parameters.check(bound.parameters.changed())
        held_grains = recount(bound)
    except (DecodeError, StateCorrupted, SupplyBroken, ValueError) as error:
        raise SpecError(f"genesis: damaged state: {error}") from error
    # Nothing issues grains later, so all of them must exist in block 0.
    if held_grains != CAP_GRAINS:
        difference = f"{abs(CAP_GRAINS - held_grains):,} {'less' if held_grains < CAP_GRAINS else 'more'}"
        raise SpecError(
            f"genesis: the balances add up to {held_grains:,} grains, {difference} than the cap of {CAP_GRAINS:,}. "
            f"Change the balance of the reserve, {ss58.encode(RESERVE)}, by the difference"
        )
    is_development = Sudo in runtime.pallets
    if (state.get(GENESIS_KEYS[1]) is not None) != is_development:
        raise SpecError("genesis: a development chain needs a sudo key, and a live chain must not have one")
    stashes = [seat.stash for seat in bound[TrustStake].validators(0)]
    if not stashes or any(lower_stash >= higher_stash for lower_stash, higher_stash in pairwise(stashes)):
        raise SpecError("genesis: no validator, or a validator listed twice")


def _read_all(storage_item: Any) -> None:
    """Decode every entry of a storage item. Raise StateCorrupted for the first that does not decode."""
    if isinstance(storage_item, StorageValue):
        storage_item.get()
    else:
        for _ in storage_item.items():
            pass


def genesis_block_header(state: dict[bytes, bytes]) -> Header:
    """Return the header of block 0 over this state. Its hash is the chain's genesis hash."""
    return genesis_header(Trie(state).root)


def _by_pallet(runtime: Runtime, patch: dict[str, dict[str, SpecJson]]) -> dict[str, dict[str, SpecJson]]:
    """Return the configuration with the SDK's keys (`trustStake`) replaced by names of pallets (`TrustStake`)."""
    pallets = [pallet.__name__ for pallet in runtime.pallets]
    pallet_names = {name[0].lower() + name[1:]: name for name in pallets}  # deterministic: our own names
    if "sudo" in patch and "sudo" not in pallet_names:
        raise SpecError("patch.sudo: a live chain has no Sudo, because it has no Root. Remove patch.sudo")
    unknown_names = [name for name in patch if name not in pallet_names]
    if unknown_names:
        raise SpecError(f"patch.{unknown_names[0]}: no such pallet. Pallets: {', '.join(pallet_names)}")
    return {pallet_names[name]: pallet_config for name, pallet_config in patch.items()}
