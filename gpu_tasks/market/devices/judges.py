"""Who in office may judge: one answer for races, for the benches of courts, and for whoever seals an input.

Always: who may judge can be sealed to; whose key is younger than an input cannot read that one.
"""

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import Provider


def in_office(devices: Devices) -> list[tuple[bytes, int]]:
    """The validators in office, by ascending stash, each with its weight: of these judges are drawn."""
    return in_office_at(devices, devices.stake.beacon.epoch())


def in_office_at(devices: Devices, epoch: int) -> list[tuple[bytes, int]]:
    """Who was in office in an epoch: who was drawn then is drawn still, though the set has changed since."""
    return [(seat.stash, seat.weight) for seat in devices.stake.validators(epoch)]


def to_seal_to(devices: Devices) -> list[bytes]:
    """Who may have to judge an input that is sealed now: those in office, and those elected for the next epoch."""
    epoch = devices.stake.beacon.epoch()
    both = in_office_at(devices, epoch) + in_office_at(devices, epoch + 1)
    return list(dict.fromkeys(stash for stash, _ in both))


def judge_of(devices: Devices, stash: bytes) -> Provider | None:
    """How a stash reads inputs, and since when (`key_since`); None for who may not judge: no provider, no candidate."""
    provider = devices.providers[stash]
    return provider if provider is not None and devices.stake.is_candidate(stash) else None


def reads_since(devices: Devices, stash: bytes) -> int | None:
    """Inputs sealed at this height or later have a box for the judge; None for who may not judge.

    Who took office after an input was sealed has none in it, and could not open its seat.
    """
    judge = judge_of(devices, stash)
    return None if judge is None else max(judge.key_since, devices.stake.known_since(stash))
