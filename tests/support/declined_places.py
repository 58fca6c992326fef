"""Races with a place that was declined, on a `MarketChain`: who races, who declined, who is drawn instead."""

from gpu_tasks.market.ages import aged
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.draws import BEACON_DELAY
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference import race_clocks
from gpu_tasks.market.inference.inference import InferenceMarket
from simulation.chains.market_chain import OGPU, Keys, MarketChain, Step, commit, signed
from unit_cases import RIGHT, matched

LEASE = 30
"""Of the service that these chains sell."""
TO_THE_DRAW = BEACON_DELAY + 1
"""Blocks from a decline to the draw of its place, where finality is one block behind."""


def racing(chain: MarketChain, racers: int = 2, price: int = OGPU) -> tuple[bytes, list[Keys]]:
    """A unit in its race, and its racers in draw order."""
    unit_id, _, drawn = matched(chain, racers, price)
    return unit_id, drawn


def racers_of(chain: MarketChain, unit_id: bytes) -> list[Keys]:
    return [chain.keys_of(racer.owner) for racer in chain.unit(unit_id).racers]


def declines(who: Keys, unit_id: bytes, attempt: int = 1) -> Step:
    return signed(who.provider, InferenceMarket.decline(unit=unit_id, attempt=attempt))


def commits(chain: MarketChain, who: Keys, unit_id: bytes, root: bytes = RIGHT) -> Step:
    return commit(who, unit_id, chain.unit(unit_id), root)


def refilled(chain: MarketChain, racers: int = 2, place: int = 0) -> tuple[bytes, Keys, Keys, list[Keys]]:
    """A race of which a place was declined and filled: unit, who declined, who was drawn for it, and all who race."""
    unit_id, before = racing(chain, racers)
    chain.block(declines(before[place], unit_id))
    chain.blocks(TO_THE_DRAW)
    after = racers_of(chain, unit_id)
    assert chain.happened(ev.PlaceRefilled) == [ev.PlaceRefilled(unit_id, 1, after[place].stash, before[place].stash)]
    return unit_id, before[place], after[place], after


def secured(chain: MarketChain, who: Keys) -> int:
    device = chain.now()[Devices].devices[who.device]
    assert device is not None
    return device.secured


def is_awaited(chain: MarketChain, unit_id: bytes) -> bool:
    """Whether the unit waits for a draw, of its race or of a place in it."""
    return bool(chain.now()[InferenceMarket].draws.places[aged(chain.unit(unit_id).posted_at, unit_id)])


def closes_at(chain: MarketChain, unit_id: bytes) -> int:
    """The last block in which the first of the race to run out of time may commit; 0 while no clock runs."""
    unit = chain.unit(unit_id)
    assert unit.round is not None
    windows = chain.now()[InferenceMarket].racing.windows_of(unit)
    return race_clocks.next_change(unit.racers, unit.round, windows)[0] or 0
