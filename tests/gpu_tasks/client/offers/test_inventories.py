"""Claims of providers about their inventories, and recent payments."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web

from gpu_tasks.client.commands import services
from gpu_tasks.client.commands.services import BLOCKS_LOOKED_AT, SettledUnit, settled_of_late
from gpu_tasks.client.offers import listing
from gpu_tasks.client.offers.listing import HeardInventories, heard_inventories, with_claims
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient, TransferRates
from gpu_tasks.data.inventory import ClaimedDevice, ClaimedMachine, MachineInventory, sign_inventory
from gpu_tasks.market.capacity.standing import ProvenRates
from gpu_tasks.market.devices.records import DeviceClass, Provider
from gpu_tasks.market.inference.events import UnitMatched, UnitSettled
from gpu_tasks.market.inference.units import Racer, Unit, UnitTerms
from gpu_tasks.provider.blobs.server import BlobServer
from gpu_tasks.provider.blobs.store import BlobStore
from gpu_tasks.provider.chain.port import Identity
from gpu_tasks.provider.execution.gpu import all_hardware
from gpu_tasks.provider.told_inventory import ToldInventory
from gpu_tasks.tasks.offers import rows_of
from offered import device, name, service
from runtime.cryptography.signatures import Scheme
from runtime.pallets.system import EventRecord
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet.rpc import RpcError

# What providers claim is asked side by side, over real HTTP: the slow, the lying and the huge are named, left out.


GENESIS = b"g" * 32
KEYS = {number: Keypair.from_seed(Scheme.ED25519, bytes([number]) * 32) for number in range(1, 9)}
MACHINE = ClaimedMachine("AMD EPYC", 16, 65_536, 500_000, 0, 0)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FakeClient:
    genesis_hash = GENESIS


def signed(
    number: int, *, signer: int | None = None, age_ms: int = 0, hardware: bytes | None = None,
    is_processor: bool = False,
) -> bytes:  # fmt: skip
    claimed = ClaimedDevice(
        hardware or name(number), "NVIDIA", f"RTX {number}", 24_564, "550.54", "cuda", "12.4", is_processor
    )
    made_at = time.time_ns() // 1_000_000 - age_ms
    inventory = MachineInventory(2, KEYS[number].public_key, made_at, MACHINE, (claimed,))
    return sign_inventory(inventory, GENESIS, KEYS[signer or number].sign)


def answering(data: bytes, status: int = 200) -> Handler:
    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(body=data, status=status)

    return handle


async def silent(_: web.Request) -> web.StreamResponse:
    await asyncio.sleep(60)
    return web.Response()


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(bytes(64 * 1024))


async def elsewhere(_: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("http://127.0.0.1:1/")


def heard(monkeypatch: pytest.MonkeyPatch, handlers: dict[int, Handler | None]) -> HeardInventories:
    async def main() -> HeardInventories:
        providers, runners = {}, []
        for number, handler in handlers.items():
            endpoint = b"nowhere"
            if handler is not None:
                app = web.Application()
                app.router.add_get("/inventory", handler)
                runner = web.AppRunner(app, shutdown_timeout=0.1)
                await runner.setup()
                await web.TCPSite(runner, "127.0.0.1", 0).start()
                runners.append(runner)
                endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}".encode()
            providers[name(number)] = Provider(bytes(32), endpoint, 0)

        async def known(client: Any, at: bytes | None = None) -> dict[bytes, Provider]:
            return providers

        async def stash_of(client: Any, key: bytes, at: bytes | None = None) -> bytes | None:
            return next((name(number) for number, each in KEYS.items() if each.public_key == key), None)

        monkeypatch.setattr(market_reads, "providers", known)
        monkeypatch.setattr(market_reads, "stash_of", stash_of)
        async with BlobClient(private=True) as blobs:
            found = await heard_inventories(cast("Any", FakeClient()), blobs, list(providers), b"")
        for runner in runners:
            await runner.cleanup()
        return found

    return asyncio.run(main())


def test_each_that_lies_or_keeps_us_waiting_is_named_and_the_others_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "ASKED_SECONDS", 2.0)
    began = time.monotonic()
    found = heard(
        monkeypatch,
        {
            1: answering(signed(1)),
            2: silent,
            3: endless,
            4: answering(signed(4, signer=5)),
            5: answering(signed(1)),  # another's, word for word
            6: answering(signed(6, age_ms=3_600_000)),
            7: answering(b"", 404),
            8: None,
        },
    )
    assert time.monotonic() - began < 20
    assert list(found.claims) == list(found.policies) == [name(1)]
    said = found.claims[name(1)][name(1)]
    assert (said.model, said.vram_mib, said.cores, said.platform_version) == ("RTX 1", 24_564, 16, "12.4")
    why = {owner[0]: text for owner, text in found.left_out.items()}
    assert why.keys() == {2, 3, 4, 5, 6, 7, 8}
    for number, text in {
        2: "was too slow", 3: "sent more than 32,768 bytes", 4: "wrong signature", 5: "another key has signed",
        6: "minutes old", 7: "answered 404", 8: "has no endpoint",
    }.items():  # fmt: skip
        assert text in why[number], why


def test_nobody_is_sent_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "answered 302" in heard(monkeypatch, {1: elsewhere}).left_out[name(1)]


def test_so_many_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PROVIDERS_MAX", 1)
    found = heard(monkeypatch, {1: answering(signed(1)), 2: answering(signed(2))})
    assert list(found.claims) == list(found.policies) == [name(1)]
    assert "was not asked" in found.left_out[name(2)]


def test_claims_stand_beside_the_offer_of_the_same_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    hardware = [device(number, {0: number}) for number in (1, 2)]
    rows = rows_of(hardware, {0: service()})
    # provider 2 claims hardware that is another's: it stands beside none of its own devices
    found = heard(monkeypatch, {1: answering(signed(1)), 2: answering(signed(2, hardware=name(1)))})
    first, second = with_claims(rows, found, hardware)
    assert first.claims is not None
    assert first.claims.model == "RTX 1"
    assert second.claims is None
    assert with_claims(rows, HeardInventories(), hardware) == [replace(row, claims=None) for row in rows]


def test_a_provider_s_only_cpu_is_its_machine_s(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = answering(signed(1, hardware=b"r" * 32, is_processor=True))  # the identifier of a CPU is a random one
    found = heard(monkeypatch, {1: cpu})
    one, two = device(1, {0: 1}), replace(device(2, {0: 2}), device=replace(device(1).device, uuid_hash=name(7)))
    assert with_claims(rows_of([one], {0: service()}), found, [one])[0].claims is not None
    several = with_claims(rows_of([one, two], {0: service()}), found, [one, two])
    assert [row.claims for row in several] == [None, None], "which of them it is nobody can tell"
    gpu = replace(one, device=replace(one.device, kind=DeviceClass.CONSUMER))
    assert with_claims(rows_of([gpu], {0: service()}), found, [gpu])[0].claims is None


def test_a_provider_s_door_tells_its_inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = Identity.of(name(1), KEYS[1], GENESIS)
    told = ToldInventory(identity, all_hardware(tmp_path), tmp_path, TransferRates())

    async def main() -> tuple[bytes, bytes]:
        server = BlobServer(BlobStore(tmp_path), inventory=told.told)
        await server.start(port=0)
        without = BlobServer(BlobStore(tmp_path / "2"))
        await without.start(port=0)
        async with BlobClient(private=True) as blobs:
            first = await blobs.inventory_of(f"http://127.0.0.1:{server.port}")
            again = await blobs.inventory_of(f"http://127.0.0.1:{server.port}")
            with pytest.raises(Exception, match="publish its inventory"):
                await blobs.inventory_of(f"http://127.0.0.1:{without.port}")
        await server.close()
        await without.close()
        return first, again

    first, again = asyncio.run(main())
    assert first == again, "the machine is read once a minute"
    found = heard(monkeypatch, {1: answering(first)})
    assert found.left_out == {}
    assert set(found.claims[name(1)]) >= {piece.uuid_hash for piece in told.hardware}


# What was paid of late, out of the events of final blocks that a node still has the states of.


UNIT = Unit(3, name(1), UnitTerms(5, 2, bytes(32), bytes(32), 0, 1), 0, 0, 0, 1, 1)


class PlayedClient:
    """Final blocks with events by their heights; of those below `kept` the state is gone."""

    def __init__(self, height: int, events: dict[int, list[Any]], kept: int = 0) -> None:
        self._height, self._events, self._kept = height, events, kept
        self.asked: list[int] = []

    async def height(self, at: bytes) -> int:
        return self._height

    async def final_ids(self, first: int, last: int) -> list[bytes]:
        return [number.to_bytes(32) for number in range(first, last + 1)]

    async def events(self, block: bytes) -> list[EventRecord]:
        number = int.from_bytes(block)
        self.asked.append(number)
        if number < self._kept:
            raise RpcError(4003, "State already discarded")
        return [cast("EventRecord", Record(event)) for event in self._events.get(number, [])]


class Record:
    def __init__(self, event: Any) -> None:
        self.event = event


def settled(unit: int, winner: int, price: int) -> UnitSettled:
    return UnitSettled(name(unit), bytes(32), bytes(32), name(winner), price, None, price)


@pytest.fixture
def units(monkeypatch: pytest.MonkeyPatch) -> dict[bytes, Unit]:
    known = {
        name(21): replace(UNIT, racers=(Racer(name(1), name(101), 0), Racer(name(2), name(102), 0))),
        name(22): replace(UNIT, racers=(Racer(name(2), name(102), 0),)),
        name(23): replace(UNIT, racers=(Racer(name(5), name(105), 0),)),
    }

    async def read_units(client: object, ids: list[bytes], at: bytes) -> list[Unit | None]:
        return [known.get(unit) for unit in ids]

    async def read_devices(client: object, at: bytes) -> tuple[Any, ...]:
        return device(1), device(2, kind=DeviceClass.DATACENTER)

    monkeypatch.setattr(market_reads, "units", read_units)
    monkeypatch.setattr(market_reads, "devices", read_devices)
    return known


def paid(client: PlayedClient) -> list[SettledUnit]:
    return asyncio.run(settled_of_late(cast("ChainClient", client), bytes(32)))


@pytest.mark.usefixtures("units")
def test_what_was_paid_is_of_the_winner_s_device() -> None:
    events: dict[int, list[Any]] = {
        40: [UnitMatched(name(21), 1, 0, ()), settled(21, 2, 9)],
        39: [settled(22, 2, 8), settled(23, 5, 7), settled(24, 1, 6)],  # a device that is gone, a record that is gone
    }
    client = PlayedClient(40, events)
    kind = DeviceClass.DATACENTER
    assert paid(client) == [SettledUnit(3, kind, 9, 40), SettledUnit(3, kind, 8, 39)]
    assert client.asked == list(range(40, 40 - BLOCKS_LOOKED_AT, -1))


@pytest.mark.usefixtures("units")
def test_it_ends_where_states_are_gone_and_at_the_first_block() -> None:
    client = PlayedClient(40, {30: [settled(21, 1, 9)]}, kept=35)
    assert paid(client) == []
    assert client.asked == [40, 39, 38, 37, 36, 35, 34]
    young = PlayedClient(2, {1: [settled(21, 1, 9)]})
    assert paid(young) == [SettledUnit(3, DeviceClass.CPU, 9, 1)]
    assert young.asked == [2, 1]
    assert paid(PlayedClient(0, {})) == []


def test_the_module_reads_offers_and_services_of_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def nothing(client: object, at: bytes) -> Any:
        asked.append(at)
        return {}

    monkeypatch.setattr(market_reads, "devices", nothing)
    monkeypatch.setattr(market_reads, "services", nothing)

    async def no_past(client: object, owners: object, at: bytes) -> Any:
        return await nothing(client, at)

    async def no_roll_call(client: object, devices: object, at: bytes) -> ProvenRates:
        await nothing(client, at)
        return ProvenRates(False, (), {})

    monkeypatch.setattr(services, "reliability_of", no_past)
    monkeypatch.setattr(services, "proven_rates", no_roll_call)
    assert asyncio.run(services.current_offers(cast("ChainClient", None), name(3))) == []
    assert asked == [name(3)] * 4
