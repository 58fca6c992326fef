"""The migration of devices: as the program before stored them."""

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.from_one_unit import OneUnitDevice
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit
from runtime.encoding.codec import codec
from runtime.frame.storage import storage_prefix
from runtime.frame.storage_version import migrate, version_key, version_value
from scripts.chains.market_chain import CUSTOMER, MarketChain, named_keys, terms

UNIT, TASK = b"u" * 32, b"t" * 32


def test_every_device_is_as_it_was_and_takes_one_unit_at_a_time() -> None:
    chain = MarketChain(named_keys(3), queue=5)
    bound = chain.now()
    before = {
        one.device: OneUnitDevice(one.stash, DeviceClass.CONSUMER, b"h" * 32, 90, 2, 7, 30, 1, assigned, paused)
        for one, assigned, paused in zip(chain.validators, (UNIT, TASK, None), (False, True, False), strict=True)
    }
    bound[InferenceMarket].units[UNIT] = Unit(0, CUSTOMER.stash, terms(), 0, 0, 0, 0, 0)
    for key in list(bound.overlay.keys(storage_prefix("Devices", "Devices"))):
        bound.overlay.store_raw(key, codec(OneUnitDevice).encode(before[key[-32:]]))
    bound.overlay.store_raw(version_key("Devices"), version_value(0))
    assert migrate(bound.pallets) is not None
    devices = bound[Devices].devices
    for name, was in before.items():
        now = devices[name]
        assert now is not None
        assert all(getattr(now, field) == getattr(was, field) for field in OneUnitDevice.__annotations__)
        assert (now.queue, now.behind, now.freed_at) == (0, (), ())
        assert now.is_dedicated == (was.assignment == TASK)
