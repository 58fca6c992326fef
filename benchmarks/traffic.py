"""The traffic of consensus: messages, bytes and signature checks per node and block, with 4, 16 and 128 validators.

    Run: python -m benchmarks traffic            about four minutes, nearly all of it for 128

The simulator runs a calm, fully connected network with wide-area delays. One run has a fixed validator set. In the
other, the set changes every `EPOCH_BLOCKS` blocks, as on the chain, and a handoff's size is measured too. The benchmark
counts consensus messages as encoded on the wire, each copy to each peer. It omits blocks and message frames. It counts
the first seconds, in which peers exchange their connections, separately.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from benchmarks.figures import Figures
from consensus.handoffs import HANDOFF, Handoff, follow
from consensus.parameters import DEVNET
from consensus.wire import MESSAGE, Message, NeedCerts, Vote
from devnet.simulation.elections import SetChange
from devnet.simulation.node import SimulatedNode
from devnet.simulation.packets import HandoffsAsked, HandoffsSent, Packet
from devnet.simulation.scenario import START_MS, WAN_DELAY_MS, SimulatedScenario, make_world
from devnet.simulation.world import World

SIZES = (4, 16, 128)
SETTLING_SECONDS = 5
COUNTED_SECONDS = 10
EPOCH_BLOCKS = 6
SPARE_SHARE = 8
"""The number of seated candidates for each candidate without a seat."""


class CheckMeter:
    """A counter of signature checks."""

    def __init__(self, verify: Callable[[bytes, bytes, bytes], bool]) -> None:
        self._verify = verify
        self.checks = 0

    def __call__(self, key: bytes, payload: bytes, signature: bytes) -> bool:
        """Check one signature."""
        self.checks += 1
        return self._verify(key, payload, signature)


class Meter:
    """A counter of a world's messages."""

    def __init__(self, world: World[SimulatedNode]) -> None:
        """Count from now on."""
        self._send = world.send
        self._last: tuple[Packet, int] | None = None
        self.messages: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        setattr(world, World.send.__name__, self._count)

    def _count(self, sender: SimulatedNode, receiver: SimulatedNode, packet: Packet) -> None:
        if isinstance(packet, Message):
            kind = type(packet).__name__
            self.messages[kind] += 1
            # A broadcast packet is one object, so it is encoded once, as in a node.
            if self._last is None or self._last[0] is not packet:
                self._last = packet, len(MESSAGE.encode(packet))
            self.bytes[kind] += self._last[1]
        self._send(sender, receiver, packet)


def measure() -> Figures:
    """Return the figures of every size, each with a fixed seed."""
    figures: Figures = {}
    for size in SIZES:
        figures |= of_one_set(size, COUNTED_SECONDS)
        figures |= of_changing_sets(size, COUNTED_SECONDS)
    return figures


def of_one_set(size: int, seconds: int) -> Figures:
    """Return the figures of one network with a fixed validator set."""
    scenario = SimulatedScenario("traffic", size, delay_ms=WAN_DELAY_MS, clock_offset_max_ms=0)
    _, starting, meter, checks, blocks = _counted(scenario, seconds)
    shares = size * blocks
    telling, votes = NeedCerts.__name__, Vote.__name__
    return {
        f"n{size}_messages_per_block": round(meter.messages.total() / shares, 1),
        f"n{size}_bytes_per_block": round(meter.bytes.total() / shares),
        f"n{size}_votes_per_block": round(meter.messages[votes] / shares, 1),
        f"n{size}_vote_bytes_per_block": round(meter.bytes[votes] / shares),
        f"n{size}_signature_checks_per_block": round(checks / shares, 1),
        f"n{size}_state_messages_per_block": round(meter.messages[telling] / shares, 2),
        f"n{size}_state_messages_at_start": round((starting.messages - meter.messages)[telling] / size, 1),
        f"n{size}_state_bytes_at_start": round((starting.bytes - meter.bytes)[telling] / size),
    }


def of_changing_sets(size: int, seconds: int) -> Figures:
    """Return the figures of one network whose set changes every few blocks, and of its first handoff."""
    spares = max(1, size // SPARE_SHARE)
    scenario = SimulatedScenario(
        "sets", size, delay_ms=WAN_DELAY_MS, clock_offset_max_ms=0, change=SetChange.CUT, spares=spares, unequal=True,
        parameters=replace(DEVNET, epoch_blocks=EPOCH_BLOCKS),
    )  # fmt: skip
    world, _, meter, checks, blocks = _counted(scenario, seconds)
    shares, handoff = (size + spares) * blocks, _first_handoff(world)
    follower = CheckMeter(world.verify)
    follow(world.epochs(0).validators, handoff, world.parameters, world.genesis_hash, follower)
    return {
        f"n{size}_sets_messages_per_block": round(meter.messages.total() / shares, 1),
        f"n{size}_sets_bytes_per_block": round(meter.bytes.total() / shares),
        f"n{size}_sets_signature_checks_per_block": round(checks / shares, 1),
        f"n{size}_handoff_bytes": len(HANDOFF.encode(handoff)),
        f"n{size}_handoff_signature_checks": follower.checks,
    }


def _counted(scenario: SimulatedScenario, seconds: int) -> tuple[World[SimulatedNode], Meter, Meter, int, int]:
    """Run a network.

    Return its counters from the start and since it settled, and its checks and final blocks since then.
    """
    world = make_world(scenario, run_seed=1)
    world.verify = checks = CheckMeter(world.verify)
    for node in world.nodes:
        node.start()
    starting = Meter(world)
    settled_ms = START_MS + 1_000 * SETTLING_SECONDS
    world.run_until(settled_ms)
    height, before, meter = max(world.final_at), checks.checks, Meter(world)
    world.run_until(settled_ms + 1_000 * seconds)
    return world, starting, meter, checks.checks - before, max(world.final_at) - height


def _first_handoff(world: World[SimulatedNode]) -> Handoff:
    """Return the first handoff, as served by a node that took part in it."""
    answers: list[Packet] = []
    setattr(world, World.send.__name__, lambda _sender, _receiver, packet: answers.append(packet))
    asked, answering = world.nodes[:2]
    answering.receive(asked, HandoffsAsked(0))
    (answer,) = answers
    assert isinstance(answer, HandoffsSent)
    return answer.handoffs[0].handoff
