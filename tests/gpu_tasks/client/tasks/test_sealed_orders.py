"""Who can open the input of a task: judges before all others, then who has a device that suits."""

import asyncio
from typing import Any

import pytest

from gpu_tasks.client.tasks import orders
from gpu_tasks.client.tasks.orders import TaskSealer, bidders_of
from gpu_tasks.data import market_reads
from gpu_tasks.data.sealing import READERS_MAX, SealKey
from gpu_tasks.market.devices.records import Device, DeviceClass, Provider
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus, InputReader
from runtime.cryptography.signatures import Scheme
from wallet.keypair import Keypair

JUDGES, OWNERS = 3, READERS_MAX


def seal_key(number: int) -> bytes:
    return SealKey(b"s" + number.to_bytes(31, "little")).public  # the lowest bits of the first byte are none of a key


def provider(number: int) -> Provider:
    return Provider(seal_key(number), b"http://127.0.0.1:1", 0)


def a_device(owner: int, kind: DeviceClass) -> DeviceStatus:
    name = owner.to_bytes(32, "big")
    return DeviceStatus(name, Device(name, kind, name, 1, 1, 1), ())


def test_bidders_are_the_owners_of_devices_that_suit_by_ascending_account() -> None:
    devices = [a_device(3, DeviceClass.CPU), a_device(1, DeviceClass.CPU), a_device(2, DeviceClass.DATACENTER)]
    providers = {number.to_bytes(32, "big"): provider(number) for number in (1, 2, 3)}
    found = bidders_of(devices, providers, [DeviceClass.CPU])
    assert [reader.seal_key for reader in found] == [seal_key(1), seal_key(3)]
    del providers[(1).to_bytes(32, "big")]
    assert [reader.seal_key for reader in bidders_of(devices, providers, [DeviceClass.CPU])] == [seal_key(3)]


def test_however_many_may_bid_every_judge_can_open_it_and_the_customer(monkeypatch: pytest.MonkeyPatch) -> None:
    readers: list[bytes] = []
    key = Keypair.from_seed(Scheme.ED25519, b"k" * 32)

    class Chain:
        async def finalized(self) -> bytes:
            return bytes(32)

        async def height(self, at: bytes) -> int:
            return 7

    class Stores:
        async def put(self, blob: bytes, endpoints: list[str], copies: int) -> None:
            pass

    class Draft:
        asked = type("Asked", (), {"classes": (DeviceClass.CPU,)})
        order = staticmethod(lambda stored: stored)

    async def judges(*_: Any) -> list[InputReader]:
        late = InputReader(b"l" * 32, seal_key(9_999), 8)  # came after the block that the input is sealed at
        return [late, *(InputReader(bytes(32), seal_key(1_000 + number), 0) for number in range(JUDGES))]

    async def providers(*_: Any) -> dict[bytes, Provider]:
        return {number.to_bytes(32, "big"): provider(number) for number in range(1, OWNERS + 1)}

    async def devices(*_: Any) -> list[DeviceStatus]:
        return [a_device(number, DeviceClass.CPU) for number in range(1, OWNERS + 1)]

    def sealed(content: bytes, keys: list[bytes]) -> bytes:
        readers.extend(keys)
        return content

    monkeypatch.setattr(market_reads, "judging_readers", judges)
    monkeypatch.setattr(market_reads, "providers", providers)
    monkeypatch.setattr(market_reads, "devices", devices)
    monkeypatch.setattr(orders, "seal", sealed)
    who: Any = (Chain(), Stores(), key, Draft())
    asyncio.run(TaskSealer(*who).terms([b"request"], lambda: None))
    wanted = [SealKey.of(key).public, *(seal_key(1_000 + number) for number in range(JUDGES))]
    assert readers[: JUDGES + 1] == wanted
    assert len(readers) == READERS_MAX
    assert seal_key(9_999) not in readers
