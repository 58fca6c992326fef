"""The answers of the market's API stay within their limits for any state."""

from collections.abc import Iterator
from typing import Any

import pytest

from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DEVICES_PER_PROVIDER_MAX, Device, DeviceClass, device_id_of
from gpu_tasks.market.inference import gpu_tasks_api
from gpu_tasks.market.inference.events import TooManyOpen
from gpu_tasks.market.inference.gpu_tasks_api import (
    DEVICES_MAX,
    OFFERS_SHOWN_MAX,
    READERS_MAX,
    SERVICES_LISTED_MAX,
    GpuTasksApi,
)
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import (
    OFFERS_PER_DEVICE_MAX,
    OFFERS_PER_SERVICE_MAX,
    SERVICES_MAX,
    Offer,
    Service,
    ServiceTerms,
)
from node.rpc.methods.state import MAX_CALL_KEYS
from runtime.cryptography.hashing import blake2_256
from runtime.frame.api import Apis
from runtime.pallets.staking import elections
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.state.overlay import RecordedReads
from simulation.chains.market_chain import (
    CUSTOMER,
    GENESIS_HASH,
    MODEL,
    WORKLOAD,
    Keys,
    MarketChain,
    named_keys,
    refused,
    signed,
)

CHEAP = ServiceTerms(b"x", WORKLOAD, MODEL, 1, 1, 1, 30, 64)


def asked(chain: MarketChain, name: str, data: bytes = b"") -> Any:
    """Return an answer after its encoding and decoding."""
    apis = Apis(chain.runtime, (GpuTasksApi,))
    raw = apis.call(chain.state, GENESIS_HASH, f"GpuTasksApi_{name}", data)
    return apis.methods[f"GpuTasksApi_{name}"].output.decode(raw)


def test_services_that_were_closed_with_a_unit_open_are_listed_however_many_they_are() -> None:
    chain = MarketChain(named_keys(1))
    bound, count = chain.now(), 3
    for number in range(
        1, SERVICES_MAX * count
    ):  # a block takes in no more units than it can draw: written, not posted
        sold = Service(CUSTOMER.stash, CHEAP, 0, open_units=1, is_open=False)
        bound[InferenceMarket].services[number] = sold
    chain.state = chain.state.updated(bound.overlay.changes())
    assert len(asked(chain, "services")) == SERVICES_MAX * count <= SERVICES_LISTED_MAX


def test_a_device_offers_a_bounded_number_of_services_and_offers_end_with_them() -> None:
    keys: Keys = named_keys(1)[0]
    chain = MarketChain([keys])
    create = InferenceMarket.create_service(terms=CHEAP)
    chain.block(*(signed(CUSTOMER.stash, create) for _ in range(OFFERS_PER_DEVICE_MAX)))
    offers = [
        signed(keys.provider, InferenceMarket.offer(device=keys.device, service=number, ask=1))
        for number in range(1, OFFERS_PER_DEVICE_MAX)
    ]
    over = InferenceMarket.offer(device=keys.device, service=OFFERS_PER_DEVICE_MAX, ask=1)
    chain.block(*offers, refused(keys.provider, over, TooManyOpen))
    (status,) = asked(chain, "devices")
    assert [number for number, _ in status.offers] == list(range(OFFERS_PER_DEVICE_MAX))
    closing = (InferenceMarket.close_service(service=number) for number in range(1, OFFERS_PER_DEVICE_MAX))
    chain.block(*(signed(CUSTOMER.stash, call) for call in closing))
    chain.block()
    (status,) = asked(chain, "devices")
    assert [number for number, _ in status.offers] == [0]
    assert status.device.offers == 1


class OfferReads:
    """A state that counts its reads of offers."""

    def __init__(self, chain: MarketChain) -> None:
        self.below = chain.state
        self.prefix = chain.now()[InferenceMarket].offers.prefix
        self.count = 0

    def get(self, key: bytes, /) -> bytes | None:
        self.count += key.startswith(self.prefix)
        return self.below.get(key)

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        return self.below.keys(prefix, start)


def test_a_provider_s_devices_are_shown_without_reading_the_offers_of_others() -> None:
    mine, other = named_keys(2)
    chain = MarketChain([mine, other])
    chain.block(*[signed(CUSTOMER.stash, InferenceMarket.create_service(terms=CHEAP))] * 8)
    chain.block(
        *(
            signed(other.provider, InferenceMarket.offer(device=other.device, service=number, ask=1))
            for number in range(1, 9)
        )
    )
    reads = OfferReads(chain)
    Apis(chain.runtime, (GpuTasksApi,)).call(reads, GENESIS_HASH, "GpuTasksApi_devices_of", mine.stash)
    assert reads.count == 1


def test_a_crowd_of_devices_does_not_hide_a_provider_s_own() -> None:
    keys = named_keys(1)[0]
    chain = MarketChain([keys])
    bound = chain.runtime.at(chain.state)
    for number in range(DEVICES_MAX):  # owners whose keys begin with zeros, which are easy to find
        owner, uuid_hash = (number // DEVICES_PER_PROVIDER_MAX).to_bytes(32, "big"), number.to_bytes(32, "big")
        bound[Devices].devices[device_id_of(owner, uuid_hash)] = Device(owner, DeviceClass.CPU, uuid_hash, 1, 1, 1)
    chain.state = chain.state.updated(bound.overlay.changes())
    assert all(status.device.owner != keys.stash for status in asked(chain, "devices"))
    assert [status.id for status in asked(chain, "devices_of", keys.stash)] == [keys.device]


def test_a_table_of_devices_with_very_many_offers_is_cut_before_they_are_read() -> None:
    keys = named_keys(1)[0]
    chain = MarketChain([keys])
    bound = chain.runtime.at(chain.state)
    each = OFFERS_PER_DEVICE_MAX
    for number in range(2 * OFFERS_SHOWN_MAX // each):
        owner, uuid_hash = number.to_bytes(32, "big"), number.to_bytes(32, "big")
        key = device_id_of(owner, uuid_hash)
        bound[Devices].devices[key] = Device(owner, DeviceClass.CPU, uuid_hash, 1, 1, 1, offers=each)
        for service in range(each):
            bound[InferenceMarket].offers[service, key] = Offer(1, 0)
            bound[InferenceMarket].device_offers[key] = tuple(range(each))
    chain.state = chain.state.updated(bound.overlay.changes())
    reads = OfferReads(chain)
    apis = Apis(chain.runtime, (GpuTasksApi,))
    raw = apis.call(reads, GENESIS_HASH, "GpuTasksApi_devices", b"")
    assert reads.count == OFFERS_SHOWN_MAX
    assert len(apis.methods["GpuTasksApi_devices"].output.decode(raw)) == OFFERS_SHOWN_MAX // each


@pytest.mark.parametrize("are_candidates", [True, False])
def test_who_may_read_inputs_of_a_service_with_all_the_offers_it_can_have_can_be_proved(are_candidates: bool) -> None:
    """Otherwise owners of spare devices could keep customers from posting, for lack of a list of readers."""
    keys = named_keys(1)[0]
    chain = MarketChain([keys])
    bound = chain.now()
    stake, devices = bound[TrustStake], bound[Devices]
    candidate, provider, staked = stake.candidates[keys.stash], devices.providers[keys.stash], 10**12
    for number in range(OFFERS_PER_SERVICE_MAX):
        owner = blake2_256(number.to_bytes(4, "big"))  # each of another owner
        device = device_id_of(owner, owner)
        devices.devices[device] = Device(owner, DeviceClass.CPU, owner, 1, 1, 1)
        devices.providers[owner] = provider
        stake.bonds[owner] = staked
        if are_candidates:
            stake.candidates[owner] = candidate
        bound[InferenceMarket].offers[0, device] = Offer(1, 0)
    state = chain.state.updated(bound.overlay.changes())
    reads = RecordedReads(state, MAX_CALL_KEYS)
    data = (0).to_bytes(4, "little")
    apis = Apis(chain.runtime, (GpuTasksApi,))
    raw = apis.call(reads, GENESIS_HASH, "GpuTasksApi_readers", data)
    assert len(apis.methods["GpuTasksApi_readers"].output.decode(raw)) == (READERS_MAX if are_candidates else 1)
    assert len(reads.noted) > (2 if are_candidates else 4) * OFFERS_PER_SERVICE_MAX


def test_whom_an_input_must_be_sealed_to_is_told_with_the_block_since_when() -> None:
    *others, late = named_keys(4)
    chain = MarketChain([*others, late])
    chain.blocks(2)
    known = chain.now()[Devices].providers[late.stash]
    assert known is not None
    other_key = SealKey.from_seed(b"k" * 32).public
    chain.block(signed(late.stash, Devices.register_provider(seal_key=other_key, endpoint=known.endpoint)))
    told = {reader.stash: reader for reader in asked(chain, "judging_readers")}
    assert {stash: reader.key_since for stash, reader in told.items()} == {
        **{keys.stash: 0 for keys in others},
        late.stash: chain.height,
    }
    assert told[late.stash].seal_key == other_key
    bound = chain.now()
    bound[TrustStake].candidate_since[others[0].stash] = 2
    chain.state = chain.state.updated(bound.overlay.changes())
    again = {reader.stash: reader.key_since for reader in asked(chain, "judging_readers")}
    assert again[others[0].stash] == 2, "who came back as a candidate was not listed before"


def test_who_is_elected_next_must_be_sealed_to_where_readers_has_room_for_both_sets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    *others, elected = (keys.stash for keys in named_keys(4))
    chain = MarketChain(named_keys(4), epoch_blocks=6)
    chain.blocks(8)
    bound = chain.now()
    stake = bound[TrustStake]
    seats = stake.active_set.get()
    elections.seat(stake, 1, tuple(seat for seat in seats if seat.stash != elected))
    elections.seat(stake, 2, seats)
    stake.last_elected_epoch.set(2)
    stake.active_since[elected] = 2
    chain.state = chain.state.updated(bound.overlay.changes())
    told = {reader.stash: reader.key_since for reader in asked(chain, "judging_readers")}
    assert told == {**dict.fromkeys(others, 0), elected: 7}, "the first block whose state names it for its seat"
    assert set(told) <= {reader.stash for reader in asked(chain, "readers", bytes(4))}
    monkeypatch.setattr(gpu_tasks_api, "READERS_MAX", 3)
    assert {reader.stash for reader in asked(chain, "judging_readers")} == set(others)
