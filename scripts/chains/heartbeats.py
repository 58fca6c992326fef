"""Heartbeats of those whose keys are made from a name."""

from collections.abc import Iterable

from runtime.frame.call import Call
from runtime.pallets.im_online import Heartbeat, ImOnline, SeenFinal, heartbeat_payload
from scripts.chains.named_keys import NamedKeys


def heartbeat(who: NamedKeys, genesis: bytes, number: int, block: bytes) -> Heartbeat:
    """That `who` saw a block as final."""
    seen = SeenFinal(who.stash, number, block)
    return Heartbeat(seen, who.sign("session", heartbeat_payload(genesis, seen)))


def attached(heartbeats: Iterable[Heartbeat]) -> Call:
    """The inherent with these, in their order."""
    return ImOnline.attach(heartbeats=tuple(sorted(heartbeats, key=lambda each: each.seen.stash)))
