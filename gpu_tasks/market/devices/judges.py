"""Who in office may judge: one answer for races, for the benches of courts, and for whoever seals an input.

Always: who may judge can be sealed to; whose key is younger than an input cannot read that one.
"""

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import Provider


def in_office(devices: Devices) -> list[tuple[bytes, int]]:
    """The validators in office, by ascending stash, each with its weight: of these judges are drawn."""
    return [(seat.stash, seat.weight) for seat in devices.stake.validators(devices.stake.beacon.epoch())]


def judge_of(devices: Devices, stash: bytes) -> Provider | None:
    """How a stash reads inputs, and since when (`key_since`); None for who may not judge: no provider, no candidate."""
    provider = devices.providers[stash]
    return provider if provider is not None and devices.stake.is_candidate(stash) else None
