"""The accounts of the weights' chain, made from names, each with every key of a validator and provider."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpu_tasks.market.devices.records import device_id_of
from runtime.encoding.types import CAP_GRAINS
from runtime.pallets.pots import RESERVE
from simulation.chains.market_chain import MODEL, OGPU, WORKLOAD, device_row, hexed, provider_row, validator_row
from simulation.chains.named_keys import NamedKeys

BOND, DEVICE_BOND, ENDOWMENT = 100 * OGPU, 300 * OGPU, 30_000 * OGPU
NEW_BOND = 2 * OGPU
"""The bond of a device that never races."""
CHEAP, DEAR, PRICE_MAX = OGPU // 100, 5 * OGPU, 10 * OGPU
SERVICES = 4
RACED, LARGE, PRICEY, SMALL = range(SERVICES)
"""Services of block 0: raced by all devices, with 1,008 offers, with high asks, and with eight offers."""
DEVICES_OF_A_FLEET, FLEETS = 64, 16
KEEP_BLOCKS = 40


@dataclass(frozen=True)
class Actor(NamedKeys):
    """The accounts and keys of an actor with any number of devices."""

    def uuid_hash(self, number: int = 0) -> bytes:
        """Return the hardware hash of a device."""
        return self.seed(f"uuid {number}")

    def device(self, number: int = 0) -> bytes:
        """Return the id of a device."""
        return device_id_of(self.stash, self.uuid_hash(number))


CUSTOMER = Actor("customer")
ROOT = Actor("root")


def patch(validators: Sequence[Actor], others: Sequence[tuple[bytes, int]]) -> dict[str, dict[str, Any]]:
    """Return block 0: validators that are all providers, fleets of devices, four services, and funded accounts."""
    rich = [(who, ENDOWMENT) for actor in validators for who in (actor.stash, actor.provider)]
    rich += [(CUSTOMER.stash, 1_000_000 * OGPU), (ROOT.stash, ENDOWMENT), *others]
    given = sum(amount for _, amount in rich)
    fleets = validators[:FLEETS]
    devices = [(actor, number) for actor in validators for number in range(_devices_of(actor, fleets))]
    fleet = [(actor, number) for actor, number in devices if number]
    return {
        "balances": {"balances": [[hexed(who), amount] for who, amount in (*rich, (RESERVE, CAP_GRAINS - given))]},
        "beacon": {"seed": "0x" + "07" * 32},
        "trustStake": {"validators": [validator_row(actor, BOND) for actor in validators]},
        "devices": {
            "providers": [provider_row(actor) for actor in validators],
            "devices": [
                device_row(actor, actor.uuid_hash(number), (1 if number else 8) * DEVICE_BOND)
                for actor, number in devices
            ],
        },
        "inferenceMarket": {
            "services": [_service() for _ in range(SERVICES)],
            "offers": [
                *({"service": RACED, "device": hexed(actor.device()), "ask": CHEAP} for actor in validators),
                *({"service": LARGE, "device": hexed(actor.device(number)), "ask": CHEAP} for actor, number in fleet),
                *({"service": PRICEY, "device": hexed(actor.device(1)), "ask": DEAR} for actor in fleets),
                *({"service": SMALL, "device": hexed(actor.device(2)), "ask": CHEAP} for actor in fleets[:8]),
            ],
        },
        "sudo": {"key": hexed(ROOT.stash)},
        "chainParameters": {
            "TrustStake.validator_count": len(validators),
            "InferenceMarket.unit_keep": KEEP_BLOCKS,
            "TrainingMarket.task_keep": KEEP_BLOCKS,
            "TrainingMarket.commit_blocks": 4,
            "TrainingMarket.reveal_blocks": 4,
            "TrainingMarket.start_blocks": 10,
        },
    }


def _devices_of(actor: Actor, fleets: Sequence[Actor]) -> int:
    return DEVICES_OF_A_FLEET if actor in fleets else 1


def _service() -> dict[str, Any]:
    return {
        "owner": hexed(CUSTOMER.stash),
        "name": "any",
        "workload": hexed(WORKLOAD),
        "model": hexed(MODEL),
        "price_min": CHEAP,
        "price_max": PRICE_MAX,
        "ramp": 1_000,
        "commit_window": 4,
        "tokens_max": 1_000,
    }
