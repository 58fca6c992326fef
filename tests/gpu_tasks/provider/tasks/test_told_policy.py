"""The policy that a running daemon serves, over real HTTP."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_tasks.data.blob_client import TransferRates
from gpu_tasks.data.inventory import (
    CONTAINER_KIND,
    IMAGES_MAX,
    KINDS_MAX,
    ClaimedPolicy,
    ClaimedPrograms,
    image_mark,
    read_inventory,
)
from gpu_tasks.provider import told_inventory
from gpu_tasks.provider.chain.port import Identity
from gpu_tasks.provider.programs.means import ProgramMeans
from gpu_tasks.provider.tasks.policy import BidPolicy
from gpu_tasks.provider.tasks.policy_file import set_draining, write_policy
from gpu_tasks.provider.told_inventory import claimed_policy
from gpu_tasks.tasks.quantities import Rate, TimeSpan
from provider_chain import Village
from runtime.cryptography.signatures import Scheme
from runtime.encoding.codec import codec
from simulation.chains.market_chain import GENESIS_HASH
from wallet.keypair import Keypair

IMAGE = "ghcr.io/acme/lora"
MEANS = ProgramMeans(images=(IMAGE,), memory_bytes=5 << 30)
POLICY = BidPolicy(kinds=(CONTAINER_KIND,), containers=MEANS)


def test_each_field_is_published_as_itself_and_within_the_claim_s_bounds() -> None:
    means = ProgramMeans(("a", "b"), True, False, 1, 2, 3, 4, 5)
    policy = BidPolicy(kinds=("train-int8", "x\0", "x "), least_price=Rate(7, TimeSpan(11, 13)), gangs=True)
    programs = ClaimedPrograms("none", (image_mark("a"), image_mark("b")), True, False, 1, 2, 3, 4, 5)
    told = claimed_policy(policy, means, "none")
    assert told == ClaimedPolicy(("train-int8", "x"), True, 7, 11, 13, programs)
    assert claimed_policy(policy, replace(means, any_archive=False, outbound=True), "").programs == replace(
        programs, any_archive=False, outbound=True, why_not=""
    )
    most = claimed_policy(
        replace(policy, kinds=tuple(map(str, range(KINDS_MAX + 1)))),
        ProgramMeans(tuple(map(str, range(IMAGES_MAX + 1))), False, False, *[1 << 70] * 5),
        "",
    )
    assert codec(ClaimedPolicy).decode(codec(ClaimedPolicy).encode(most)) == most


def test_the_machine_is_read_once_a_minute_and_when_the_policy_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each request would cost a signature and a look at the drivers."""
    read: list[ClaimedPolicy] = []
    now, policy = [0.0], [ClaimedPolicy((CONTAINER_KIND,))]

    def inventory_of(*told: Any) -> Any:
        read.append(told[-1])
        return inventory(*told)

    inventory = told_inventory.inventory_of
    monkeypatch.setattr(told_inventory, "inventory_of", inventory_of)
    monkeypatch.setattr(told_inventory, "time", SimpleNamespace(monotonic=lambda: now[0], time_ns=time.time_ns))
    identity = Identity.of(bytes(32), Keypair.from_seed(Scheme.ED25519, bytes(32)), GENESIS_HASH)
    told = told_inventory.ToldInventory(identity, [], tmp_path, TransferRates(), lambda: policy[0])

    async def main() -> None:
        first = await told.told()
        assert await told.told() == first
        policy[0] = ClaimedPolicy()
        assert await told.told() != first
        now[0] = told_inventory.KEPT_SECONDS
        third = await told.told()
        now[0] += told_inventory.KEPT_SECONDS - 1
        assert await told.told() == third

    asyncio.run(main())
    assert [claimed.kinds for claimed in read] == [(CONTAINER_KIND,), (), ()]


def test_a_daemon_tells_what_it_bids_for_and_what_it_runs_programs_by_since_its_start(tmp_path: Path) -> None:
    async def main() -> None:
        village = Village(tmp_path, 3, running=1)
        base = tmp_path / village.node.chain.validators[0].name
        base.mkdir()
        write_policy(base, POLICY)
        async with village:
            (miner,) = village.miners

            async def told() -> ClaimedPolicy:
                data = await village.blobs.inventory_of(f"http://127.0.0.1:{miner.daemon.server.port}")
                return read_inventory(data, GENESIS_HASH, time.time_ns() // 1_000_000).policy

            first = await told()
            assert first.kinds == (CONTAINER_KIND,)
            assert (first.programs.memory_bytes, first.programs.images) == (5 << 30, (image_mark(IMAGE),))
            assert first.programs.why_not, "it was given no engine"
            write_policy(base, replace(POLICY, gangs=True, containers=replace(MEANS, memory_bytes=9 << 30)))
            second = await told()
            assert (second.gangs, second.programs.memory_bytes) == (True, 5 << 30)
            set_draining(base, drains=True)
            assert (await told()).kinds == ()

    asyncio.run(asyncio.wait_for(main(), 60))
