"""Faults at the boundary between two epochs, triggered by final blocks and not by the clock.

Invariant: the nodes that are down at a boundary and those that misbehave have together less than a third of the stake
of both sets. The network must continue without them.
"""

from random import Random

from consensus.validators import ValidatorSet
from devnet.simulation.elections import place_of
from devnet.simulation.node import SimulatedNode
from devnet.simulation.world import Weather, World

BEFORE_MAX = 3  # blocks before the boundary at which a fault begins, at the most
DOWN_MS = (3_000, 14_000)
EFFECTS_TO_LIVE_MAX = 12  # effects that a node executes before a cut kills it


class EdgeTrouble:
    """Faults at the epoch boundaries of one run, until `until_ms`."""

    def __init__(self, world: World[SimulatedNode], kinds: tuple[str, ...], until_ms: int) -> None:
        """Watch the world's final blocks."""
        self._world = world
        self._kinds = kinds
        self._until_ms = until_ms
        self._chance = Random(f"{world.seed}/edges")
        self._next_epoch = 0
        self._before = self._chance.randint(0, BEFORE_MAX)
        world.watchers.append(self._see)

    def _see(self, height: int) -> None:
        """Strike if this height is near the end of an epoch. The world reports each height once."""
        parameters = self._world.parameters
        epoch = parameters.epoch_of(height)
        if epoch < self._next_epoch or height < parameters.boundary(epoch) - self._before:
            return
        self._next_epoch = epoch + 1
        self._before = self._chance.randint(0, BEFORE_MAX)
        if self._world.now_ms < self._until_ms:
            self._strike(self._chance.choice(self._kinds), epoch)

    def _strike(self, kind: str, epoch: int) -> None:
        world, chance = self._world, self._chance
        now = world.now_ms
        end = min(now + chance.randint(*DOWN_MS), self._until_ms)
        match kind:
            case "third":
                for node in self._a_third(epoch):
                    world.at(now, crash, node)
                    world.at(end, restart, node)
            case "cut":
                victim = chance.choice(world.nodes)
                victim.effects_to_live = chance.randrange(EFFECTS_TO_LIVE_MAX)
                world.at(end, restart, victim)
            case "blackout":
                for node in world.nodes:
                    world.at(now + chance.randrange(200), crash, node)
                    world.at(now + chance.randint(200, 2_000), restart, node)
            case "partition":
                weather = world.weather
                side = tuple(chance.randrange(2) for _ in world.nodes)
                world.weather = Weather(weather.delay_min_ms, weather.delay_max_ms, side=side)
                world.at(end, _set_weather, world, Weather(weather.delay_min_ms, weather.delay_max_ms))
            case _:
                raise ValueError(f"no trouble {kind!r}")

    def _a_third(self, epoch: int) -> list[SimulatedNode]:
        """Return honest members that may be down together, in both the old and the new set."""
        sets = [self._world.epochs(number).validators for number in (epoch, epoch + 1)]
        away = {node.number for node in self._world.nodes if not node.is_honest}
        victims = [node for node in self._world.nodes if node.is_honest]
        self._chance.shuffle(victims)
        chosen = []
        for node in victims:
            if all(_is_bearable(members, away | {node.number}) for members in sets):
                away.add(node.number)
                chosen.append(node)
        return chosen


def _is_bearable(members: ValidatorSet, away: set[int]) -> bool:
    weight = sum(member.weight for member in members.members if place_of(member.stash) in away)
    return 3 * weight < members.total


def crash(node: SimulatedNode) -> None:
    """Crash a running node."""
    if node.machine is not None:
        node.crash()


def restart(node: SimulatedNode) -> None:
    """Start a crashed node again. A node that never started stays down."""
    if node.machine is None and node.starts > 0:
        node.start()


def _set_weather(world: World[SimulatedNode], weather: Weather) -> None:
    world.weather = weather
