"""The two sets of parameters that a chain may run by, each value in one place.

What always holds: what consensus and the runtime both need (slot, epoch) comes from the same number.
"""

from __future__ import annotations

from typing import Any

from consensus.parameters import DEVNET, MAINNET, Parameters
from gpu_tasks.market.devices.records import ClassBonds
from gpu_tasks.market.rounds import Windows
from runtime.encoding.types import GRAINS_PER_OGPU

CONSENSUS: dict[str, Parameters] = {"devnet": DEVNET, "mainnet": MAINNET}

MS_PER_DAY = 86_400_000


def constants(name: str) -> dict[str, Any]:
    """The runtime's constants that differ from the pallets' defaults: `{"Pallet.constant": value}`."""
    consensus = CONSENSUS[name]
    shared = {
        "Timestamp.minimum_period": consensus.slot_ms // 2,
        "Beacon.epoch_blocks": consensus.epoch_blocks,
    }
    return shared | ({} if name == "devnet" else _mainnet(consensus))


def _mainnet(consensus: Parameters) -> dict[str, Any]:
    epoch_ms = consensus.epoch_blocks * consensus.slot_ms
    return {
        "TrustStake.era_epochs": MS_PER_DAY // epoch_ms,
        "TrustStake.unbonding_epochs": 21 * MS_PER_DAY // epoch_ms,
        "TrustStake.evidence_epochs": 18 * MS_PER_DAY // epoch_ms,
        "TrustStake.validator_bond_min": 1_000 * GRAINS_PER_OGPU,
        "TrustStake.validator_seats": 100,
        "Devices.bond_min": ClassBonds(*(factor * GRAINS_PER_OGPU for factor in (1, 10, 100))),
        "InferenceMarket.race": Windows(lease=24, close=10, reveal=12),
        "InferenceMarket.judging_windows": Windows(lease=60, close=60, reveal=30),
    }
