"""Who comes to a `MarketChain` after its block 0: bonds, offers to validate, registers, and brings a device."""

from typing import Any

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.inference import InferenceMarket
from runtime.pallets.staking.trust_stake import TrustStake
from scripts.chains.market_chain import BOND, DEVICE_BOND, GENESIS_HASH, OGPU, Keys, Step, signed


def validates(
    keys: Keys, session: str = "session", commission_ppm: int = 50_000, provider_key: bytes | None = None
) -> Any:
    """The call by which a stash that has bonded becomes a candidate, with its key of this role in consensus."""
    return TrustStake.validate(
        keys=keys.node_keys(session),
        proof=keys.proof(GENESIS_HASH, session=session),
        provider_key=keys.provider if provider_key is None else provider_key,
        commission_ppm=commission_ppm,
    )


def registers(keys: Keys, seal: str = "seal") -> Any:
    """The call by which a candidate becomes a provider, or changes the key of this role that inputs are sealed to."""
    return Devices.register_provider(seal_key=keys.public(seal), endpoint=b"http://127.0.0.1:1")


def joins(keys: Keys, *, service: int = 0, ask: int = OGPU // 100, bond: int = BOND) -> list[Step]:
    """Steps: somebody becomes a provider with one device, and offers it."""
    calls = (
        TrustStake.bond(value=bond),
        validates(keys),
        registers(keys),
        Devices.register_device(kind=DeviceClass.CPU, uuid_hash=keys.uuid_hash, bond=DEVICE_BOND),
        InferenceMarket.offer(device=keys.device, service=service, ask=ask),
    )
    return [signed(keys.stash, call) for call in calls]
