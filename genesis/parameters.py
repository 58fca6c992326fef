"""The sets of numbers that a chain may use, each value in one place.

Invariant: numbers that both consensus and the runtime need (slot, epoch) have one source.
"""

from __future__ import annotations

from typing import Any

from consensus.parameters import DEVNET, DEVNET_FAST, MAINNET, Parameters
from runtime.encoding.types import GRAINS_PER_OGPU

CONSENSUS: dict[str, Parameters] = {"devnet": DEVNET, "devnet-fast": DEVNET_FAST, "mainnet": MAINNET}

MS_PER_DAY = 86_400_000
TRUSTING_DAYS = 14
"""The days for which a program on mainnet trusts the last state it saw. Wallets use the same number."""


def numbers(name: str) -> dict[str, Any]:
    """Return the constants and parameters that differ from the pallets' defaults: `{"Pallet.constant": value}`.

    Constants are part of the code of such a chain. Parameters start with these values unless a specification sets
    others.
    """
    consensus = CONSENSUS[name]
    shared = {
        "Timestamp.minimum_period": consensus.slot_ms // 2,
        "Beacon.epoch_blocks": consensus.epoch_blocks,
    }
    return shared | (_mainnet(consensus) if name == "mainnet" else {})


def outside(name: str) -> dict[str, int]:
    """Return the numbers of consensus that no pallet declares."""
    consensus = CONSENSUS[name]
    epoch_ms = consensus.epoch_blocks * consensus.slot_ms
    # Epochs of a devnet last a minute, so days would outlast its evidence by far.
    trusting = TRUSTING_DAYS * MS_PER_DAY // epoch_ms if name == "mainnet" else 2
    return {"Consensus.trusting_epochs": trusting, "Consensus.epoch_blocks": consensus.epoch_blocks}


def _mainnet(consensus: Parameters) -> dict[str, Any]:
    epoch_ms = consensus.epoch_blocks * consensus.slot_ms
    return {
        "TrustStake.era_epochs": MS_PER_DAY // epoch_ms,
        # 21 days unbonding, 18 for evidence, 14 of trust: each must outlast the next (`genesis.relations`).
        "TrustStake.unbonding_epochs": 21 * MS_PER_DAY // epoch_ms,
        "TrustStake.evidence_epochs": 18 * MS_PER_DAY // epoch_ms,
        "TrustStake.jail_epochs": 6,
        "TrustStake.validator_bond_min": 1_000 * GRAINS_PER_OGPU,
        "TrustStake.validator_count": 100,
        "Devices.consumer_bond_min": 10 * GRAINS_PER_OGPU,
        "Devices.datacenter_bond_min": 100 * GRAINS_PER_OGPU,
        "Capacity.roll_calls_enabled": 1,
        "TrainingMarket.start_blocks": 60,
        "TrainingMarket.grace_blocks": 60,
        "TrainingMarket.ask_blocks": 60,
    }
