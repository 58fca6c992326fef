"""Heartbeats of a season: who has no seat shows from time to time that it is on line.

Always: what is given here is good, as the heartbeats are that an author's pool holds.
"""

from collections.abc import Collection

from runtime.frame.runtime import Bound
from runtime.pallets.beacon import Beacon
from runtime.pallets.im_online import Heartbeat, ImOnline, SeenFinal, heartbeat_payload
from runtime.pallets.staking.trust_stake import TrustStake
from scripts.replay.cast import ACTORS, Actor


def heartbeats(bound: Bound, genesis: bytes, final: int, block: bytes, absent: Collection[bytes]) -> list[Heartbeat]:
    """Those of all who were not on line in this epoch yet and are not `absent`: each saw `block` as final."""
    silent = [one for one in ACTORS if _is_silent(bound, one, absent)]
    signed = [_signed(one, genesis, SeenFinal(one.stash.account, final, block)) for one in silent]
    return [heartbeat for heartbeat in signed if not bound[ImOnline].problem(heartbeat)]


def _is_silent(bound: Bound, who: Actor, absent: Collection[bytes]) -> bool:
    stash, stake = who.stash.account, bound[TrustStake]
    is_candidate = stash in stake.candidates and stash not in absent
    return is_candidate and not stake.was_on_line(stash, bound[Beacon].epoch())


def _signed(who: Actor, genesis: bytes, seen: SeenFinal) -> Heartbeat:
    return Heartbeat(seen, who.session.sign(heartbeat_payload(genesis, seen)))
