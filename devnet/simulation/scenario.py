"""Scenarios: the validators, the misbehaving ones among them, and their storm. One run, and its judgement."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from random import Random

from consensus.parameters import DEVNET, Parameters
from devnet.simulation.byzantine import Equivocator, SilentNode, SlowNode, Twin, Withholder
from devnet.simulation.edges import EdgeTrouble, crash, restart
from devnet.simulation.elections import Elections, Field, SetChange
from devnet.simulation.joiner import Joiner
from devnet.simulation.keys import KeyRing, fake_signer, real_signer, verify_fake, verify_real
from devnet.simulation.node import Follower, SimulatedNode
from devnet.simulation.world import Weather, World

Links = frozenset[tuple[int, int]]
START_MS = 1_800_000_000_000
LAN = (2, 20)
WAN = (50, 150)
FINALS_AFTER_HEALING_MIN = 6
STORM_MIX = ("crash", "crash", "blackout", "partition", "partition", "loss", "loss", "delay", "delay")
HARD_MIX = ("cut", "cut", "cut", "one-way", "tail", "clocks", "clocks")
CUT_MIX = ("cut", "cut", "cut", "blackout", "partition", "loss")
PUT_BACK_MIX = ("put-back", "put-back", "crash", "cut", "loss", "delay")
LATE_MIX = ("delay", "crash")
EFFECTS_TO_LIVE_MAX = 12
CLOCK_JUMP_MAX_MS = 3_000
LATE_BEHIND_MAX = 12
SECOND_KEYS = 1_000
REKEY_ERAS = 2
EDGE_MIX = ("third", "third", "cut", "blackout", "partition")
BLACKOUT_MIX = ("blackout", "blackout", "blackout", "partition", "loss", "delay")


@dataclass(frozen=True)
class SimulatedScenario:
    """A run that is reproducible given its seed. Times are in seconds."""

    name: str
    validators: int = 4
    stakes: tuple[int, ...] = ()
    silent: int = 0
    equivocators: int = 0
    twins: int = 0
    slow: int = 0
    withholders: int = 0
    followers: int = 0
    late: int = 0
    shape: str = "mesh"
    storm: tuple[str, ...] = STORM_MIX
    unequal: bool = False
    storm_s: int = 80
    quiet_s: int = 40
    delay_ms: tuple[int, int] = LAN
    clock_offset_max_ms: int = 100
    change: SetChange = SetChange.NONE
    spares: int = 0  # nodes beyond the seats that may be elected
    era_epochs: int = 1
    rekey: bool = False
    edges: tuple[str, ...] = ()
    joiners: int = 0
    handoffs_least: int = 0
    """The least handoffs that each joiner must follow."""
    real_signatures: bool = False
    encodes: bool = False
    parameters: Parameters = field(default=DEVNET)


@dataclass(frozen=True)
class ScenarioOutcome:
    """The outcome of one run."""

    scenario: str
    seed: int
    trace: str
    failures: tuple[str, ...]
    simulated_s: int
    finals: int
    finals_after_healing: int
    accused: int
    soft_conflicts: int
    soft_reverts: int
    messages: dict[str, int]
    accept_ms: tuple[int, ...]
    final_ms: tuple[int, ...]
    bytes_sent: int
    set_changes: int

    def as_json(self) -> dict[str, object]:
        """Return the outcome for the report, without the single latencies."""
        plain = asdict(self)
        del plain["accept_ms"], plain["final_ms"]
        return plain


def run(scenario: SimulatedScenario, seed: int) -> ScenarioOutcome:
    """Simulate one scenario with one seed: storm, healing, quiet. Then judge the run."""
    world = make_world(scenario, seed)
    # Late nodes and joiners start at healing, when `_heal` starts every stopped node.
    for node in world.nodes[: len(world.nodes) - scenario.late - scenario.joiners]:
        node.start()
    heal_ms = START_MS + 1_000 * scenario.storm_s
    end_ms = heal_ms + 1_000 * scenario.quiet_s
    if scenario.storm_s:
        plan_storm(world, scenario, heal_ms)
    if scenario.edges:
        EdgeTrouble(world, scenario.edges, heal_ms if scenario.storm_s else end_ms - 10_000)
    world.run_until(heal_ms)
    at_healing = {node.number: node.disk.final.height for node in world.nodes}
    world.run_until(end_ms)
    return judge(world, scenario, seed, at_healing)


def make_world(scenario: SimulatedScenario, seed: int) -> World[SimulatedNode]:
    """Return a world of nodes with their roles, not started."""
    rings = make_rings(scenario)
    verify = verify_real if scenario.real_signatures else verify_fake
    bad = scenario.silent + scenario.equivocators + scenario.twins + scenario.slow + scenario.withholders
    stakes = [stake_of(scenario, number) for number in range(len(rings))]
    field = Field(rings, stakes, range(bad), scenario.validators)
    name = f"{scenario.name}/{seed}"
    epochs = Elections(field, scenario.change, scenario.era_epochs, name)
    world: World[SimulatedNode] = World(
        name, scenario.parameters, epochs, verify, Weather(*scenario.delay_ms), START_MS
    )
    world.encodes = scenario.real_signatures or scenario.encodes
    roles = [
        *[SilentNode] * scenario.silent, *[Equivocator] * scenario.equivocators, *[SlowNode] * scenario.slow,
        *[Withholder] * scenario.withholders, *[Twin] * scenario.twins,
    ]  # fmt: skip
    first_twin = len(roles) - scenario.twins
    roles += [SimulatedNode] * (len(rings) - len(roles))
    # The second machine of each twin is one more node with the same keys.
    keys = [*rings, *rings[first_twin : first_twin + scenario.twins]]
    roles += [Twin] * scenario.twins
    roles += [Follower] * scenario.followers + [Joiner] * scenario.joiners
    keys += [KeyRing((fake_signer(number),)) for number in range(len(keys), len(roles))]
    most = scenario.clock_offset_max_ms
    world.nodes = [
        role(world, number, key, world.random.randint(0, most))
        for number, (role, key) in enumerate(zip(roles, keys, strict=True))
    ]
    world.links = links_of(scenario, len(world.nodes), world.random)
    return world


def links_of(scenario: SimulatedScenario, count: int, random: Random) -> Links | None:
    """Return the connections between nodes, or None for a full mesh."""
    match scenario.shape.split():
        case ["mesh"]:
            return None
        case ["ring", peers]:
            return ring(count, int(peers))
        case ["star"]:
            return star(count)
        case ["line"]:
            return line(count)
        case ["sparse"]:
            return sparse(count, random)
        case _:
            raise ValueError(f"no shape {scenario.shape!r}")


def both_ways(pairs: Iterable[tuple[int, int]]) -> Links:
    """Return the connections in both directions."""
    return frozenset(link for first, second in pairs for link in ((first, second), (second, first)))


def ring(count: int, peers: int) -> Links:
    """Connect each node with its `peers` nearest nodes on a circle."""
    steps = range(1, peers // 2 + 1)
    return both_ways((place, (place + step) % count) for place in range(count) for step in steps)


def star(count: int) -> Links:
    """Connect every node with node 0 only."""
    return both_ways((0, place) for place in range(1, count))


def line(count: int) -> Links:
    """Connect each node with the next one."""
    return both_ways((place, place + 1) for place in range(count - 1))


def sparse(count: int, random: Random) -> Links:
    """Connect the nodes as a random tree and half as many links again: connected, and far from a mesh."""
    tree = [(place, random.randrange(place)) for place in range(1, count)]
    more = [(random.randrange(count), random.randrange(count)) for _ in range(count // 2)]
    return both_ways(pair for pair in tree + more if pair[0] != pair[1])


def make_rings(scenario: SimulatedScenario) -> list[KeyRing]:
    """Return the session keys of each candidate: one key, or two in turn."""
    make = real_signer if scenario.real_signatures else fake_signer
    rings = []
    for number in range(scenario.validators + scenario.spares):
        count = 2 if scenario.rekey and number % 2 else 1
        signers = tuple(make(number + SECOND_KEYS * place) for place in range(count))
        rings.append(KeyRing(signers, REKEY_ERAS * scenario.era_epochs))
    return rings


def stake_of(scenario: SimulatedScenario, number: int) -> int:
    """Return a validator's weight.

    Unequal weights differ by up to a half, so that a third of the nodes has about a third of the stake.
    """
    if scenario.unequal:
        return 1_000 + 97 * number * number % 500
    return scenario.stakes[number] if scenario.stakes else 1_000


def plan_storm(world: World[SimulatedNode], scenario: SimulatedScenario, heal_ms: int) -> None:
    """Plan crashes, partitions, loss and delay at random times until `heal_ms`. Then all faults end."""
    chance = Random(f"storm/{world.seed}")
    now = START_MS + 2_000
    while now < heal_ms - 1_000:
        end = min(now + chance.randint(1_000, 12_000), heal_ms - 1)
        kind = chance.choice(scenario.storm)
        if kind in ("crash", "cut", "blackout", "clocks", "put-back"):
            plan_trouble(world, kind, chance, now, end)
        else:
            world.at(now, _set_weather, world, bad_weather(scenario, kind, chance, len(world.nodes)))
        world.at(end, _set_weather, world, Weather(*scenario.delay_ms))
        now += chance.randint(500, 6_000)
    world.at(heal_ms, _heal, world, scenario)


def plan_trouble(world: World[SimulatedNode], kind: str, chance: Random, now: int, end: int) -> None:
    """Plan a fault of nodes from `now` to `end`."""
    victim = chance.choice(world.nodes)
    match kind:
        case "crash":
            world.at(now, crash, victim)
            world.at(end, restart, victim)
        case "cut":
            world.at(now, _cut, victim, chance.randrange(EFFECTS_TO_LIVE_MAX))
            world.at(end, restart, victim)
        case "put-back":
            world.at(now, crash, victim)
            world.at(end, _put_back, victim)
        case "clocks":
            world.at(now, _set_clock, victim, chance.randint(-CLOCK_JUMP_MAX_MS, CLOCK_JUMP_MAX_MS))
            world.at(end, _set_clock, victim, victim.clock_offset_ms)
        case _:
            for node in world.nodes:
                world.at(now + chance.randrange(50), crash, node)
                world.at(now + chance.randint(100, 2_000), restart, node)


def bad_weather(scenario: SimulatedScenario, kind: str, chance: Random, count: int) -> Weather:
    """Return the faulty weather of a kind."""
    match kind:
        case "partition" | "one-way":
            side = tuple(chance.randrange(chance.choice((2, 2, 3))) for _ in range(count))
            return Weather(*scenario.delay_ms, side=side, one_way=kind == "one-way")
        case "loss":
            return Weather(*scenario.delay_ms, chance.randint(1, 40))
        case "tail":
            shares = chance.randint(1, 10), chance.randint(1, 30)
            return Weather(*scenario.delay_ms, tail_percent=shares[0], duplicate_percent=shares[1])
        case _:
            slow = chance.randint(100, 1_500)
            return Weather(slow // 4, slow)


def _cut(node: SimulatedNode, effects: int) -> None:
    if node.machine is not None:
        node.effects_to_live = effects


def _set_clock(node: SimulatedNode, offset_ms: int) -> None:
    node.clock_offset_ms = offset_ms


def _put_back(node: SimulatedNode) -> None:
    """Restore an old database as operators are told: one node at a time, never the last copy of a final block."""
    others = [other.disk for other in node.world.nodes if other.is_honest and other is not node]
    is_safe = not any(disk.is_behind for disk in others)
    if node.machine is None and is_safe and any(disk.final.height >= node.disk.noted for disk in others):
        node.lose_database()
    restart(node)


def _set_weather(world: World[SimulatedNode], weather: Weather) -> None:
    world.weather = weather


def _heal(world: World[SimulatedNode], scenario: SimulatedScenario) -> None:
    world.weather = Weather(*scenario.delay_ms)
    for node in world.nodes:
        node.effects_to_live = None
        if node.machine is None:
            node.start()


def judge(
    world: World[SimulatedNode], scenario: SimulatedScenario, seed: int, at_healing: dict[int, int]
) -> ScenarioOutcome:
    """Compare a run with the requirements."""
    findings = world.findings
    failures = [f"conflicting finals: {conflict}" for conflict in findings.conflicting_finals]
    failures += [f"honest node framed: {charge}" for charge in findings.framed]
    if findings.false_evidence:
        failures.append(f"{findings.false_evidence} pieces of evidence do not verify")
    honest = [node for node in world.nodes if node.is_honest]
    new = min(node.disk.final.height - at_healing[node.number] for node in honest)
    if new < FINALS_AFTER_HEALING_MIN:
        failures.append(f"only {new} new final blocks after healing")
    behind = max(world.final_at) - min(node.disk.final.height for node in honest)
    if (scenario.late or scenario.joiners) and behind > LATE_BEHIND_MAX:
        failures.append(f"who joined late is {behind} blocks behind")
    for joiner in world.nodes:
        if isinstance(joiner, Joiner) and joiner.followed < scenario.handoffs_least:
            failures.append(f"who joined by handoffs followed {joiner.followed}")
    failures += [f"a handoff was refused: {reason}" for reason in findings.refused_handoffs]
    return ScenarioOutcome(
        scenario.name, seed, world.trace(), tuple(failures), scenario.storm_s + scenario.quiet_s,
        max(world.final_at), new, len(findings.accused), findings.soft_conflicts, findings.soft_reverts,
        dict(sorted(findings.messages.items())), tuple(findings.accept_ms), tuple(findings.final_ms),
        findings.bytes_sent, count_changes(world),
    )  # fmt: skip


def count_changes(world: World[SimulatedNode]) -> int:
    """Return the number of finished epochs after which the set, a key or a weight changed."""
    last = world.parameters.epoch_of(max(world.final_at) + 1)
    members = [world.epochs(number).validators.members for number in range(last + 1)]
    return sum(before != after for before, after in pairwise(members))
