"""What agreement sends: messages and bytes of each node for each final block, with 4, 16 and 128 validators.

Run: python -m benchmarks.traffic            about two minutes, nearly all of it for 128

A calm network of the simulator in which everybody is connected to everybody, with the delays of a wide area. Counted
is what consensus says, as encoded on the wire, each copy to each peer; blocks and the frames around messages are not.
The first seconds, in which peers tell each other whom they reach, are counted apart.
"""

from collections import Counter

from benchmarks.figures import Figures, report
from consensus.wire import MESSAGE, Message, NeedCerts, Vote
from devnet.simulation.node import SimulatedNode
from devnet.simulation.packets import Packet
from devnet.simulation.scenario import START_MS, WAN, Scenario, make_world
from devnet.simulation.world import World

SIZES = (4, 16, 128)
SETTLING_SECONDS = 5
COUNTED_SECONDS = 10


class Meter:
    """Counts what a world sends."""

    def __init__(self, world: World[SimulatedNode]) -> None:
        """From now on."""
        self._send = world.send
        self._last: tuple[Packet, int] | None = None
        self.messages: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        setattr(world, World.send.__name__, self._count)

    def _count(self, sender: SimulatedNode, receiver: SimulatedNode, packet: Packet) -> None:
        if isinstance(packet, Message):
            kind = type(packet).__name__
            self.messages[kind] += 1
            # What is broadcast is one object: encoded once, as in a node.
            if self._last is None or self._last[0] is not packet:
                self._last = packet, len(MESSAGE.encode(packet))
            self.bytes[kind] += self._last[1]
        self._send(sender, receiver, packet)


def measure() -> Figures:
    """Every size, each with a seed that never changes."""
    figures: Figures = {}
    for size in SIZES:
        figures |= of_size(size, COUNTED_SECONDS)
    return figures


def of_size(size: int, seconds: int) -> Figures:
    """One network."""
    world = make_world(Scenario("traffic", size, delay_ms=WAN, clock_offset_max_ms=0), seed=1)
    for node in world.nodes:
        node.start()
    starting = Meter(world)
    settled_ms = START_MS + 1_000 * SETTLING_SECONDS
    world.run_until(settled_ms)
    before = max(world.final_at)
    meter = Meter(world)
    world.run_until(settled_ms + 1_000 * seconds)
    shares = size * (max(world.final_at) - before)
    telling, votes = NeedCerts.__name__, Vote.__name__
    return {
        f"n{size}_messages_per_block": round(meter.messages.total() / shares, 1),
        f"n{size}_bytes_per_block": round(meter.bytes.total() / shares),
        f"n{size}_votes_per_block": round(meter.messages[votes] / shares, 1),
        f"n{size}_vote_bytes_per_block": round(meter.bytes[votes] / shares),
        f"n{size}_state_messages_per_block": round(meter.messages[telling] / shares, 2),
        f"n{size}_state_messages_at_start": round((starting.messages - meter.messages)[telling] / size, 1),
        f"n{size}_state_bytes_at_start": round((starting.bytes - meter.bytes)[telling] / size),
    }


if __name__ == "__main__":
    report(measure)
