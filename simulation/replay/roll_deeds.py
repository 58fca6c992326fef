"""Devices of a recorded chain at roll calls: most state a proof, and liars invent a part of their rows.

Invariant: the false rows of a proof are a function of its claim. All right rows are those under one root.
"""

from collections.abc import Iterator
from dataclasses import replace

from genesis.spec import ChainSpec
from gpu_tasks.market.capacity import roll_call as times
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import ROUNDS_MAX, ROWS_MIN, SIZE_MIN, WorkShape
from gpu_tasks.market.devices.devices import Devices
from simulation.actors import BY_STASH, Deed, World, portion
from simulation.pallets.devices import ROOT

SHAPE = WorkShape(SIZE_MIN, ROWS_MIN, ROUNDS_MAX)
"""The work of each device. It proves enough for a CPU in any block that accepts proofs."""
PERIOD = 110
SILENT, LIES = 0.1, 0.4
"""The shares of devices that state no proof at a roll call, and of false ones among the proofs of a liar."""
FALSE_ROOT = b"the root of invented rows".ljust(32)


def with_roll_calls(spec: ChainSpec) -> ChainSpec:
    """Return the specification with frequent roll calls."""
    return with_numbers(spec, {"Capacity.roll_calls_enabled": 1, "Capacity.period": PERIOD})


def with_numbers(spec: ChainSpec, numbers: dict[str, int]) -> ChainSpec:
    """Return the specification with some parameters changed."""
    patch = spec.patch or {}
    return replace(spec, patch={**patch, "chainParameters": {**patch.get("chainParameters", {}), **numbers}})


def roll_deeds(world: World) -> Iterator[Deed]:
    """Yield the proofs of devices at a roll call that accepts them."""
    capacity, devices = world.bound[Capacity], world.bound[Devices]
    called = capacity.current.get()
    if called is None or not times.can_prove(called, world.height):
        return
    for device, record in list(devices.devices.items()):
        actor, proof = None if record is None else BY_STASH.get(record.owner), capacity.proofs[device]
        is_silent = portion(device + called.seed, b"silent") < SILENT
        if actor is None or is_silent or (proof is not None and proof.number == called.number):
            continue
        is_lie = actor.name in world.liars and portion(device + called.seed, b"invents") < LIES
        call = Capacity.prove(device=device, shape=SHAPE, root=FALSE_ROOT if is_lie else ROOT)
        yield Deed(actor.provider, call)


def false_rows(claim_id: bytes, root: bytes, rows: int) -> range:
    """Return the false rows of a proof: the last ones."""
    return range(0) if root == ROOT else range(int(rows * portion(claim_id, b"computed")), rows)
