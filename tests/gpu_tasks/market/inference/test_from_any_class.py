"""The migration of services and units that knew no classes of devices."""

from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.migrations.from_any_class import AnyClassUnit, AnyClassUnitTerms
from gpu_tasks.market.inference.rules import DEFAULT_RULES
from gpu_tasks.market.inference.units import Racer, Unit, UnitState, UnitTerms
from gpu_tasks.market.rounds import Round
from runtime.encoding.codec import codec
from runtime.frame.storage import storage_prefix
from runtime.frame.storage_version import kept, migrate, version_key, version_value
from scripts.chains.market_chain import CUSTOMER, OGPU, MarketChain, named_keys, terms
from services_of_before import store_services_of_before

ID = b"u" * 32
RACER = Racer(b"o" * 32, b"d" * 32, 9, b"h" * 32, 7, started_at=4, is_out=True)
ASKED = AnyClassUnitTerms(OGPU, 2, b"i" * 32, b"c" * 32, 3, 64, 2, 8)
RACING = AnyClassUnit(
    0, CUSTOMER.stash, ASKED, 60, 5, 7, 1, 2, UnitState.RACING, 1, 40, Round(4, 6), (RACER,), (RACER,),
    (b"z" * 32,), None, 0, 0, is_watched=False, is_refuted=False, asleep_since=0, input_share=250_000,
    rules=DEFAULT_RULES, is_refilling=True, refund=None, leaf_audit_ppm=50_000,
)  # fmt: skip


def test_any_device_races_for_what_was_posted_before_and_nothing_else_changes() -> None:
    bound = MarketChain(named_keys(2)).now()
    market, overlay = bound[InferenceMarket], bound.overlay
    service = market.services[0]
    market.units[ID] = Unit(0, CUSTOMER.stash, terms(), 0, 0, 0, 0, 0)
    (key,) = overlay.keys(storage_prefix("InferenceMarket", "Units"))
    overlay.store_raw(key, codec(AnyClassUnit).encode(RACING))
    store_services_of_before(overlay)
    overlay.store_raw(version_key("InferenceMarket"), version_value(2))
    assert migrate(bound.pallets) is not None
    assert market.services[0] == service
    unit = market.units[ID]
    assert unit == Unit(**kept(RACING) | {"terms": UnitTerms(**kept(ASKED))})
    assert unit is not None
    assert unit.terms.device_class is None
