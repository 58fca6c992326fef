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

NodeLinks = frozenset[tuple[int, int]]
START_MS = 1_800_000_000_000
LAN_DELAY_MS = (2, 20)
WAN_DELAY_MS = (50, 150)
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
    delay_ms: tuple[int, int] = LAN_DELAY_MS
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
        outcome_fields = asdict(self)
        del outcome_fields["accept_ms"], outcome_fields["final_ms"]
        return outcome_fields


def run(scenario: SimulatedScenario, seed: int) -> ScenarioOutcome:
    """Simulate one scenario with one seed: storm, healing, quiet. Then judge the run."""
    world = make_world(scenario, seed)
    # Late nodes and joiners start at healing, when `_heal` starts every stopped node.
    for sim_node in world.nodes[: len(world.nodes) - scenario.late - scenario.joiners]:
        sim_node.start()
    heal_ms = START_MS + 1_000 * scenario.storm_s
    end_ms = heal_ms + 1_000 * scenario.quiet_s
    if scenario.storm_s:
        plan_storm(world, scenario, heal_ms)
    if scenario.edges:
        EdgeTrouble(world, scenario.edges, heal_ms if scenario.storm_s else end_ms - 10_000)
    world.run_until(heal_ms)
    at_healing = {sim_node.number: sim_node.disk.final.height for sim_node in world.nodes}
    world.run_until(end_ms)
    return judge(world, scenario, seed, at_healing)


def make_world(scenario: SimulatedScenario, run_seed: int) -> World[SimulatedNode]:
    """Return a world of nodes with their roles, not started."""
    key_rings = make_rings(scenario)
    verify = verify_real if scenario.real_signatures else verify_fake
    misbehaving_count = scenario.silent + scenario.equivocators + scenario.twins + scenario.slow + scenario.withholders
    stakes = [stake_of(scenario, node_number) for node_number in range(len(key_rings))]
    field = Field(key_rings, stakes, range(misbehaving_count), scenario.validators)
    name = f"{scenario.name}/{run_seed}"
    elections = Elections(field, scenario.change, scenario.era_epochs, name)
    world: World[SimulatedNode] = World(
        name, scenario.parameters, elections, verify, Weather(*scenario.delay_ms), START_MS
    )
    world.encodes = scenario.real_signatures or scenario.encodes
    node_classes = [
        *[SilentNode] * scenario.silent, *[Equivocator] * scenario.equivocators, *[SlowNode] * scenario.slow,
        *[Withholder] * scenario.withholders, *[Twin] * scenario.twins,
    ]  # fmt: skip
    first_twin = len(node_classes) - scenario.twins
    node_classes += [SimulatedNode] * (len(key_rings) - len(node_classes))
    # The second machine of each twin is one more node with the same keys.
    node_keys = [*key_rings, *key_rings[first_twin : first_twin + scenario.twins]]
    node_classes += [Twin] * scenario.twins
    node_classes += [Follower] * scenario.followers + [Joiner] * scenario.joiners
    node_keys += [KeyRing((fake_signer(node_number),)) for node_number in range(len(node_keys), len(node_classes))]
    offset_max_ms = scenario.clock_offset_max_ms
    world.nodes = [
        node_class(world, node_number, key_ring, world.random.randint(0, offset_max_ms))
        for node_number, (node_class, key_ring) in enumerate(zip(node_classes, node_keys, strict=True))
    ]
    world.links = links_of(scenario, len(world.nodes), world.random)
    return world


def links_of(scenario: SimulatedScenario, node_count: int, random_source: Random) -> NodeLinks | None:
    """Return the connections between nodes, or None for a full mesh."""
    match scenario.shape.split():
        case ["mesh"]:
            return None
        case ["ring", peer_count]:
            return ring_links(node_count, int(peer_count))
        case ["star"]:
            return star_links(node_count)
        case ["line"]:
            return line_links(node_count)
        case ["sparse"]:
            return sparse_links(node_count, random_source)
        case _:
            raise ValueError(f"no shape {scenario.shape!r}")


def both_ways(node_pairs: Iterable[tuple[int, int]]) -> NodeLinks:
    """Return the connections in both directions."""
    return frozenset(
        node_link for first_node, node in node_pairs for node_link in ((first_node, node), (node, first_node))
    )


def ring_links(node_count: int, peer_count: int) -> NodeLinks:
    """Connect each node with its `peers` nearest nodes on a circle."""
    circle_steps = range(1, peer_count // 2 + 1)
    return both_ways(
        (node_index, (node_index + circle_step) % node_count)
        for node_index in range(node_count)
        for circle_step in circle_steps
    )


def star_links(node_count: int) -> NodeLinks:
    """Connect every node with node 0 only."""
    return both_ways((0, node_index) for node_index in range(1, node_count))


def line_links(node_count: int) -> NodeLinks:
    """Connect each node with the next one."""
    return both_ways((node_index, node_index + 1) for node_index in range(node_count - 1))


def sparse_links(node_count: int, random_source: Random) -> NodeLinks:
    """Connect the nodes as a random tree and half as many links again: connected, and far from a mesh."""
    tree_links = [(node_index, random_source.randrange(node_index)) for node_index in range(1, node_count)]
    further_links = [
        (random_source.randrange(node_count), random_source.randrange(node_count)) for _ in range(node_count // 2)
    ]
    return both_ways(node_pair for node_pair in tree_links + further_links if node_pair[0] != node_pair[1])


def make_rings(scenario: SimulatedScenario) -> list[KeyRing]:
    """Return the session keys of each candidate: one key, or two in turn."""
    make_signer = real_signer if scenario.real_signatures else fake_signer
    key_rings = []
    for node_number in range(scenario.validators + scenario.spares):
        node_count = 2 if scenario.rekey and node_number % 2 else 1
        signers = tuple(make_signer(node_number + SECOND_KEYS * node_index) for node_index in range(node_count))
        key_rings.append(KeyRing(signers, REKEY_ERAS * scenario.era_epochs))
    return key_rings


def stake_of(scenario: SimulatedScenario, node_number: int) -> int:
    """Return a validator's weight.

    Unequal weights differ by up to a half, so that a third of the nodes has about a third of the stake.
    """
    if scenario.unequal:
        return 1_000 + 97 * node_number * node_number % 500
    return scenario.stakes[node_number] if scenario.stakes else 1_000


def plan_storm(world: World[SimulatedNode], scenario: SimulatedScenario, heal_ms: int) -> None:
    """Plan crashes, partitions, loss and delay at random times until `heal_ms`. Then all faults end."""
    random_source = Random(f"storm/{world.seed}")
    moment_ms = START_MS + 2_000
    while moment_ms < heal_ms - 1_000:
        end_ms = min(moment_ms + random_source.randint(1_000, 12_000), heal_ms - 1)
        fault_kind = random_source.choice(scenario.storm)
        if fault_kind in ("crash", "cut", "blackout", "clocks", "put-back"):
            plan_trouble(world, fault_kind, random_source, moment_ms, end_ms)
        else:
            world.at(moment_ms, _set_weather, world, bad_weather(scenario, fault_kind, random_source, len(world.nodes)))
        world.at(end_ms, _set_weather, world, Weather(*scenario.delay_ms))
        moment_ms += random_source.randint(500, 6_000)
    world.at(heal_ms, _heal_network, world, scenario)


def plan_trouble(
    world: World[SimulatedNode], fault_kind: str, random_source: Random, moment_ms: int, end_ms: int
) -> None:
    """Plan a fault of nodes from `now` to `end`."""
    victim = random_source.choice(world.nodes)
    match fault_kind:
        case "crash":
            world.at(moment_ms, crash, victim)
            world.at(end_ms, restart, victim)
        case "cut":
            world.at(moment_ms, _cut_power_after, victim, random_source.randrange(EFFECTS_TO_LIVE_MAX))
            world.at(end_ms, restart, victim)
        case "put-back":
            world.at(moment_ms, crash, victim)
            world.at(end_ms, _restore_database, victim)
        case "clocks":
            world.at(moment_ms, _set_clock, victim, random_source.randint(-CLOCK_JUMP_MAX_MS, CLOCK_JUMP_MAX_MS))
            world.at(end_ms, _set_clock, victim, victim.clock_offset_ms)
        case _:
            for sim_node in world.nodes:
                world.at(moment_ms + random_source.randrange(50), crash, sim_node)
                world.at(moment_ms + random_source.randint(100, 2_000), restart, sim_node)


def bad_weather(scenario: SimulatedScenario, fault_kind: str, random_source: Random, node_count: int) -> Weather:
    """Return the faulty weather of a kind."""
    match fault_kind:
        case "partition" | "one-way":
            side_by_node = tuple(random_source.randrange(random_source.choice((2, 2, 3))) for _ in range(node_count))
            return Weather(*scenario.delay_ms, side=side_by_node, one_way=fault_kind == "one-way")
        case "loss":
            return Weather(*scenario.delay_ms, random_source.randint(1, 40))
        case "tail":
            percent_shares = random_source.randint(1, 10), random_source.randint(1, 30)
            return Weather(*scenario.delay_ms, tail_percent=percent_shares[0], duplicate_percent=percent_shares[1])
        case _:
            delay_max_ms = random_source.randint(100, 1_500)
            return Weather(delay_max_ms // 4, delay_max_ms)


def _cut_power_after(sim_node: SimulatedNode, effect_count: int) -> None:
    if sim_node.machine is not None:
        sim_node.effects_to_live = effect_count


def _set_clock(sim_node: SimulatedNode, offset_ms: int) -> None:
    sim_node.clock_offset_ms = offset_ms


def _restore_database(sim_node: SimulatedNode) -> None:
    """Restore an old database as operators are told: one node at a time, never the last copy of a final block."""
    other_disks = [node.disk for node in sim_node.world.nodes if node.is_honest and node is not sim_node]
    is_safe = not any(other_disk.is_behind for other_disk in other_disks)
    if (
        sim_node.machine is None
        and is_safe
        and any(other_disk.final.height >= sim_node.disk.noted for other_disk in other_disks)
    ):
        sim_node.lose_database()
    restart(sim_node)


def _set_weather(world: World[SimulatedNode], weather: Weather) -> None:
    world.weather = weather


def _heal_network(world: World[SimulatedNode], scenario: SimulatedScenario) -> None:
    world.weather = Weather(*scenario.delay_ms)
    for sim_node in world.nodes:
        sim_node.effects_to_live = None
        if sim_node.machine is None:
            sim_node.start()


def judge(
    world: World[SimulatedNode], scenario: SimulatedScenario, run_seed: int, at_healing: dict[int, int]
) -> ScenarioOutcome:
    """Compare a run with the requirements."""
    findings = world.findings
    failures = [f"conflicting finals: {conflict}" for conflict in findings.conflicting_finals]
    failures += [f"honest node framed: {framed_charge}" for framed_charge in findings.framed]
    if findings.false_evidence:
        failures.append(f"{findings.false_evidence} pieces of evidence do not verify")
    honest_nodes = [node for node in world.nodes if node.is_honest]
    new_finals = min(node.disk.final.height - at_healing[node.number] for node in honest_nodes)
    if new_finals < FINALS_AFTER_HEALING_MIN:
        failures.append(f"only {new_finals} new final blocks after healing")
    blocks_behind = max(world.final_at) - min(node.disk.final.height for node in honest_nodes)
    if (scenario.late or scenario.joiners) and blocks_behind > LATE_BEHIND_MAX:
        failures.append(f"the late joiner is {blocks_behind} blocks behind")
    for joiner in world.nodes:
        if isinstance(joiner, Joiner) and joiner.followed < scenario.handoffs_least:
            failures.append(f"the joiner by handoffs followed {joiner.followed}")
    failures += [f"a handoff was refused: {refusal_reason}" for refusal_reason in findings.refused_handoffs]
    return ScenarioOutcome(
        scenario.name, run_seed, world.trace(), tuple(failures), scenario.storm_s + scenario.quiet_s,
        max(world.final_at), new_finals, len(findings.accused), findings.soft_conflicts, findings.soft_reverts,
        dict(sorted(findings.messages.items())), tuple(findings.accept_ms), tuple(findings.final_ms),
        findings.bytes_sent, count_changes(world),
    )  # fmt: skip


def count_changes(world: World[SimulatedNode]) -> int:
    """Return the number of finished epochs after which the set, a key or a weight changed."""
    last_epoch = world.parameters.epoch_of(max(world.final_at) + 1)
    members_by_epoch = [world.epochs(node_number).validators.members for node_number in range(last_epoch + 1)]
    return sum(members_before != members_after for members_before, members_after in pairwise(members_by_epoch))
