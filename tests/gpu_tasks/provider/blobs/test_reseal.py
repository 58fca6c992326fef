"""A racer gives its output to a judge of the present case on the chain, and to no other."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_tasks.batches.outcomes import Completed, decode_outcomes
from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.sealing import SealError
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.provider.blobs import reseal
from gpu_tasks.provider.chain.port import Identity
from provider_chain import REQUEST, Miner, Village


@contextlib.asynccontextmanager
async def in_dispute(tmp_path: Path) -> AsyncIterator[tuple[Village, bytes, Miner, Miner]]:
    """Run until a committee is drawn. Return village, unit, a racer and a judge."""
    async with Village(tmp_path, 5) as village:
        unit = await village.post()
        status = village.node.api().unit(unit)
        racers: list[bytes] = []
        while status is None or status.case is None or not status.case.benches:
            village.node.block()
            status = village.node.api().unit(unit)
            assert status is not None
            racers = [racer.owner for racer in status.unit.racers]
            for miner in village.miners:
                miner.executor.spoil = bool(racers) and miner.keys.stash == racers[0]
                if status.unit.state is not UnitState.JUDGING:
                    await miner.step()
        judge = village.miner(status.case.benches[0].members[0])
        yield village, unit, village.miner(racers[1]), judge


async def ask(village: Village, racer: Miner, question: bytes) -> bytes:
    return await village.blobs.ask(f"http://127.0.0.1:{racer.daemon.server.port}", "/reseal", question)


async def test_a_judge_gets_the_output_sealed_to_it(tmp_path: Path) -> None:
    async with in_dispute(tmp_path) as (village, unit, racer, judge):
        identity = judge.daemon.parts.identity
        blob = await ask(village, racer, reseal.question(identity, unit))
        (outcome,) = decode_outcomes(identity.seal_key.open(blob))
        assert outcome == Completed(REQUEST[::-1], 0, len(REQUEST))
        for other in village.miners:
            if other is not judge:
                with pytest.raises(SealError):
                    other.daemon.parts.identity.seal_key.open(blob)


async def test_everybody_else_is_refused(tmp_path: Path) -> None:
    async with in_dispute(tmp_path) as (village, unit, racer, judge):
        identity = judge.daemon.parts.identity
        outsider = next(miner for miner in village.miners if miner is racer).daemon.parts.identity
        good = reseal.question(identity, unit)
        foreign = Identity(identity.stash, identity.key, identity.seal_key, b"g" * 32)
        thief = replace(outsider, stash=identity.stash)
        for question, reason in (
            (b"", "not a question"),
            (bytes(len(good)), "bad signature"),
            (good[:-1] + bytes((good[-1] ^ 1,)), "bad signature"),
            (good + b"\0", "not a question"),
            (reseal.question(foreign, unit), "bad signature"),
            (reseal.question(identity, b"?" * 32), "no case"),
            (reseal.question(outsider, unit), "no judge"),
            (reseal.question(thief, unit), "no judge"),
            (b"x" * 5000, "413|Maximum"),
        ):
            with pytest.raises(BlobError, match=reason):
                await ask(village, racer, question)
        with pytest.raises(BlobError, match="no output of"):
            await ask(village, judge, good)
        racer.chain.is_away = True
        with pytest.raises(BlobError, match="chain cannot be"):
            await ask(village, racer, good)


async def test_after_the_verdict_nobody_gets_it(tmp_path: Path) -> None:
    async with in_dispute(tmp_path) as (village, unit, racer, judge):
        await village.run(unit)
        with pytest.raises(BlobError, match="no case"):
            await ask(village, racer, reseal.question(judge.daemon.parts.identity, unit))
