"""Devices and Capacity: owners, bonds, and the races that devices secure."""

from functools import cache
from typing import Any

from gpu_tasks.market.capacity.capacity import RETURN_BUDGET, RETURN_WEIGHT, Capacity
from gpu_tasks.market.capacity.proofs import (
    ROW_DOMAIN,
    ROWS_MIN,
    SIZE_MIN,
    ShownRow,
    WorkShape,
    drawn_rows,
    roll_call_hold,
)
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import FREE_BOND, QUEUE_MAX, DeviceClass, provider_hold
from runtime.cryptography.merkle import merkle_path, merkle_root
from runtime.frame.holds import Hold
from runtime.frame.schedule import TAKE_WEIGHT
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.actors import Actor, World, always, one_of
from simulation.books import Books, Keys, PalletBooks, Rule, both_or_none, claims, counts

SECURED = Rule("secured collateral of a device, and that of its races")
BUSY = Rule("devices that are bound to a case, and the cases that bind them", both_or_none)
OWNED = Rule("devices of an owner, and devices")
LISTED = Rule("devices, and those listed by owner")
OFFERED = Rule("offers of a device, and offers with it")


def _provider(books: Books, keys: Keys, provider: Any, sign: int) -> None:
    books.case(keys[0], provider_hold(keys[0]), sign * provider.deposit)


def _device(books: Books, keys: Keys, device: Any, sign: int) -> None:
    books.owners[keys[0]] = device.owner
    books.case(device.owner, Hold(FREE_BOND, keys[0]), sign * (device.bond - device.secured))
    books[SECURED].claim(keys[0], sign * device.secured)
    books[OWNED].count(device.owner, sign)
    books[LISTED].claim((device.owner, keys[0]), sign)
    books[OFFERED].claim(keys[0], sign * device.offers)
    if device.assignment is not None:
        books[BUSY].claim(keys[0], sign)


def _enrolment(books: Books, keys: Keys, enrolled: Any, sign: int) -> None:
    books.case(enrolled.owner, roll_call_hold(keys[0]), sign * enrolled.bond)


WORLDS = (
    PalletBooks(
        Devices,
        (
            (Devices.providers, _provider),
            (Devices.devices, _device),
            (Devices.device_count, claims(OWNED)),
            (Devices.devices_of, counts(LISTED, lambda keys: keys)),
        ),
    ),
    PalletBooks(Capacity, ((Capacity.enrolments, _enrolment),)),
)


# Invented rows under a root: the chain accepts them like right ones, and inspectors do not. They serve simulations of
# roll calls, where devices are names and the chain computes no product.
DIGESTS = [number.to_bytes(32, "little") for number in range(ROWS_MIN)]
ROOT = merkle_root(ROW_DOMAIN, DIGESTS)


def shown_rows(rows_seed: bytes, device: bytes) -> tuple[ShownRow, ...]:
    """Return the rows that open `ROOT` for a device with the fewest rows."""
    return tuple(ShownRow(DIGESTS[place], _path(place)) for place in drawn_rows(rows_seed, device, ROWS_MIN))


@cache  # a path costs the whole tree, and there is one for each row
def _path(place: int) -> tuple[bytes, ...]:
    return merkle_path(ROW_DOMAIN, DIGESTS, place)


def _gone(world: World, _: Actor) -> bytes:
    """Return a provider that has left without unregistering, else any account."""
    devices, stake = world.bound[Devices], world.bound[TrustStake]
    gone = [stash for stash, _ in devices.providers.items() if stash not in stake.candidates and not stake.bonds[stash]]
    return world.chance.choice(gone) if gone else world.account()


def _shape(world: World, _: Actor) -> WorkShape:
    return WorkShape(world.chance.choice((SIZE_MIN, 1)), ROWS_MIN, 4_096)


HOOKS = ((RETURN_BUDGET, RETURN_WEIGHT + TAKE_WEIGHT),)

ARGUMENTS = {
    "device": lambda world, who: world.device(who),
    "seal_key": lambda _, who: who.vrf,
    "endpoint": one_of(b"http://127.0.0.1:1", b"ftp://nowhere", b"http://a b"),
    "kind": one_of(*DeviceClass),
    "uuid_hash": lambda world, _: bytes([world.chance.randrange(4)]) * 32,
    "bond": lambda world, _: world.amount(),
    "queue": one_of(*range(QUEUE_MAX + 2)),
    "shape": _shape,
    "rows": always(()),
    "Devices.drop_provider.stash": _gone,
}
