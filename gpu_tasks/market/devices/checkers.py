"""The validators that may check: one rule for races, for checkers and voters, and for programs that seal an input.

Invariants: inputs can be sealed to every checker. A checker cannot read an input that is older than its key.
"""

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import Provider

DEVELOPMENT_SET = 4
"""An active set below this size is a development chain. Its results are not checked, because a provider and a checker
would leave no voter."""


def in_office(devices: Devices) -> list[tuple[bytes, int]]:
    """Return the active set by ascending stash, each with its weight. Checkers are drawn from it."""
    return in_office_at(devices, devices.stake.beacon.epoch())


def in_office_at(devices: Devices, epoch: int) -> list[tuple[bytes, int]]:
    """Return the active set of an epoch. A checker that was drawn in it stays drawn when the set changes."""
    return [(seat.stash, seat.weight) for seat in devices.stake.validators(epoch)]


def to_seal_to(devices: Devices) -> list[bytes]:
    """Return the possible checkers of an input that is sealed now: the active sets of this and of the next epoch."""
    epoch = devices.stake.beacon.epoch()
    both_sets = in_office_at(devices, epoch) + in_office_at(devices, epoch + 1)
    return list(dict.fromkeys(stash for stash, _ in both_sets))


def checker_of(devices: Devices, stash: bytes) -> Provider | None:
    """Return the provider record of a checker, or None if the stash is no provider or no candidate."""
    record = devices.providers[stash]
    return record if record is not None and devices.stake.is_candidate(stash) else None


def reads_since(devices: Devices, stash: bytes) -> int | None:
    """Return the height from which inputs are sealed to this checker too, or None if it may not check.

    An input is sealed to the active sets known at that time. A validator elected later could not open it.
    """
    checker = checker_of(devices, stash)
    return None if checker is None else max(checker.key_since, devices.stake.known_since(stash))
