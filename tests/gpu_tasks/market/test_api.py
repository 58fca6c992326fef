"""What the market's API shows stays within its own limits, whatever anybody puts into the state."""

from typing import Any

from gpu_tasks.market.api import DEVICES_MAX, GpuTasksApi
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DEVICES_PER_PROVIDER_MAX, Device, DeviceClass, device_id
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import SERVICES_MAX, ServiceTerms
from market_chain import CUSTOMER, GENESIS_HASH, MODEL, WORKLOAD, Keys, MarketChain, named_keys, signed, terms
from runtime.encoding.types import Signed
from runtime.frame.api import Apis
from runtime.frame.runtime import Bound

CHEAP = ServiceTerms(b"x", WORKLOAD, MODEL, 1, 1, 1, 30, 64)


def asked(chain: MarketChain, name: str, data: bytes = b"") -> Any:
    """An answer that went over the wire."""
    apis = Apis(chain.runtime, (GpuTasksApi,))
    raw = apis.call(chain.state, GENESIS_HASH, f"GpuTasksApi_{name}", data)
    return apis.methods[f"GpuTasksApi_{name}"].output.decode(raw)


def repeated(times: int, account: bytes, *calls: Any) -> Any:
    """A step: calls about service 1, then about 2, and so on."""

    def step(bound: Bound) -> None:
        for number in range(1, times + 1):
            for call in calls:
                bound.dispatch(call(number), Signed(account))

    return step


def test_services_that_were_closed_with_a_unit_open_are_listed_however_many_they_are() -> None:
    chain = MarketChain(named_keys(1))
    chain.block(
        repeated(
            SERVICES_MAX,
            CUSTOMER.stash,
            lambda _: InferenceMarket.create_service(terms=CHEAP),
            lambda number: InferenceMarket.post(service=number, units=(terms(1, 1),)),
            lambda number: InferenceMarket.close_service(service=number),
        )
    )
    assert len(asked(chain, "services")) == SERVICES_MAX + 1


def test_a_device_with_offers_of_more_services_than_can_be_open_hides_no_table() -> None:
    keys: Keys = named_keys(1)[0]
    chain = MarketChain([keys])
    chain.block(
        repeated(
            SERVICES_MAX,
            keys.stash,
            lambda _: InferenceMarket.create_service(terms=CHEAP),
            lambda number: InferenceMarket.offer(device=keys.device, service=number, ask=1),
            lambda number: InferenceMarket.close_service(service=number),
        )
    )
    (status,) = asked(chain, "devices")
    assert status.device.offers == SERVICES_MAX + 1
    assert len(status.offers) == SERVICES_MAX
    withdrawn = (InferenceMarket.withdraw_offer(device=keys.device, service=number) for number, _ in status.offers)
    chain.block(*(signed(keys.stash, call) for call in withdrawn))
    (status,) = asked(chain, "devices")
    assert [number for number, _ in status.offers] == [SERVICES_MAX]


def test_a_crowd_of_devices_does_not_hide_a_provider_s_own() -> None:
    keys = named_keys(1)[0]
    chain = MarketChain([keys])
    bound = chain.runtime.at(chain.state)
    for number in range(DEVICES_MAX):  # of owners that anybody can find: their keys begin with zeros
        owner, uuid_hash = (number // DEVICES_PER_PROVIDER_MAX).to_bytes(32, "big"), number.to_bytes(32, "big")
        bound[Devices].devices[device_id(owner, uuid_hash)] = Device(owner, DeviceClass.CPU, uuid_hash, 1, 1, 1)
    chain.state = chain.state.updated(bound.overlay.changes())
    assert all(status.device.owner != keys.stash for status in asked(chain, "devices"))
    assert [status.id for status in asked(chain, "devices_of", keys.stash)] == [keys.device]
