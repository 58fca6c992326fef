"""The migration of units whose racers all began together."""

from dataclasses import fields

import pytest

from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.migrations.from_any_class import AnyClassUnitTerms
from gpu_tasks.market.inference.migrations.from_one_clock import OneClockRacer, OneClockUnit
from gpu_tasks.market.inference.rules import DEFAULT_RULES
from gpu_tasks.market.inference.units import Reveal, Unit, UnitState, UnitTerms
from gpu_tasks.market.rounds import Round
from runtime.encoding.codec import codec
from runtime.frame.storage import storage_prefix
from runtime.frame.storage_version import kept, migrate, version_key, version_value
from scripts.chains.market_chain import CUSTOMER, OGPU, MarketChain, named_keys, terms
from services_of_before import store_services_of_before

ID = b"u" * 32
REVEAL = Reveal(b"r" * 32, b"b" * 32, 5, 9, 3)
RACER = OneClockRacer(b"o" * 32, b"d" * 32, 9, b"h" * 32, 7, REVEAL, has_declined=False, is_late=True)
IDLE = OneClockRacer(b"p" * 32, b"e" * 32, 9, None, 0, None, has_declined=True, is_late=False)
ASKED = AnyClassUnitTerms(OGPU, 2, b"i" * 32, b"c" * 32, 0, 64, 2, 8)
UNIT = OneClockUnit(
    0, CUSTOMER.stash, ASKED, 60, 5, 7, 1, 2, UnitState.RACING, 1, 40, Round(4, 6), (RACER, IDLE), (IDLE,),
    (b"z" * 32,), None, 0, 0, is_watched=False, is_refuted=False, asleep_since=0, input_share=250_000,
    rules=DEFAULT_RULES, is_refilling=True, refund=None,
)  # fmt: skip


@pytest.mark.parametrize("is_drawn", [True, False])
def test_racers_began_at_the_draw_and_nothing_else_changes(is_drawn: bool) -> None:
    bound = MarketChain(named_keys(2)).now()
    market, overlay = bound[InferenceMarket], bound.overlay
    market.units[ID] = Unit(0, CUSTOMER.stash, terms(), 0, 0, 0, 0, 0)
    (key,) = overlay.keys(storage_prefix("InferenceMarket", "Units"))
    stored = {each.name: getattr(UNIT, each.name) for each in fields(UNIT)}
    if not is_drawn:
        stored |= {"round": None, "racers": (), "state": UnitState.QUEUED}
    overlay.store_raw(key, codec(OneClockUnit).encode(OneClockUnit(**stored)))
    store_services_of_before(overlay)
    overlay.store_raw(version_key("InferenceMarket"), version_value(1))
    assert migrate(bound.pallets) is not None
    unit = market.units[ID]
    assert unit is not None
    assert unit.leaf_audit_ppm == 0
    assert unit.terms == UnitTerms(**kept(ASKED))
    for name, value in stored.items():
        if name not in ("terms", "racers", "decliners"):
            assert getattr(unit, name) == value
    assert [racer.started_at for racer in unit.racers] == ([4, 4] if is_drawn else [])
    assert not any(racer.is_out for racer in (*unit.racers, *unit.decliners))
    was = (*stored["racers"], *stored["decliners"])
    for now, before in zip((*unit.racers, *unit.decliners), was, strict=True):
        assert all(getattr(now, each.name) == getattr(before, each.name) for each in fields(before))
