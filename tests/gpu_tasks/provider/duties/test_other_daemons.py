"""Two daemons with one provider key: real stores, real HTTP; the second refuses to start."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

import pytest

from error_codes import raises_code
from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.presence import NONCE_BYTES, prove_presence, proven_instance
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.provider.chain.port import View
from gpu_tasks.provider.duties.devices import StandingError
from gpu_tasks.provider.duties.other_daemons import OtherDaemonError, OtherDaemons
from gpu_tasks.provider.tasks.policy_file import set_draining
from provider_chain import Miner, Village, in_village, keypair, seal_key
from simulation.chains.market_chain import GENESIS_HASH, signed


def endpoint_of(miner: Miner) -> str:
    return f"http://127.0.0.1:{miner.daemon.server.port}"


def move(village: Village, miner: Miner, endpoint: str) -> None:
    """Register another endpoint."""
    call = Devices.register_provider(seal_key=seal_key(miner.keys).public, endpoint=endpoint.encode())
    village.node.chain.block(signed(miner.keys.stash, call))


@in_village(2)
async def test_a_second_daemon_with_the_same_key_does_not_start(village: Village, tmp_path: Path) -> None:
    first = village.miners[0]
    village.base = tmp_path / "another machine"
    with pytest.raises(OtherDaemonError, match=endpoint_of(first)):
        await village.open(first.keys)
    assert len(village.miners) == 2
    await first.daemon.run()  # the first one works on


@in_village(2)
async def test_a_daemon_that_was_killed_keeps_no_other_from_starting(village: Village, tmp_path: Path) -> None:
    again = await village.restart(village.miners[0])  # the same port, which is free
    await again.daemon.run()
    village.miners.remove(again)
    await again.daemon.__aexit__()
    village.base = tmp_path / "another machine"
    await village.open(again.keys)


@in_village(2)
async def test_an_endpoint_that_cannot_prove_the_key_keeps_nobody_from_starting(
    village: Village, tmp_path: Path
) -> None:
    """The store of another provider, a program that never answers, an answer to an older nonce."""

    async def replay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(kept[0]) + kept[0])
        await writer.drain()
        writer.close()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    kept: list[bytes] = []

    first, other = village.miners
    kept.append(await village.blobs.presence_of(endpoint_of(first), secrets.token_bytes(NONCE_BYTES)))
    strangers = [await asyncio.start_server(answer, "127.0.0.1", 0) for answer in (replay, mute)]
    ports = [stranger.sockets[0].getsockname()[1] for stranger in strangers]
    for place in (endpoint_of(other), *(f"http://127.0.0.1:{port}" for port in ports)):
        move(village, first, place)
        village.base = tmp_path / f"machine {len(village.miners)}"
        await village.open(first.keys)
    for stranger in strangers:
        stranger.close()
        await stranger.wait_closed()


@in_village(2)
async def test_a_port_that_is_taken_is_said_with_the_option(village: Village, tmp_path: Path) -> None:
    first, other = village.miners
    village.base = tmp_path / "another machine"
    move(village, first, "http://127.0.0.1:1")
    with raises_code(StandingError, "blob_port_unusable"):
        await village.open(first.keys, other.daemon.server.port)


@in_village(2)
async def test_two_that_start_at_once_are_noticed_later(village: Village, tmp_path: Path) -> None:
    first = village.miners[0]
    move(village, first, "http://127.0.0.1:1")
    village.base = tmp_path / "another machine"
    second = await village.open(first.keys)
    move(village, first, endpoint_of(first))
    village.node.chain.blocks(-village.node.chain.height % 64)
    for miner in (first, second):
        await miner.daemon.duty(OtherDaemons).step(miner.chain.view())
        while miner.daemon.duty(OtherDaemons).tasks._tasks:
            await asyncio.sleep(0.001)
    set_draining(second.daemon.settings.base_path, drains=True)
    with pytest.raises(OtherDaemonError):
        await second.daemon.step(second.chain.view())
    assert village.node.calls == [], "it pauses no device of the first one"
    await first.daemon.step(first.chain.view())


@in_village(1)
async def test_a_daemon_that_ends_asks_no_more(village: Village, monkeypatch: pytest.MonkeyPatch) -> None:
    miner = village.miners.pop()
    monkeypatch.setattr(miner.daemon.duty(OtherDaemons), "check", asyncio.Event().wait)
    await miner.daemon.duty(OtherDaemons).step(View(64, ()))
    (asking,) = miner.daemon.duty(OtherDaemons).tasks._tasks.values()
    await miner.daemon.__aexit__()
    assert asking.done()


@in_village(1)
async def test_a_node_that_is_away_ends_no_check(village: Village) -> None:
    miner = village.miners[0]
    miner.chain.is_away = True
    await miner.daemon.duty(OtherDaemons).step(View(64, ()))
    (asking,) = miner.daemon.duty(OtherDaemons).tasks._tasks.values()
    await asyncio.wait([asking])
    assert asking.exception() is None
    await miner.daemon.duty(OtherDaemons).step(View(65, ()))


@in_village(1)
async def test_a_daemon_is_no_other_of_itself(village: Village) -> None:
    miner = village.miners[0]
    await miner.daemon.duty(OtherDaemons).check()
    with pytest.raises(OtherDaemonError):
        await OtherDaemons(miner.daemon.parts).check()


@in_village(2)
async def test_a_proof_is_of_one_nonce_one_chain_and_one_key(village: Village) -> None:
    first, other = (keypair(miner.keys) for miner in village.miners)
    nonce, instance = bytes(NONCE_BYTES), b"i" * 32
    raw = prove_presence(nonce, instance, GENESIS_HASH, first.sign)
    assert proven_instance(raw, nonce, GENESIS_HASH, first.public_key) == instance
    for changed in (
        (raw, b"n" * NONCE_BYTES, GENESIS_HASH, first.public_key),
        (raw, nonce, bytes(32), first.public_key),
        (raw, nonce, GENESIS_HASH, other.public_key),
        (bytes([raw[0] ^ 1]) + raw[1:], nonce, GENESIS_HASH, first.public_key),
        (raw[:-1], nonce, GENESIS_HASH, first.public_key),
        (raw + b"\0", nonce, GENESIS_HASH, first.public_key),
        (b"", nonce, GENESIS_HASH, first.public_key),
    ):
        assert proven_instance(*changed) is None


@pytest.mark.parametrize("text", ["", "00", "zz" * NONCE_BYTES, "00" * (NONCE_BYTES + 1), " 0" * NONCE_BYTES])
@in_village(1)
async def test_a_nonce_of_another_form_is_refused(village: Village, text: str) -> None:
    with pytest.raises(BlobError, match=r"answered 40[04]"):
        await village.blobs._request("GET", endpoint_of(village.miners[0]), f"/daemon/{text}", None)
