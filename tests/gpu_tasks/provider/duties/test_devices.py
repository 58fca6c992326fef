"""The registered devices that work: those on this machine with the daemon's capabilities."""

from dataclasses import replace

from error_codes import raises_code
from fake_work import FakeForm
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import Device, DeviceClass
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import Offer, ServiceTerms
from gpu_tasks.provider.duties.devices import StandingError, standing_of
from gpu_tasks.provider.execution.gpu import Hardware, on_this_machine
from gpu_tasks.provider.execution.workloads import Workloads
from gpu_tasks.provider.journal.pause_book import PauseCause
from provider_chain import Village, fake_processor, in_village, keypair
from simulation.chains.market_chain import CUSTOMER, MODEL, OGPU, WORKLOAD, signed

OWNER = b"o" * 32
GPU = Hardware("GPU", "GPU-1", DeviceClass.CONSUMER, 24_000, 0)
OTHER_GPU = Hardware("GPU", "GPU-2", DeviceClass.CONSUMER, 24_000, 1)
PROCESSOR = fake_processor("here")
TERMS = ServiceTerms(b"reversed", WORKLOAD, MODEL, 1, 2, 1, 30, 64)


def registered(name: bytes, hardware: Hardware, *services: int) -> DeviceStatus:
    device = Device(OWNER, hardware.kind, hardware.uuid_hash, OGPU, 1, 1)
    return DeviceStatus(name * 32, device, tuple((number, Offer(1, 0)) for number in services))


def test_a_device_is_here_if_its_hardware_is() -> None:
    table = [registered(b"a", GPU), registered(b"b", OTHER_GPU), registered(b"c", PROCESSOR)]
    assert on_this_machine(table, [GPU, PROCESSOR]) == {b"a" * 32: GPU, b"c" * 32: PROCESSOR}
    assert on_this_machine(table, [PROCESSOR]) == {b"c" * 32: PROCESSOR}


def test_an_only_processor_needs_no_identifier_and_one_of_several_does() -> None:
    elsewhere = fake_processor("elsewhere")
    only = registered(b"a", elsewhere)
    assert on_this_machine([only], [PROCESSOR]) == {b"a" * 32: PROCESSOR}
    assert on_this_machine([only], [GPU]) == {}
    assert on_this_machine([only, registered(b"b", fake_processor("third"))], [PROCESSOR]) == {}
    assert on_this_machine([only, registered(b"b", PROCESSOR)], [PROCESSOR]) == {b"b" * 32: PROCESSOR}


def test_what_is_not_here_or_promises_too_much_is_not_served_and_told_why() -> None:
    table = [registered(b"a", GPU, 0), registered(b"b", OTHER_GPU, 0), registered(b"c", PROCESSOR, 0, 1)]
    terms = {0: TERMS, 1: replace(TERMS, workload=b"?" * 32)}
    standing = standing_of(table, [GPU, PROCESSOR], terms, Workloads([FakeForm()]))
    assert standing.served == {b"a" * 32: GPU}
    assert [form.name for form in standing.promised[b"a" * 32]] == ["reversed"]
    assert "(consumer)" in standing.unserved[b"b" * 32]
    assert "service 1, but workload 0x3f3f3f3f.." in standing.unserved[b"c" * 32]


def test_another_model_is_another_promise() -> None:
    standing = standing_of(
        [registered(b"a", GPU, 0)], [GPU], {0: replace(TERMS, model=b"?" * 32)}, Workloads([FakeForm()])
    )
    assert "model 0x3f3f3f3f.. of reversed" in standing.unserved[b"a" * 32]


def paused(village: Village, device: bytes) -> bool:
    found = village.node.chain.now()[Devices].devices[device]
    assert found is not None
    return found.is_paused


@in_village(2)
async def test_an_absent_gpu_is_paused_on_the_chain_and_the_present_device_is_not(village: Village) -> None:
    miner = village.miners[0]
    call = Devices.register_device(kind=DeviceClass.CONSUMER, uuid_hash=b"u" * 32, bond=OGPU)
    village.node.chain.block(signed(miner.keys.stash, call))
    absent = village.node.chain.now()[Devices].device_of_uuid[b"u" * 32]
    assert absent is not None
    await miner.daemon.run()
    village.node.block()
    assert paused(village, absent)
    assert not paused(village, miner.keys.device)
    (told,) = [fields for name, fields in miner.heard.events if name == "not_served"]
    assert told["device"] == absent
    assert "not on this machine" in str(told["problem"])
    assert [fields for name, fields in miner.heard.events if name == "paused"] == [
        {"device": absent, "why": told["problem"]}
    ]
    await miner.daemon.run()
    village.node.block()
    assert paused(village, absent), "the daemon resumes it once it is here"


@in_village(2)
async def test_a_device_that_offers_an_unknown_workload_is_paused_until_the_offer_is_withdrawn(
    village: Village,
) -> None:
    miner = village.miners[0]
    chain, device = village.node.chain, miner.keys.device
    terms = replace(TERMS, workload=b"?" * 32)
    chain.block(
        signed(CUSTOMER.stash, InferenceMarket.create_service(terms=terms)),
        signed(miner.keys.stash, InferenceMarket.offer(device=device, service=1, ask=1)),
    )
    await miner.daemon.run()
    village.node.block()
    assert paused(village, device)
    chain.block(signed(miner.keys.provider, InferenceMarket.withdraw_offer(device=device, service=1)))
    await miner.daemon.run()
    village.node.block()
    assert not paused(village, device)


@in_village(2)
async def test_an_offer_of_a_service_that_was_closed_keeps_no_daemon_from_its_work(village: Village) -> None:
    miner = village.miners[0]
    chain, device = village.node.chain, miner.keys.device
    chain.block(
        signed(CUSTOMER.stash, InferenceMarket.create_service(terms=TERMS)),
        signed(miner.keys.stash, InferenceMarket.offer(device=device, service=1, ask=1)),
        signed(CUSTOMER.stash, InferenceMarket.close_service(service=1)),
        signed(miner.keys.provider, Devices.pause(device=device)),
    )
    miner.daemon.parts.pauses.note(device, cause=PauseCause.UNSERVED)
    miner = await village.restart(miner)
    await miner.daemon.run()
    village.node.block()
    assert not paused(village, device)
    assert "not_settled" not in miner.heard.names()


@in_village(2)
async def test_a_daemon_with_another_key_than_the_registered_one_does_not_run(village: Village) -> None:
    miner = village.miners[0]
    other = SealKey.of(keypair(village.miners[1].keys)).public
    call = Devices.register_provider(seal_key=other, endpoint=b"http://127.0.0.1:1")
    village.node.chain.block(signed(miner.keys.stash, call))
    with raises_code(StandingError, "other_seal_key"):
        await miner.daemon.run()
