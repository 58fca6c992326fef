"""The answers of the market's API stay within their limits for any state."""

from typing import Any

import pytest

from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import Device, DeviceClass, device_id_of
from gpu_tasks.market.inference import gpu_tasks_api
from gpu_tasks.market.inference.events import TooManyOpen
from gpu_tasks.market.inference.gpu_tasks_api import READERS_MAX, GpuTasksApi
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import OFFERS_PER_DEVICE_MAX, OFFERS_PER_SERVICE_MAX, Offer, ServiceTerms
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
    (status,) = asked(chain, "devices_of", keys.stash)
    assert [number for number, _ in status.offers] == list(range(OFFERS_PER_DEVICE_MAX))
    closing = (InferenceMarket.close_service(service=number) for number in range(1, OFFERS_PER_DEVICE_MAX))
    chain.block(*(signed(CUSTOMER.stash, call) for call in closing))
    chain.block()
    (status,) = asked(chain, "devices_of", keys.stash)
    assert [number for number, _ in status.offers] == [0]
    assert status.device.offers == 1


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
    told = {reader.stash: reader for reader in asked(chain, "checking_readers")}
    assert {stash: reader.key_since for stash, reader in told.items()} == {
        **{keys.stash: 0 for keys in others},
        late.stash: chain.height,
    }
    assert told[late.stash].seal_key == other_key
    bound = chain.now()
    bound[TrustStake].candidate_since[others[0].stash] = 2
    chain.state = chain.state.updated(bound.overlay.changes())
    again = {reader.stash: reader.key_since for reader in asked(chain, "checking_readers")}
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
    told = {reader.stash: reader.key_since for reader in asked(chain, "checking_readers")}
    assert told == {**dict.fromkeys(others, 0), elected: 7}, "the first block whose state names it for its seat"
    assert set(told) <= {reader.stash for reader in asked(chain, "readers", bytes(4))}
    monkeypatch.setattr(gpu_tasks_api, "READERS_MAX", 3)
    assert {reader.stash for reader in asked(chain, "checking_readers")} == set(others)
