"""What an attack is: a name, what it tries, and a coroutine that tries it within bounds.

What always holds: an attack speaks to nodes of its own devnet on loopback only; it ends with the scene's time, and
sends no more messages than `messages_max`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from devnet.launcher.layout import Devnet
from devnet.proofs.flood.scene import Scene

Act = Callable[[Scene], Awaitable[None]]
Aftermath = Callable[[Devnet], Awaitable[list[str]]]
"""What is tried when the attacker has left; what was found wrong, one text each."""


class Door(StrEnum):
    """A way in that honest clients use; each is tried all the time, from an address of its own."""

    RPC = "rpc"  # one call by HTTP POST, each on a connection of its own
    WEBSOCKET = "websocket"  # connect, one call, leave
    METRICS = "metrics"  # GET /metrics
    PEERS = "peers"  # a full node's handshake
    BLOBS = "blobs"  # GET of a blob that was stored before
    PROOFS = "proofs"  # a proof of one key by HTTP POST
    SLOTS = "slots"  # the handshake of a validator of this epoch, where strangers want its slot


class Needs(StrEnum):
    """What an attack needs beside the four validators."""

    NOTHING = "nothing"
    PROVIDER = "a provider"
    STRICT_NODE = "a node with few slots"


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack; `rule` names the rule that it breaks, empty if the network may only slow it down.

    A hogged attack runs beside busy processors, and is compared with a quiet stretch beside them.
    """

    name: str
    finding: str
    tries: str
    act: Act
    messages_max: int
    rule: str
    doors: tuple[Door, ...]
    needs: Needs
    aftermath: Aftermath | None
    hogged: bool


def attack(
    finding: str,
    *,
    messages_max: int,
    rule: str = "",
    doors: tuple[Door, ...] = (),
    needs: Needs = Needs.NOTHING,
    aftermath: Aftermath | None = None,
    hogged: bool = False,
) -> Callable[[Act], Attack]:
    """Make an attack of a coroutine function: its name is the function's, what it tries is its docstring.

    `doors` are judged beside JSON-RPC, which always is.
    """

    def make(act: Act) -> Attack:
        name = getattr(act, "__name__", "")
        return Attack(
            name,
            finding,
            " ".join((inspect.getdoc(act) or "").split()),
            act,
            messages_max,
            rule,
            (Door.RPC, *doors),
            needs,
            aftermath,
            hogged,
        )

    return make
