"""A folder unused for longer than the trusting period needs a trusted recent block."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from consensus.validators import Validator, ValidatorSet
from played_node import PlayedNode, served
from runtime.blocks.block import block_id
from small_chain import FIRST_SLOT
from wallet import verified
from wallet.errors import WalletError
from wallet.proved.refutation import NodeRefutedError
from wallet.proved.sets_file import SETS_FILE, SetsFile
from wallet.proved.trusting import (
    DAY_MS,
    RENEWED_AFTER_MS,
    SEEN_FILE,
    TRUSTING_PERIOD_MS,
    SeenBlock,
    TrustExpiredError,
    expiry,
    read_seen,
    renew,
)
from wallet.proved.view import STATE_IS_GONE, ProvedView
from wallet.rpc import RpcError
from wallet.trust import Trust
from wallet.verified import VerifiedClient

GENESIS = b"g" * 32
NOW_MS = 1_800_000_000_000


def block(age_ms: int, number: int = 7) -> SeenBlock:
    return SeenBlock("0x" + GENESIS.hex(), number, "0x" + "ab" * 32, NOW_MS - age_ms)


def test_the_newest_block_is_written_down_when_it_is_worth_it(tmp_path: Path) -> None:
    assert read_seen(tmp_path, GENESIS) is None
    first = renew(tmp_path, None, block(10 * RENEWED_AFTER_MS), NOW_MS)
    assert read_seen(tmp_path, GENESIS) == first == block(10 * RENEWED_AFTER_MS)
    assert renew(tmp_path, first, block(9 * RENEWED_AFTER_MS + 1), NOW_MS) == first
    later = renew(tmp_path, first, block(9 * RENEWED_AFTER_MS), NOW_MS)
    assert later == read_seen(tmp_path, GENESIS) == block(9 * RENEWED_AFTER_MS)
    assert renew(tmp_path, later, block(20 * RENEWED_AFTER_MS), NOW_MS) == later  # it never decreases
    assert renew(tmp_path, later, block(-1), NOW_MS) == later  # nor into the future
    assert read_seen(tmp_path, b"o" * 32) is None


def test_what_is_too_old_is_not_written_down_in_the_first_place(tmp_path: Path) -> None:
    assert renew(tmp_path, None, block(TRUSTING_PERIOD_MS + 1), NOW_MS) is None
    assert not (tmp_path / SEEN_FILE).exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"genesis": 1}', "[" * 500])
def test_a_file_that_says_nothing_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / SEEN_FILE).write_text(text)
    (tmp_path / SEEN_FILE).chmod(0o600)
    with pytest.raises(WalletError, match=r"chain\.seen"):
        read_seen(tmp_path, GENESIS)


def test_after_the_trusting_period_a_sentence_says_what_to_do() -> None:
    assert expiry(None, NOW_MS) is None
    assert expiry(block(TRUSTING_PERIOD_MS), NOW_MS) is None
    said = expiry(block(TRUSTING_PERIOD_MS + DAY_MS), NOW_MS)
    assert said is not None
    assert "15 days old" in said
    assert "--checkpoint 0x" in said


@asynccontextmanager
async def absent(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[PlayedNode, VerifiedClient, list[int]]]:
    """Connect, stay away for twenty days, and connect again."""
    async with served(folder) as (node, port):
        node.author()
        node.author()
        clock = [(FIRST_SLOT + 3) * 1_000]
        monkeypatch.setattr(verified, "system_clock_ms", lambda: clock[0])
        url, trust = f"ws://127.0.0.1:{port}", Trust(folder / "keys")
        async with await VerifiedClient.connect_by(url, trust, lambda _: None) as client:
            while await client.height(await client.finalized()) < 2:
                await asyncio.sleep(0.01)
        assert (folder / "keys" / SEEN_FILE).exists()
        clock[0] += 20 * DAY_MS
        async with await VerifiedClient.connect(url) as client:
            yield node, client, clock


async def check(client: VerifiedClient, folder: Path, checkpoint: bytes | None = None, *, is_live: bool) -> None:
    assert client._proved is not None
    trust = Trust(folder / "keys", checkpoint=checkpoint)
    await client._check_age(trust, client._proved, is_development=not is_live)


async def test_a_development_chain_is_told_only_and_a_live_one_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with absent(tmp_path, monkeypatch) as (_, client, clock):
        await client.begin(Trust(tmp_path / "keys"), lambda _: None)
        await check(client, tmp_path, is_live=False)
        with pytest.raises(TrustExpiredError, match="20 days old"):
            await check(client, tmp_path, is_live=True)
        clock[0] -= 7 * DAY_MS
        await check(client, tmp_path, is_live=True)


async def test_another_history_of_a_live_chain_is_not_taken_for_a_reset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with absent(tmp_path, monkeypatch) as (node, client, clock):
        await client.begin(Trust(tmp_path / "keys"), lambda _: None)
        clock[0] -= 20 * DAY_MS
        seen = read_seen(tmp_path / "keys", node.chain.genesis_hash)
        assert seen is not None
        other = replace(seen, block="0x" + "11" * 32)
        (tmp_path / "keys" / SEEN_FILE).write_text(json.dumps(asdict(other)))
        for is_live, known in ((True, other), (False, None)):
            await check(client, tmp_path, is_live=is_live)
            assert read_seen(tmp_path / "keys", node.chain.genesis_hash) == known


async def test_somebody_s_word_for_a_recent_block_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with absent(tmp_path, monkeypatch) as (node, client, clock):
        await client.begin(Trust(tmp_path / "keys"), lambda _: None)
        with pytest.raises(TrustExpiredError):  # the block is final, and no newer than the known one
            await check(client, tmp_path, block_id(node.chain.head), is_live=True)
        clock[0] -= 20 * DAY_MS
        seen = read_seen(tmp_path / "keys", node.chain.genesis_hash)
        assert seen is not None
        old = replace(seen, time_ms=seen.time_ms - 20 * DAY_MS)
        (tmp_path / "keys" / SEEN_FILE).write_text(json.dumps(asdict(old)))
        with pytest.raises(TrustExpiredError):
            await check(client, tmp_path, is_live=True)
        with pytest.raises((NodeRefutedError, RpcError)):
            await check(client, tmp_path, b"x" * 32, is_live=True)
        await check(client, tmp_path, block_id(node.chain.head), is_live=True)
        assert read_seen(tmp_path / "keys", node.chain.genesis_hash) == seen


async def test_a_checkpoint_holds_the_node_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with absent(tmp_path, monkeypatch) as (node, client, clock):
        clock[0] -= 20 * DAY_MS
        honest = client.rpc.call
        old = await honest("ogpu_certifiedHeader")
        height = node.final
        node.author()
        while int((await honest("ogpu_status"))["final"]["number"]) <= height:
            await asyncio.sleep(0.01)

        async def call(method: str, *parameters: Any) -> Any:
            return old if method == "ogpu_certifiedHeader" and not parameters else await honest(method, *parameters)

        client.rpc.call = call  # type: ignore[method-assign]  # a node that goes back
        await client.begin(Trust(tmp_path / "keys", checkpoint=block_id(node.chain.head)), lambda _: None)
        assert await client.height(await client.finalized()) == height + 1


async def test_a_checkpoint_whose_state_seats_others_than_the_handoffs_is_refused_and_the_handoffs_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old keys can hand on to any set and certify a true block, but its state has the real set."""

    async with absent(tmp_path, monkeypatch) as (node, client, clock):
        clock[0] -= 20 * DAY_MS
        trust = Trust(tmp_path / "keys", checkpoint=block_id(node.chain.head))
        await client.begin(trust, lambda _: None)
        assert client._proved is not None
        sets = client._proved._sets
        forged = Validator(b"f" * 32, b"s" * 32, b"v" * 32, 1)

        async def of(epoch: int) -> ValidatorSet:
            return ValidatorSet(epoch, (forged,))

        (tmp_path / "keys" / SETS_FILE).write_bytes(b"followed")
        sets._file = SetsFile(tmp_path / "keys", node.chain.genesis_hash)
        monkeypatch.setattr(sets, "of", of)
        view = ProvedView(client.rpc.url, client.rpc.call, client.apis, (await client._proved.newest()).block)
        with pytest.raises(NodeRefutedError, match="seats others than the handoffs lead to"):
            await client._proved.require_validators(view)
        assert not (tmp_path / "keys" / SETS_FILE).exists()


async def test_where_the_state_of_the_checkpoint_is_gone_its_header_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with absent(tmp_path, monkeypatch) as (node, client, clock):
        clock[0] -= 20 * DAY_MS
        told: list[str] = []
        honest = client.rpc.call

        async def call(method: str, *parameters: Any) -> Any:
            if method == "state_getReadProof" and parameters[-1] != "0x" + node.chain.genesis_hash.hex():
                raise RpcError(4003, STATE_IS_GONE)
            return await honest(method, *parameters)

        client.rpc.call = call  # type: ignore[method-assign]  # a node that dropped it
        await client.begin(Trust(tmp_path / "keys", checkpoint=block_id(node.chain.head)), told.append)
        assert told == [], "nothing is left open"
        assert client._proved is not None

        async def of(epoch: int) -> ValidatorSet:
            return ValidatorSet(epoch, (Validator(b"f" * 32, b"s" * 32, b"v" * 32, 1),))

        monkeypatch.setattr(client._proved._sets, "of", of)
        view = ProvedView(client.rpc.url, client.rpc.call, client.apis, (await client._proved.newest()).block)
        with pytest.raises(NodeRefutedError, match="seats others than the handoffs lead to"):
            await client._proved.require_validators(view)
