"""Devices: allowed registrations, and the bond, uniqueness and idleness of a device until it leaves."""

import pytest
from nacl.bindings import crypto_scalarmult  # noqa: TID251 - computes the keys independently

from gpu_tasks.market.devices import devices
from gpu_tasks.market.devices import events as ev
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import (
    FREE_BOND,
    SMALL_ORDER_SEAL_KEYS,
    DeviceClass,
    Provider,
    is_safe_seal_key,
    provider_hold,
)
from gpu_tasks.market.inference.inference import InferenceMarket
from runtime.frame.holds import Hold
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.staking.stakers import STAKE
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import (
    BOND,
    GENESIS_HASH,
    OGPU,
    Keys,
    MarketChain,
    named_keys,
    refused,
    signed,
    validates,
)

EVE = Keys("eve")


def joined(chain: MarketChain) -> None:
    """Register Eve as a fifth provider on a live chain: bond, candidacy, provider."""
    chain.block(
        signed(EVE.stash, TrustStake.bond(value=BOND)),
        signed(EVE.stash, validates(EVE)),
        signed(EVE.stash, Devices.register_provider(seal_key=EVE.public("seal"), endpoint=b"https://eve.example")),
    )


def register(bond: int = 5 * OGPU, uuid_hash: bytes = EVE.uuid_hash) -> object:
    return Devices.register_device(kind=DeviceClass.CONSUMER, uuid_hash=uuid_hash, bond=bond)


def test_a_fifth_provider_joins_and_leaves_again() -> None:
    chain = MarketChain(named_keys(4), [EVE])
    joined(chain)
    chain.block(signed(EVE.stash, register()))
    chain.block(signed(EVE.provider, InferenceMarket.offer(device=EVE.device, service=0, ask=1)))
    assert chain.now()[Balances].held(EVE.stash, Hold(FREE_BOND, EVE.device)) == 5 * OGPU
    chain.block(
        refused(EVE.stash, Devices.unregister_device(device=EVE.device), ev.DeviceBusy),
        refused(EVE.stash, Devices.unregister_provider(), ev.DeviceBusy),
        signed(EVE.provider, InferenceMarket.withdraw_offer(device=EVE.device, service=0)),
        refused(EVE.provider, Devices.unregister_device(device=EVE.device), ev.NotOwner),
        signed(EVE.stash, Devices.unregister_device(device=EVE.device)),
        signed(EVE.stash, Devices.unregister_provider()),
    )
    assert [held.id for held in chain.now()[Balances].holds[EVE.stash]] == [STAKE]
    assert EVE.stash not in chain.now()[Devices].device_count


DEPOSIT = OGPU // 10


def as_provider(chain: MarketChain, stash: bytes) -> Provider:
    found = chain.now()[Devices].providers[stash]
    assert found is not None
    return found


def deposited(chain: MarketChain, stash: bytes = EVE.stash) -> int:
    return chain.now()[Balances].held(stash, provider_hold(stash))


def dearer(bound: Bound) -> None:
    bound.parameters.change(Devices.provider_deposit, 3 * DEPOSIT)


def provider(endpoint: bytes = b"https://eve.example") -> object:
    return Devices.register_provider(seal_key=EVE.public("seal"), endpoint=endpoint)


# Records of providers that had left stayed for ever, and held nothing.
def test_a_record_of_a_provider_holds_a_deposit_until_it_is_dropped() -> None:
    chain = MarketChain(named_keys(4), [EVE])
    joined(chain)
    assert (deposited(chain), as_provider(chain, EVE.stash).deposit) == (DEPOSIT, DEPOSIT)
    chain.block(dearer)
    chain.block(signed(EVE.stash, provider(b"https://elsewhere.example")))
    assert as_provider(chain, EVE.stash).endpoint == b"https://elsewhere.example"
    assert (deposited(chain), as_provider(chain, EVE.stash).deposit) == (DEPOSIT, DEPOSIT), "it is held once"
    chain.block(signed(EVE.stash, Devices.unregister_provider()))
    assert (deposited(chain), chain.now()[Devices].providers[EVE.stash]) == (0, None)
    chain.block(signed(EVE.stash, provider()))
    assert (deposited(chain), as_provider(chain, EVE.stash).deposit) == (3 * DEPOSIT, 3 * DEPOSIT)


def test_those_whom_block_0_names_deposit_nothing_and_keep_it_so() -> None:
    chain = MarketChain(named_keys(4))
    alice = chain.validators[0]
    again = Devices.register_provider(seal_key=alice.public("seal"), endpoint=b"https://alice.example")
    assert as_provider(chain, alice.stash).deposit == 0
    chain.block(signed(alice.stash, again))
    assert (deposited(chain, alice.stash), as_provider(chain, alice.stash).deposit) == (0, 0)


def test_more_bond_counts_in_no_draw_whose_beacon_may_be_known() -> None:
    chain = MarketChain(named_keys(2))
    alice = chain.validators[0]
    chain.blocks(3)
    chain.block(signed(alice.stash, Devices.bond_device_extra(device=alice.device, value=OGPU)))
    device = chain.device(alice)
    assert device.changed_at == chain.height


def test_a_provider_has_so_many_devices_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "DEVICES_PER_PROVIDER_MAX", 2)
    chain = MarketChain(named_keys(2), [EVE])
    joined(chain)
    first, second, third = (register(uuid_hash=bytes([number]) * 32) for number in (1, 2, 3))
    chain.block(signed(EVE.stash, first), signed(EVE.stash, second), refused(EVE.stash, third, ev.TooManyDevices))


def test_a_provider_that_chilled_brings_no_device() -> None:
    chain = MarketChain(named_keys(2), [EVE])
    joined(chain)
    chain.block(signed(EVE.stash, TrustStake.chill()), refused(EVE.stash, register(), ev.NotProvider))


def test_one_physical_device_registers_once() -> None:
    chain = MarketChain(named_keys(4), [EVE])
    joined(chain)
    chain.block(refused(EVE.stash, register(uuid_hash=chain.validators[0].uuid_hash), ev.DeviceKnown))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (register(bond=OGPU - 1), ev.DeviceBondTooSmall),
        (Devices.pause(device=bytes(32)), ev.UnknownDevice),
        (Devices.resume(device=named_keys(1)[0].device), ev.NotOwner),
        (Devices.bond_device_extra(device=named_keys(1)[0].device, value=1), ev.NotOwner),
        (Devices.register_provider(seal_key=bytes(32), endpoint=b"http://eve"), ev.UnsafeSealKey),
    ],
)
def test_what_a_provider_may_not_do(call: object, error: type[Exception]) -> None:
    chain = MarketChain(named_keys(2), [EVE])
    joined(chain)
    chain.block(refused(EVE.stash, call, error))  # type: ignore[arg-type]


def test_only_bonded_candidates_are_providers() -> None:
    chain = MarketChain(named_keys(2), [EVE])
    call = Devices.register_provider(seal_key=b"k" * 32, endpoint=b"http://eve")
    chain.block(refused(EVE.stash, call, ev.NotProvider), refused(EVE.stash, register(), ev.NotProvider))


@pytest.mark.parametrize("number", SMALL_ORDER_SEAL_KEYS)
def test_libsodium_agrees_that_these_seal_keys_are_worthless(number: int) -> None:
    key = number.to_bytes(32, "little")
    assert not is_safe_seal_key(key)
    assert not is_safe_seal_key((number | 1 << 255).to_bytes(32, "little"))
    with pytest.raises(RuntimeError):
        crypto_scalarmult(b"\1" * 32, key)


def test_honest_seal_keys_are_safe() -> None:
    assert is_safe_seal_key(EVE.public("seal"))
    assert not is_safe_seal_key(b"k" * 31)


def test_who_names_somebodys_stash_as_its_key_gets_no_hold_of_it() -> None:
    chain = MarketChain(named_keys(4), [EVE])
    alice = chain.validators[0]
    chain.block(
        signed(EVE.stash, TrustStake.bond(value=BOND)),
        signed(EVE.stash, TrustStake.validate(EVE.node_keys(), EVE.proof(GENESIS_HASH), alice.stash, 50_000)),
    )
    assert chain.now()[Devices].operator(alice.stash) == alice.stash  # otherwise she could check her own request
    chain.block(signed(alice.stash, Devices.pause(device=alice.device)))


def test_nor_does_who_names_that_of_a_candidate_who_is_no_provider() -> None:
    mallory = Keys("mallory")
    chain = MarketChain(named_keys(4), [EVE, mallory])
    joined(chain)
    chain.block(
        signed(EVE.stash, Devices.unregister_provider()),
        signed(mallory.stash, TrustStake.bond(value=BOND)),
        signed(mallory.stash, TrustStake.validate(mallory.node_keys(), mallory.proof(GENESIS_HASH), EVE.stash, 50_000)),
    )
    assert chain.now()[Devices].operator(EVE.stash) == EVE.stash
