"""Proofs of a real node process and their cost, also after the node lost every trie of its first block."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from devnet.launcher.free_ports import one_free_port
from genesis import dev_accounts
from node_process import NodeProcess, wait_for
from runtime.pallets.balances import Balances, Transfer
from runtime.pallets.system import System
from wallet.suri import keypair_from_suri
from wallet.trust import Trust
from wallet.verified import VerifiedClient

pytestmark = pytest.mark.e2e
BOB = dev_accounts.stash("Bob")


def is_open(port: int) -> bool:
    """Return True if a server listens."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_real_node_shows_what_it_says(tmp_path: Path) -> None:
    port = one_free_port()
    node = NodeProcess(tmp_path, "dev", "--dev", "--rpc-port", str(port))
    told: list[str] = []

    async def pay(value: int) -> None:
        trust = Trust(tmp_path / "keys")
        async with await VerifiedClient.connect_by(f"ws://127.0.0.1:{port}", trust, told.append) as client:
            before = (await client.read(System.account, BOB)).data.free
            call = Balances.transfer_keep_alive(dest=BOB, value=value)
            outcome = await client.submit(call, keypair_from_suri("//Alice"))
            assert any(isinstance(event, Transfer) and event.amount == value for event in outcome.events)
            final = await client.finalized()
            assert await client.height(final) >= outcome.block_number
            assert (await client.read(System.account, BOB, at=final)).data.free == before + value
            assert (await client.query("GpuTasksApi_duties", BOB, at=final)) == ()

    try:
        node.start()
        wait_for(lambda: node.final_height() >= 2 and is_open(port), 60)
        asyncio.run(pay(5))
        node.kill()
        node.start()
        before = node.final_height()
        wait_for(lambda: node.final_height() >= before + 2 and is_open(port), 60)
        asyncio.run(pay(6))
    finally:
        node.close()
    assert [text[:12] for text in told] == ["first use of"]
