"""What a run is made of: who the validators are, which of them misbehave, and the storm they meet."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from random import Random

from consensus.parameters import DEVNET, Parameters
from consensus.validators import Epoch, Validator, ValidatorSet
from devnet.simulation.byzantine import Equivocator, SilentNode, Twin
from devnet.simulation.keys import Signer, fake_signer, real_signer, verify_fake, verify_real
from devnet.simulation.node import SimulatedNode
from devnet.simulation.weather import Weather
from devnet.simulation.world import World

START_MS = 1_800_000_000_000
LAN = (2, 20)
WAN = (50, 150)
FINALS_AFTER_HEALING_MIN = 6
STORM_MIX = ("crash", "crash", "blackout", "partition", "partition", "loss", "loss", "delay", "delay")
BLACKOUT_MIX = ("blackout", "blackout", "blackout", "partition", "loss", "delay")


@dataclass(frozen=True)
class Scenario:
    """A reproducible run, but for its seed. Times in seconds."""

    name: str
    validators: int = 4
    stakes: tuple[int, ...] = ()
    silent: int = 0
    equivocators: int = 0
    twins: int = 0
    blackouts: bool = False
    storm_s: int = 80
    quiet_s: int = 40
    delay_ms: tuple[int, int] = LAN
    clock_offset_max_ms: int = 100
    rotate: int = 0
    real_signatures: bool = False
    parameters: Parameters = field(default=DEVNET)


@dataclass(frozen=True)
class ScenarioOutcome:
    """What one run showed."""

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

    def as_json(self) -> dict[str, object]:
        """For the report, without the single latencies."""
        plain = asdict(self)
        del plain["accept_ms"], plain["final_ms"]
        return plain


def run(scenario: Scenario, seed: int) -> ScenarioOutcome:
    """Simulate one scenario with one seed: storm, healing, quiet; then judge."""
    world = make_world(scenario, seed)
    for node in world.nodes:
        node.start()
    heal_ms = START_MS + 1_000 * scenario.storm_s
    if scenario.storm_s:
        plan_storm(world, scenario, heal_ms)
    world.run_until(heal_ms)
    at_healing = {node.number: node.disk.final.height for node in world.nodes}
    world.run_until(heal_ms + 1_000 * scenario.quiet_s)
    return judge(world, scenario, seed, at_healing)


def make_world(scenario: Scenario, seed: int) -> World[SimulatedNode]:
    """Nodes with their roles, not started."""
    signers = make_signers(scenario)
    verify = verify_real if scenario.real_signatures else verify_fake
    world: World[SimulatedNode] = World(
        f"{scenario.name}/{seed}", scenario.parameters, make_epochs(scenario, signers), verify,
        Weather(*scenario.delay_ms), START_MS,
    )  # fmt: skip
    world.encodes = scenario.real_signatures
    bad = scenario.silent + scenario.equivocators + scenario.twins
    nodes: list[SimulatedNode] = []
    for number, signer in enumerate(signers):
        role = SimulatedNode
        if number < scenario.silent:
            role = SilentNode
        elif number < scenario.silent + scenario.equivocators:
            role = Equivocator
        elif number < bad:
            role = Twin
        offset = world.random.randint(0, scenario.clock_offset_max_ms)
        nodes.append(role(world, number, signer, offset))
    first_twin = scenario.silent + scenario.equivocators
    for number in range(scenario.twins):
        nodes.append(Twin(world, len(nodes), signers[first_twin + number], 0))
    world.nodes = nodes
    return world


def make_signers(scenario: Scenario) -> list[Signer]:
    """One session key for each validator, and for those that join later."""
    make = real_signer if scenario.real_signatures else fake_signer
    return [make(number) for number in range(scenario.validators + scenario.rotate)]


def make_epochs(scenario: Scenario, signers: list[Signer]) -> Callable[[int], Epoch]:
    """The validators of each epoch: always the same, or `rotate` of them replaced in turn."""
    known: dict[int, Epoch] = {}

    def epochs(number: int) -> Epoch:
        if number not in known:
            count = scenario.validators + scenario.rotate
            # Epochs 0 and 1 share the genesis set; later ones leave out a moving window.
            out = {(max(0, number - 1) * scenario.rotate + place) % count for place in range(scenario.rotate)}
            members = tuple(
                Validator(place.to_bytes(32, "big"), signer.public, signer.public, stake_of(scenario, place))
                for place, signer in enumerate(signers)
                if place not in out
            )
            known[number] = Epoch(ValidatorSet(number, members), number.to_bytes(32, "big"))
        return known[number]

    return epochs


def stake_of(scenario: Scenario, number: int) -> int:
    """Weight of a validator."""
    return scenario.stakes[number] if scenario.stakes else 1_000


def plan_storm(world: World[SimulatedNode], scenario: Scenario, heal_ms: int) -> None:
    """Crashes, partitions, loss and delay at random times until `heal_ms`; then all is well."""
    chance = Random(f"storm/{world.seed}")
    now = START_MS + 2_000
    while now < heal_ms - 1_000:
        length_ms = chance.randint(1_000, 12_000)
        end = min(now + length_ms, heal_ms - 1)
        match chance.choice(BLACKOUT_MIX if scenario.blackouts else STORM_MIX):
            case "crash":
                victim = chance.choice(world.nodes)
                world.at(now, _crash, victim)
                world.at(end, _restart, victim)
            case "blackout":
                for node in world.nodes:
                    world.at(now + chance.randrange(50), _crash, node)
                    world.at(now + chance.randint(100, 2_000), _restart, node)
            case "partition":
                side = tuple(chance.randrange(2) for _ in world.nodes)
                world.at(now, _set_weather, world, Weather(*scenario.delay_ms, side=side))
            case "loss":
                world.at(now, _set_weather, world, Weather(*scenario.delay_ms, chance.randint(1, 40)))
            case _:
                slow = chance.randint(100, 1_500)
                world.at(now, _set_weather, world, Weather(slow // 4, slow))
        world.at(end, _set_weather, world, Weather(*scenario.delay_ms))
        now += chance.randint(500, 6_000)
    world.at(heal_ms, _heal, world, scenario)


def _crash(node: SimulatedNode) -> None:
    if node.machine is not None:
        node.crash()


def _restart(node: SimulatedNode) -> None:
    if node.machine is None:
        node.start()


def _set_weather(world: World[SimulatedNode], weather: Weather) -> None:
    world.weather = weather


def _heal(world: World[SimulatedNode], scenario: Scenario) -> None:
    world.weather = Weather(*scenario.delay_ms)
    for node in world.nodes:
        _restart(node)


def judge(world: World[SimulatedNode], scenario: Scenario, seed: int, at_healing: dict[int, int]) -> ScenarioOutcome:
    """Compare what happened with what must hold."""
    findings = world.findings
    failures = [f"conflicting finals: {conflict}" for conflict in findings.conflicting_finals]
    failures += [f"honest node framed: {charge}" for charge in findings.framed]
    if findings.false_evidence:
        failures.append(f"{findings.false_evidence} pieces of evidence do not verify")
    honest = [node for node in world.nodes if node.is_honest]
    new = min(node.disk.final.height - at_healing[node.number] for node in honest)
    if new < FINALS_AFTER_HEALING_MIN:
        failures.append(f"only {new} new final blocks after healing")
    return ScenarioOutcome(
        scenario.name, seed, world.trace(), tuple(failures), scenario.storm_s + scenario.quiet_s,
        max(world.final_at), new, len(findings.accused), findings.soft_conflicts, findings.soft_reverts,
        dict(sorted(findings.messages.items())), tuple(findings.accept_ms), tuple(findings.final_ms),
    )  # fmt: skip
