"""Devices of a recorded chain at roll calls: most enrol, most of those answer, and inspectors object to some.

Invariant: all rows are invented (`simulation.pallets.devices`), so every objection is right. Most inspectors do not
check the rows, so that enough devices may work.
"""

from collections.abc import Iterator
from dataclasses import replace

from genesis.spec import ChainSpec
from gpu_tasks.market.capacity import roll_call as times
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import ROUNDS_MAX, ROWS_MIN, SIZE_MIN, WorkShape
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.devices.devices import Devices
from simulation.actors import BY_STASH, Actor, Deed, World, portion
from simulation.pallets.devices import ROOT, shown_rows

SHAPE = WorkShape(SIZE_MIN, ROWS_MIN, ROUNDS_MAX)
"""The work of each device. It proves enough for a CPU in any block that accepts commits."""
ENROLS, WITHDRAWS = 0.3, 0.003
PERIOD = 110
SILENT, FOUND_OUT = 0.1, 0.35
"""The shares of devices at each roll call that do not answer, and whose inspectors look at the rows."""


def with_roll_calls(spec: ChainSpec) -> ChainSpec:
    """Return the specification with frequent roll calls."""
    return with_numbers(spec, {"Capacity.roll_calls_enabled": 1, "Capacity.period": PERIOD})


def with_numbers(spec: ChainSpec, numbers: dict[str, int]) -> ChainSpec:
    """Return the specification with some parameters changed."""
    patch = spec.patch or {}
    return replace(spec, patch={**patch, "chainParameters": {**patch.get("chainParameters", {}), **numbers}})


def roll_deeds(world: World) -> Iterator[Deed]:
    """Yield the steps of devices and inspectors at an open roll call, except for forgotten ones."""
    capacity, devices = world.bound[Capacity], world.bound[Devices]
    called = capacity.current.get()
    for device, record in list(devices.devices.items()):
        actor = None if record is None else BY_STASH.get(record.owner)
        if actor is None:
            continue
        if device not in capacity.enrolments:
            if world.chance.random() < ENROLS:
                yield Deed(actor.stash, Capacity.enrol(device=device, shape=SHAPE))
        elif world.chance.random() < WITHDRAWS:
            yield Deed(actor.stash, Capacity.withdraw(device=device))
        elif called is not None:
            yield from _answers(world, actor, device, called)


def _answers(world: World, actor: Actor, device: bytes, called: RollCall) -> Iterator[Deed]:
    capacity, name = world.bound[Capacity], device + called.seed
    enrolled, proof = capacity.enrolments[device], capacity.proofs[device, called.number]
    if enrolled is None or enrolled.since >= called.at or portion(name, b"silent") < SILENT:
        return
    if proof is None:
        if times.can_commit(called, world.height):
            yield Deed(actor.provider, Capacity.commit(device=device, root=ROOT))
    elif not proof.is_open:
        if times.can_open(called, world.height):
            yield Deed(actor.provider, Capacity.show_rows(device=device, rows=shown_rows(called.rows_seed, device)))
    elif times.can_object(called, world.height) and portion(name, b"found out") < FOUND_OUT:
        for inspector in capacity.inspectors(called, device, enrolled.owner):
            if inspector in BY_STASH and inspector not in proof.objections:
                yield Deed(BY_STASH[inspector].provider, Capacity.object(device=device))
