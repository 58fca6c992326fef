"""Secrets: handed only by the customer to the waiting program, once, and never written to disk."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from entered_lease import entering
from gpu_tasks.client.tasks.tunnel import hand_secrets
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.programs.results import NOTHING
from gpu_tasks.provider.tasks.working import WorkDuty
from gpu_tasks.provider.tunnel.streams import CopySpool, serve_stream
from gpu_tasks.tasks.container_order import container_hash
from gpu_tasks.tasks.container_request import REQUEST
from gpu_tasks.tunnel import frames
from gpu_tasks.tunnel.tunnel import TunnelError
from renting_village import INTERVAL, INTERVALS, PROGRAM, Renting
from tunnel_ends import stream_ends

NAMES = ("PASSWORD", "TOKEN")
VALUES = {"TOKEN": b"hunter2-in-the-clear", "PASSWORD": b"\xff\0"}


def files_with(folder: Path, content: bytes) -> list[Path]:
    """Return the files below a folder that contain some bytes."""
    return [path for path in folder.rglob("*") if path.is_file() and content in path.read_bytes()]


async def test_a_program_begins_with_the_secrets_that_it_was_handed(tmp_path: Path) -> None:
    async with entering(tmp_path, secrets=NAMES) as entered:
        village, engine = entered.village, entered.engine
        assert not engine.started, "it waits"
        async with entered.tunnel() as tunnel:
            await hand_secrets(tunnel, VALUES)
        await village.block()
        (spec,) = engine.started
        assert spec.secrets == VALUES
        async with entered.tunnel() as tunnel:
            with pytest.raises(TunnelError, match="program has begun"):
                await hand_secrets(tunnel, {"TOKEN": b"another", "PASSWORD": b""})
        ended = await village.until(entered.task, TaskState.ENDED)
        assert ended.outcome is TaskOutcome.TIME_OVER
        assert not files_with(tmp_path, VALUES["TOKEN"])
        said = " ".join(str(each) for miner in village.miners for each in miner.heard.events)
        assert "hunter2" not in said


async def test_while_it_waits_nothing_else_is_done_in_it(tmp_path: Path) -> None:
    async with entering(tmp_path, secrets=NAMES) as entered, entered.tunnel() as tunnel:
        stream = await tunnel.open(frames.RunProgram(("sh",), is_terminal=False, rows=0, columns=0))
        assert "`ogpu task secrets`" in (await stream.end).problem


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"TOKEN": b"x"}, "at once: PASSWORD, TOKEN"),
        ({**VALUES, "MORE": b"x"}, "at once: PASSWORD, TOKEN"),
        ({"TOKEN": bytes(frames.SECRETS_BYTES_MAX), "PASSWORD": b"x"}, "at most 65,536 bytes"),
    ],
)
async def test_other_secrets_than_it_names_are_refused(tmp_path: Path, values: dict[str, bytes], says: str) -> None:
    async with entering(tmp_path, secrets=NAMES) as entered, entered.tunnel() as tunnel:
        with pytest.raises(TunnelError, match=says):
            await hand_secrets(tunnel, values)
        await hand_secrets(tunnel, VALUES)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (bytes(frames.HANDED_BYTES_MAX + 1), "at most 65,536 bytes"),
        (b"\xff" * 10, "not secrets"),
        (frames.HANDED.encode((frames.HandedSecret("TOKEN", b"x"),) * 2), "all of these at once"),
    ],
)
async def test_what_is_no_secret_is_refused_and_costs_little(tmp_path: Path, content: bytes, says: str) -> None:
    async with entering(tmp_path, secrets=NAMES) as entered:
        async with entered.tunnel() as tunnel:
            stream = await tunnel.open(frames.TakeSecrets())
            await stream.write(content)
            await stream.end_input()
            assert says in (await stream.end).problem
        await entered.village.block()
        assert not entered.engine.started


async def test_nobody_else_hands_it_secrets(tmp_path: Path) -> None:
    async with entering(tmp_path, secrets=NAMES) as entered:
        with pytest.raises(TunnelError):
            async with entered.tunnel(SealKey.from_seed(b"m" * 32)) as tunnel:
                await hand_secrets(tunnel, VALUES)
        await entered.village.block()
        assert not entered.engine.started


async def test_a_program_without_secrets_waits_for_none(tmp_path: Path) -> None:
    async with entering(tmp_path) as entered:
        assert len(entered.engine.started) == 1
        async with entered.tunnel() as tunnel:
            with pytest.raises(TunnelError, match="has begun"):
                await hand_secrets(tunnel, {})


@pytest.mark.parametrize("is_lease", [True, False])
async def test_the_time_of_who_never_hands_them_over_is_paid_and_its_provider_says_why(
    tmp_path: Path, *, is_lease: bool
) -> None:
    async with Renting(tmp_path, 3) as village:
        task = await village.rent(replace(PROGRAM, secrets=NAMES, is_lease=is_lease))
        ended = await village.until(task, TaskState.ENDED)
        assert ended.outcome is TaskOutcome.TIME_OVER
        assert ended.slots[0].finished_at >= ended.started_at + INTERVAL * INTERVALS
        result = ended.slots[0].result
        assert result is not None
        assert (result.root, result.blob, result.metric) == (NOTHING, NOTHING, 255)
        assert sum(earned for _, earned in village.settled()) == ended.slots[0].price
        miner = village.miner(ended.slots[0].provider)
        assert miner.heard.names().count("waits_for_secrets") == 1
        assert not village.engine_of(miner.keys.stash).started
        for _ in range(3):
            await village.block()
        assert not miner.daemon.duty(WorkDuty).selling.programs.is_ready((task, 1))
        assert village.node.failed == []


async def test_a_daemon_that_restarts_waits_anew(tmp_path: Path) -> None:
    async with entering(tmp_path, secrets=NAMES) as entered:
        village = entered.village
        async with entered.tunnel() as tunnel:
            await hand_secrets(tunnel, VALUES)
        await village.restart(village.miner(entered.stash))
        for _ in range(3):
            await village.block()
        assert not entered.engine.started, "they were in memory alone"
        assert village.task(entered.task).state is TaskState.RUNNING
        async with entered.tunnel() as tunnel:
            await hand_secrets(tunnel, VALUES)
        await village.block()
        (spec,) = entered.engine.started
        assert spec.secrets == VALUES


async def test_a_customer_that_leaves_before_leaves_nothing(tmp_path: Path) -> None:
    async with entering(tmp_path, secrets=NAMES) as entered:
        village = entered.village
        village.ask(TrainingMarket.stop(task=entered.task))
        for _ in range(3):
            await village.block()
        assert village.task(entered.task).outcome is TaskOutcome.TIME_STOPPED
        assert not village.miner(entered.stash).daemon.duty(WorkDuty).selling.programs.is_ready((entered.task, 1))
        assert not entered.engine.started


async def test_several_who_compute_the_same_are_handed_none(tmp_path: Path) -> None:
    async with Renting(tmp_path, 5, is_of_one_price=True) as village:
        program = replace(PROGRAM, secrets=NAMES)
        named = container_hash(REQUEST.encode(program), 1, tuple(DeviceClass), 3)
        order = {"checked_by": CheckedBy.REPLICATED, "milestones": 1, "slots": 3, "blocks_max": 20, "task_hash": named}
        task = await village.rent(program, **order)
        assert (await village.until(task, TaskState.ENDED)).bids == 0
        assert "one winner receives" in str(village.miners[0].heard.events)


async def test_secrets_of_which_the_end_did_not_come_are_not_taken(tmp_path: Path) -> None:
    taken: list[object] = []

    room = cast("Any", SimpleNamespace(take_secrets=taken.append))
    async with stream_ends() as (customer, provider):
        await customer.write(frames.HANDED.encode((frames.HandedSecret("TOKEN", b"half of"),)))
        await customer.finish()
        await serve_stream(room, CopySpool(tmp_path), provider, frames.TakeSecrets())
    assert taken == []
