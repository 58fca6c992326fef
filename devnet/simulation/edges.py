"""Faults at the boundary between two epochs, triggered by final blocks and not by the clock.

Invariant: the nodes that are down at a boundary and those that misbehave have together less than a third of the stake
of both sets. The network must continue without them.
"""

from random import Random

from consensus.validators import ValidatorSet
from devnet.simulation.elections import place_of
from devnet.simulation.node import SimulatedNode
from devnet.simulation.world import Weather, World

BLOCKS_BEFORE_MAX = 3  # blocks before the boundary at which a fault begins, at the most
DOWN_MS = (3_000, 14_000)
EFFECTS_TO_LIVE_MAX = 12  # effects that a node executes before a cut kills it


class EdgeTrouble:
    """Faults at the epoch boundaries of one run, until `until_ms`."""

    def __init__(self, world: World[SimulatedNode], fault_kinds: tuple[str, ...], until_ms: int) -> None:
        """Watch the world's final blocks."""
        self._world = world
        self._fault_kinds = fault_kinds
        self._until_ms = until_ms
        self._random_source = Random(f"{world.seed}/edges")
        self._next_epoch = 0
        self._blocks_before = self._random_source.randint(0, BLOCKS_BEFORE_MAX)
        world.watchers.append(self._watch_final_height)

    def _watch_final_height(self, height: int) -> None:
        """Strike if this height is near the end of an epoch. The world reports each height once."""
        parameters = self._world.parameters
        epoch = parameters.epoch_of(height)
        if epoch < self._next_epoch or height < parameters.boundary(epoch) - self._blocks_before:
            return
        self._next_epoch = epoch + 1
        self._blocks_before = self._random_source.randint(0, BLOCKS_BEFORE_MAX)
        if self._world.now_ms < self._until_ms:
            self._strike_network(self._random_source.choice(self._fault_kinds), epoch)

    def _strike_network(self, fault_kind: str, epoch: int) -> None:
        world, random_source = self._world, self._random_source
        now_ms = world.now_ms
        end_ms = min(now_ms + random_source.randint(*DOWN_MS), self._until_ms)
        match fault_kind:
            case "third":
                for sim_node in self._bearable_nodes(epoch):
                    world.at(now_ms, crash, sim_node)
                    world.at(end_ms, restart, sim_node)
            case "cut":
                victim = random_source.choice(world.nodes)
                victim.effects_to_live = random_source.randrange(EFFECTS_TO_LIVE_MAX)
                world.at(end_ms, restart, victim)
            case "blackout":
                for sim_node in world.nodes:
                    world.at(now_ms + random_source.randrange(200), crash, sim_node)
                    world.at(now_ms + random_source.randint(200, 2_000), restart, sim_node)
            case "partition":
                weather = world.weather
                side_by_node = tuple(random_source.randrange(2) for _ in world.nodes)
                world.weather = Weather(weather.delay_min_ms, weather.delay_max_ms, side=side_by_node)
                world.at(end_ms, _set_weather, world, Weather(weather.delay_min_ms, weather.delay_max_ms))
            case _:
                raise ValueError(f"no trouble {fault_kind!r}")

    def _bearable_nodes(self, epoch: int) -> list[SimulatedNode]:
        """Return honest members that may be down together, in both the old and the new set."""
        validator_sets = [self._world.epochs(epoch_number).validators for epoch_number in (epoch, epoch + 1)]
        absent_numbers = {sim_node.number for sim_node in self._world.nodes if not sim_node.is_honest}
        victim_nodes = [sim_node for sim_node in self._world.nodes if sim_node.is_honest]
        self._random_source.shuffle(victim_nodes)
        chosen_nodes = []
        for sim_node in victim_nodes:
            # Both sets must be able to finalise: the old one ends its epoch, and the new one takes over.
            if all(_is_bearable(validator_set, absent_numbers | {sim_node.number}) for validator_set in validator_sets):
                absent_numbers.add(sim_node.number)
                chosen_nodes.append(sim_node)
        return chosen_nodes


def _is_bearable(validator_set: ValidatorSet, absent_numbers: set[int]) -> bool:
    absent_weight = sum(member.weight for member in validator_set.members if place_of(member.stash) in absent_numbers)
    return 3 * absent_weight < validator_set.total


def crash(sim_node: SimulatedNode) -> None:
    """Crash a running node."""
    if sim_node.machine is not None:
        sim_node.crash()


def restart(sim_node: SimulatedNode) -> None:
    """Start a crashed node again. A node that never started stays down."""
    if sim_node.machine is None and sim_node.starts > 0:
        sim_node.start()


def _set_weather(world: World[SimulatedNode], weather: Weather) -> None:
    world.weather = weather
