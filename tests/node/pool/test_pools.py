"""The pools together: an author attaches their inherents in the allowed order."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpu_tasks.market.attestations.attestations import Attestations
from node.pool.pools import Pools
from runtime.frame.call import Call
from runtime.pallets.im_online import ImOnline
from runtime.pallets.staking.trust_lock import TrustLock
from simulation.chains.market_chain import MarketChain, named_keys


@dataclass
class PlayedInherents:
    """A pool with one inherent, which records the inherents attached before it."""

    call: Call
    seen: list[Any]

    def inherents(self, bound: Any) -> Iterator[Call]:
        self.seen.append(bound)
        yield self.call


def test_inherents_stand_in_the_order_of_their_pallets() -> None:
    bound, seen = MarketChain(named_keys(1)).now(), list[Any]()
    parts: dict[str, Any] = {
        "attestations": PlayedInherents(Attestations.attach(attestations=()), seen),
        "heartbeats": PlayedInherents(ImOnline.attach(heartbeats=()), seen),
        "evidence": PlayedInherents(TrustLock.attach_evidence(proofs=()), seen),
    }
    rest: Any = None
    calls = list(Pools(verifier=rest, transactions=rest, **parts).inherents(bound))
    places = [(call.method.pallet.index, call.method.index) for call in calls]
    assert places == sorted(places)
    assert len(set(places)) == len(parts) == len(seen)
