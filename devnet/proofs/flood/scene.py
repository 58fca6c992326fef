"""What an attacker works with: the devnet, its time, its allowance of messages, and the account of what it did.

What always holds: no more than the allowance is given out by `paced`, by all tasks of the attack together; the clock
starts when `begin` returns, so what is prepared before costs no time of the attack.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import trio

from devnet.launcher.layout import Devnet, NodeLayout, genesis_hash

SOURCE_ADDRESS = "127.0.0.66"
"""Where attackers come from: limits for each address must not hit honest clients, who come from 127.0.0.1."""
PACE_SECONDS = 0.01
YOUNG_SECONDS = 5.0
"""A node may take so long to end a connection that broke a rule."""
READY = "ready"


class Cut(Protocol):
    """A connection that a node may end."""

    @property
    def open_seconds(self) -> float | None:
        """Since its first message, if there was one."""

    @property
    def cut_seconds(self) -> float | None:
        """From the first message to the end of the connection; None while it is open."""


@dataclass(slots=True)
class AttackAccount:
    """What the attacker did and what became of it."""

    messages: int = 0
    sent_bytes: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    cut_seconds: list[float | None] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    cpu_seconds: float = 0.0

    def to_json(self) -> str:
        """One line."""
        return json.dumps({part.name: getattr(self, part.name) for part in fields(self)})

    @staticmethod
    def from_json(line: str) -> AttackAccount:
        """What `to_json` wrote."""
        content: dict[str, Any] = json.loads(line)
        return AttackAccount(**{**content, "outcomes": Counter(content["outcomes"])})


class Scene:
    """One attack under way."""

    def __init__(self, net: Devnet, seconds: float, messages_max: int, rng: random.Random) -> None:
        """Nothing was sent yet."""
        self.net, self.seconds, self.rng = net, seconds, rng
        self.account = AttackAccount()
        self.connections: list[Cut] = []
        self.time = trio.CancelScope()
        self._allowance = messages_max
        self.genesis = genesis_hash(net)

    @property
    def validators(self) -> tuple[NodeLayout, ...]:
        """The members that vote."""
        return tuple(member for member in self.net.members if member.is_validator)

    @property
    def victim(self) -> NodeLayout:
        """Whose RPC, metrics and sockets are attacked; honest clients ask the same node."""
        return victim_of(self.net)

    async def begin(self) -> None:
        """All is prepared: tell the program that started this one, and wait for its word."""
        print(READY, flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        self.time.deadline = trio.current_time() + self.seconds

    async def paced(self, per_second: float, at_once: int = 1000) -> AsyncGenerator[int, None]:
        """How many messages are due now, again and again; ends when the allowance is used up.

        What could not be sent in time is not made up for beyond `at_once`.
        """
        began, given = trio.current_time(), 0
        while self._allowance > 0:
            wanted = int((trio.current_time() - began) * per_second) + 1 - given
            due = min(wanted, at_once, self._allowance)
            if due > 0:
                given += wanted
                self._allowance -= due
                yield due
            else:
                await trio.sleep(PACE_SECONDS)

    def sent(self, messages: int, size: int) -> None:
        """Count what has left."""
        self.account.messages += messages
        self.account.sent_bytes += size

    def note(self, outcome: str) -> None:
        """Count an answer, or another thing that happened."""
        self.account.outcomes[outcome] += 1

    def close(self) -> AttackAccount:
        """The account, with when each connection was cut; one that was young at the end shows nothing."""
        self.account.cut_seconds = [
            connection.cut_seconds
            for connection in self.connections
            if connection.cut_seconds is not None or (connection.open_seconds or 0.0) >= YOUNG_SECONDS
        ]
        return self.account


def victim_of(net: Devnet) -> NodeLayout:
    """The second validator: not the one that all others begin with."""
    return net.members[1]
