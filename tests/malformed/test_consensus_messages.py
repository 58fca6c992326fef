"""A peer whose every message is damaged on the way: the others never fail, and continue to agree.

A simulated network of four, with real signatures: the messages of one node reach the others whole or damaged, several
times over, among well-formed ones with absurd numbers. Decoder and machine are the production ones.
"""

import os
import random
from collections import Counter
from typing import Any

import pytest

from consensus.wire import MESSAGE, MESSAGE_BYTES_MAX, Chits, Message, NeedCerts, PullQuery, Vote
from damage import damaged
from devnet.simulation.node import SimulatedNode
from devnet.simulation.scenario import SimulatedScenario, run
from runtime.encoding.scale import DecodeError

SEEDS = 20 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 2
COPIES = 3
U32_MAX = 2**32 - 1


def decoded(data: bytes) -> Message | None:
    """Return a node's decoded message, or None."""
    try:
        return MESSAGE.decode(data)
    except DecodeError:
        return None


def extremes(chance: random.Random) -> Message:
    """Well-formed messages with numbers from the edge."""
    number = chance.choice((0, 1, 2**31, U32_MAX))
    other = chance.choice((0, U32_MAX))
    block = chance.choice((bytes(32), b"\xff" * 32))
    return chance.choice(
        (
            PullQuery(number, block, other),
            Chits(number, block, block, block, other, other),
            NeedCerts(number, other, number, other, bytes(number % 17)),
        )
    )


class Noise:
    """Damages most of node 0's messages."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.seen: Counter[str] = Counter()

    def variants(self, packet: Message) -> list[Message]:
        """Return the messages in place of one."""
        whole = MESSAGE.encode(packet)
        made = [decoded(damaged(whole, self.chance)) for _ in range(COPIES)]
        self.seen["refused"] += sum(message is None for message in made)
        found = [message for message in made if message is not None] + [extremes(self.chance)]
        self.seen["decoded"] += len(found)
        self.seen["votes"] += sum(isinstance(message, Vote) for message in found)
        return [*found, packet] if self.chance.random() < 0.7 else found


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_noisy_peer_stops_nobody(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    noise, receive = Noise(seed), SimulatedNode.receive

    def noisy(self: SimulatedNode, sender: SimulatedNode, packet: Any) -> None:
        is_message = type(packet).__module__ == "consensus.wire"
        for variant in noise.variants(packet) if sender.number == 0 and is_message else (packet,):
            receive(self, sender, variant)

    monkeypatch.setattr(SimulatedNode, "receive", noisy)
    outcome = run(SimulatedScenario("noise", 4, storm_s=0, quiet_s=25, real_signatures=True), seed)
    assert outcome.failures == ()
    assert outcome.finals > 10
    assert min(noise.seen.values()) > 100


def test_a_message_over_the_limit_is_refused() -> None:
    with pytest.raises(DecodeError):
        MESSAGE.decode(b"\4\xfe\xff\xff\xff" + bytes(MESSAGE_BYTES_MAX))
