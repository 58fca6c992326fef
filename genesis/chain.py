"""What the chain is made of: the one list of pallets, and block 0 of a chain specification.

What always holds: adding a pallet touches its own module and this list, nothing else; equal specifications give equal
genesis hashes.
"""

from __future__ import annotations

from functools import cache

from genesis.parameters import constants
from genesis.spec import ChainSpec, Json, SpecError
from gpu_tasks.market.api import GpuTasksApi
from gpu_tasks.market.attestations import Attestations
from gpu_tasks.market.devices import Devices
from gpu_tasks.market.inference import InferenceMarket
from runtime.api import Apis, RuntimeApi, with_apis
from runtime.block import Header, genesis_header
from runtime.pallet import Pallet
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.session import Session
from runtime.pallets.sudo import Sudo
from runtime.pallets.system import System
from runtime.pallets.timestamp import Timestamp
from runtime.pallets.transaction_payment import TransactionPayment
from runtime.pallets.trust_lock import TrustLock
from runtime.pallets.trust_stake import TrustStake
from runtime.pallets.utility import Utility
from runtime.runtime import Runtime
from runtime.scale import DecodeError
from runtime.staking_api import OgpuApi
from runtime.standard_apis import STANDARD_APIS
from runtime.trie import Trie
from runtime.types import CAP_GRAINS, RuntimeVersion

PALLETS: tuple[type[Pallet], ...] = (
    System,
    Timestamp,
    Balances,
    TransactionPayment,
    Utility,
    Session,
    Beacon,
    TrustStake,
    TrustLock,
    Devices,
    InferenceMarket,
    Attestations,
)
DEVELOPMENT_PALLETS: tuple[type[Pallet], ...] = (Sudo,)

APIS: tuple[type[RuntimeApi], ...] = (*STANDARD_APIS, OgpuApi, GpuTasksApi)

VERSION = with_apis(RuntimeVersion("ogpu", "ogpu-python", 1, 1, 1, (), 1, 1), APIS)


def runtime_of(spec: ChainSpec) -> Runtime:
    """The state transition of this chain."""
    return runtime_for(spec.parameters, is_development=spec.chain_type != "Live")


@cache
def runtime_for(parameters: str, *, is_development: bool) -> Runtime:
    """The state transition for a set of parameters; made once, because compiling the pallets takes a while."""
    pallets = PALLETS + DEVELOPMENT_PALLETS * is_development
    return Runtime(pallets, VERSION, constants(parameters))


@cache
def apis_for(parameters: str, *, is_development: bool) -> Apis:
    """The questions that one may ask a state of such a chain."""
    return Apis(runtime_for(parameters, is_development=is_development), APIS)


def genesis_state(spec: ChainSpec) -> dict[bytes, bytes]:
    """Every storage key and value of block 0.  Raises `SpecError` for a specification that does not hold together."""
    if spec.raw is not None:
        return dict(sorted(spec.raw.items()))
    runtime = runtime_of(spec)
    try:
        changes = runtime.genesis(_by_pallet(runtime, spec.patch or {}))
    except (KeyError, TypeError, ValueError, DecodeError) as error:
        raise SpecError(f"genesis.runtimeGenesis.patch does not hold together: {error}") from error
    state = {key: value for key, value in changes.items() if value is not None}
    issued = runtime.item(Balances.total_issuance).decode(state[runtime.item(Balances.total_issuance).key()])
    if issued != CAP_GRAINS:
        raise SpecError(f"patch.balances: the balances add up to {issued:,} grains, not to the cap of {CAP_GRAINS:,}")
    return state


def genesis_block_header(state: dict[bytes, bytes]) -> Header:
    """The header of block 0 over this state; its hash is the chain's genesis hash."""
    return genesis_header(Trie(state).root)


def _by_pallet(runtime: Runtime, patch: dict[str, dict[str, Json]]) -> dict[str, dict[str, Json]]:
    """Keys as the SDK writes them (`trustStake`) to names of pallets (`TrustStake`)."""
    names = {one.__name__[0].lower() + one.__name__[1:]: one.__name__ for one in runtime.pallets}
    unknown = [name for name in patch if name not in names]
    if unknown:
        raise SpecError(f"patch.{unknown[0]} is no pallet; there are {', '.join(names)}")
    return {names[name]: config for name, config in patch.items()}
