"""Devices and Capacity: owners, bonds, and the races that devices secure."""

from typing import Any

from gpu_tasks.market.capacity.capacity import RETURN_BUDGET, RETURN_WEIGHT, Capacity
from gpu_tasks.market.capacity.proofs import ROWS_MIN, SIZE_MIN, WorkShape, proof_hold
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import FREE_BOND, QUEUE_MAX, DeviceClass, provider_hold
from runtime.frame.holds import Hold
from runtime.frame.schedule import TAKE_WEIGHT
from simulation.actors import Actor, World, always, one_of
from simulation.books import BROUGHT, Books, Keys, PalletBooks, Rule, both_or_none, claims, counts

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


def _open_proof(books: Books, keys: Keys, proof: Any, sign: int) -> None:
    books.case(proof.owner, proof_hold(keys[0]), sign * proof.held)
    books[BROUGHT].claim(keys[0], sign)


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
    PalletBooks(Capacity, ((Capacity.open_proofs, _open_proof),)),
)


ROOT = b"the root of computed rows".ljust(32)
"""The root that honest devices state at roll calls. No simulation computes a product."""


def _shape(world: World, _: Actor) -> WorkShape:
    return WorkShape(world.chance.choice((SIZE_MIN, 1)), ROWS_MIN, 4_096)


HOOKS = ((RETURN_BUDGET, RETURN_WEIGHT + TAKE_WEIGHT),)

ARGUMENTS = {
    "device": lambda world, who: world.device(who),
    "seal_key": lambda _, who: who.vrf,
    "endpoint": one_of(b"http://127.0.0.1:1", b"ftp://nowhere"),
    "kind": one_of(*DeviceClass),
    "uuid_hash": lambda world, _: bytes([world.chance.randrange(4)]) * 32,
    "bond": lambda world, _: world.amount(),
    "queue": one_of(*range(QUEUE_MAX + 2)),
    "shape": _shape,
    "root": always(ROOT),
}
