"""CPU time of the pure consensus machine, per poll and per block, in a simulated network of four validators.

    Run: python -m benchmarks consensus          about 10 seconds

The scenario is five minutes of a calm network with real signatures. The benchmark times only `Machine.step`, without
the simulator around it. Every figure is per node. Block bytes, state and network are not included.
"""

import time
from collections.abc import Callable
from typing import Any

from benchmarks.figures import Figures
from consensus.machine import Machine
from devnet.simulation.node import SimulatedNode
from devnet.simulation.scenario import START_MS, SimulatedScenario, make_world
from devnet.simulation.world import World

VALIDATORS = 4
SIMULATED_SECONDS = 300
MICROSECONDS = 1e6
SCENARIO = SimulatedScenario("calm", VALIDATORS, clock_offset_max_ms=0, real_signatures=True)


class Meter:
    """The CPU seconds and calls of the functions that this meter wraps."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = 0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the same function, metered."""

        def metered(*arguments: Any) -> Any:
            start = time.process_time()
            result = function(*arguments)
            self.seconds += time.process_time() - start
            self.calls += 1
            return result

        return metered


def measure() -> Figures:
    """Run the scenario once with a fixed seed, so that each run has the same messages and decisions."""
    world = make_world(SCENARIO, run_seed=1)
    steps = Meter()
    checks = Meter()
    world.verify = checks.wrap(world.verify)
    for node in world.nodes:
        node.start()
        machine = node.machine
        if machine is None:
            raise RuntimeError("a node that was started has a machine")
        setattr(machine, Machine.step.__name__, steps.wrap(machine.step))
    world.run_until(START_MS + 1_000 * SIMULATED_SECONDS)
    return _figures(world, steps, checks)


def _figures(world: World[SimulatedNode], steps: Meter, checks: Meter) -> Figures:
    blocks = max(world.final_at)
    messages = world.findings.messages
    polls = messages["PullQuery"] / (VALIDATORS - 1) / VALIDATORS
    in_node = steps.seconds / VALIDATORS * MICROSECONDS
    return {
        "final_blocks": blocks,
        "polls_per_block": round(polls / blocks, 2),
        "messages_out_per_block": round(messages.total() / VALIDATORS / blocks, 1),
        "steps_per_block": round(steps.calls / VALIDATORS / blocks, 1),
        "machine_per_block_us": round(in_node / blocks),
        "machine_per_poll_us": round(in_node / polls),
        "machine_per_step_us": round(steps.seconds / steps.calls * MICROSECONDS, 1),
        "signature_checks_per_block": round(checks.calls / VALIDATORS / blocks, 1),
        "signature_checks_per_block_us": round(checks.seconds / VALIDATORS / blocks * MICROSECONDS),
    }
