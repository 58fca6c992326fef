"""Customers' programs before a bid: the accepted ones, and their prepared and released images."""

import gzip
from dataclasses import replace
from typing import Any

import pytest

from fake_engine import MISSING
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.provider.tasks import bid_terms, bids
from gpu_tasks.provider.tasks.bid_terms import UnfitError
from gpu_tasks.provider.tasks.working import WorkDuty
from gpu_tasks.tasks.container_request import (
    ArchivedImage,
    AskedLimits,
    ContainerNetwork,
    ContainerRequest,
    ImagePart,
    RegistryImage,
)
from renting_village import PROGRAM, REPOSITORY, Renting, begun, in_renting_village
from runtime.cryptography.hashing import blake2_256

ARCHIVE = b"of an image, as an engine reads it" * 1_000
NO_PART = ImagePart(bytes(32), bytes(32))


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (replace(PROGRAM, image=RegistryImage("registry.test/other", b"i" * 32)), "is not on the provider's list"),
        (replace(PROGRAM, image=RegistryImage(REPOSITORY, bytes.fromhex(MISSING))), "no registry has it"),
        (replace(PROGRAM, image=ArchivedImage(b"i" * 32, 9, (NO_PART,))), "no archive with the id"),
        (replace(PROGRAM, image=ArchivedImage(b"i" * 32, 1 << 30, (NO_PART,))), "of at most"),
        (replace(PROGRAM, limits=AskedLimits(memory_bytes=3 << 30)), "memory_bytes"),
        (replace(PROGRAM, network=ContainerNetwork.OUTBOUND), "asks for the network"),
        (replace(PROGRAM, gpus=1), "it needs 1 GPUs"),
        (replace(PROGRAM, secrets=("../etc",)), "a name among its secrets"),
        (replace(PROGRAM, version=2), "version 2"),
        (replace(PROGRAM, limits=AskedLimits(output_bytes=2 << 20)), "a blob holds"),
    ],
)
@in_renting_village(2)
async def test_what_the_policy_does_not_let_run_is_not_bid_for_and_said(
    village: Renting, program: ContainerRequest, says: str
) -> None:
    task = await village.rent(program)
    assert (await village.until(task, TaskState.ENDED)).bids == 0
    assert any(says in str(each) for each in village.miners[0].heard.events)
    assert not village.miners[0].daemon.duty(WorkDuty).selling.programs.is_ready((task, 1))


@in_renting_village(takes_archives=True)
async def test_an_image_that_its_customer_sends_is_fetched_before_the_bid_loaded_and_not_kept_as_a_file(
    village: Renting,
) -> None:
    parts = await village.stored_parts(gzip.compress(ARCHIVE, 0))
    assert len(parts) > 4
    image = ArchivedImage(b"i" * 32, len(ARCHIVE), parts)
    _, miner, engine = await begun(village, replace(PROGRAM, image=image))
    assert engine.images == {image.sha256.hex(): ARCHIVE}
    others = [each for each in village.fakes.values() if each is not engine and each.images]
    assert others, "who bids and does not win has it too, and can take over"
    assert not list((miner.daemon.settings.base_path / "images").iterdir())
    assert not any(miner.daemon.parts.store.get(part.blob) for part in parts), "its store keeps none of it"


@in_renting_village(2, takes_archives=True)
async def test_a_part_that_is_not_to_be_had_is_no_missing_input(village: Renting) -> None:
    task = await village.rent(replace(PROGRAM, image=ArchivedImage(b"i" * 32, 9, (NO_PART,))))
    assert (await village.until(task, TaskState.ENDED)).bids == 0
    assert any("image cannot be fetched" in str(each) for each in village.miners[0].heard.events)


@in_renting_village(1)
async def test_what_was_made_ready_for_a_bid_that_is_not_made_is_let_go(
    village: Renting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_little(*_: object) -> None:
        raise UnfitError("it pays too little by now")

    offers = iter((bid_terms.program_offer,))

    def once(*words: Any) -> Any:
        return next(offers, too_little)(*words)

    monkeypatch.setattr(bids, "program_offer", once)
    village.engines = {}
    task = await village.rent()
    await village.until(task, TaskState.ENDED)
    assert "it pays too little by now" in str(village.miners[0].heard.events)
    assert not village.miners[0].daemon.duty(WorkDuty).selling.programs.is_ready((task, 1))


@in_renting_village(2)
async def test_a_request_that_is_not_the_one_that_its_hash_names_is_not_bid_for(village: Renting) -> None:
    task = await village.rent(task_hash=blake2_256(b"another"))
    assert (await village.until(task, TaskState.ENDED)).bids == 0
    assert any("match its hash" in str(each) for each in village.miners[0].heard.events)
