"""The pool: places that nobody pays for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from devnet.launcher.layout import Devnet
from devnet.proofs.flood.attack import attack
from devnet.proofs.flood.peers.intruder import FloodMessage, HostilePeer, assail, flooding
from devnet.proofs.flood.peers.transactions import REMARK_BYTES, FloodSigner
from devnet.proofs.flood.scene import Scene, victim_of
from node.p2p.frames import FrameKind
from runtime.blocks.era import mortal
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from runtime.pallets.utility import Utility
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet.rpc import RpcError
from wallet.suri import keypair_from_suri

REPLACER, PAYER, HONEST = "//Ferdie", "//Eve", "//Dave"
GAPS, FIRST_TIP = 60, 1_000
HOARDERS, FUTURES_EACH = 32, 64
FUTURE_BLOCKS = 64
HONEST_TIP = 10**8
T = TypeVar("T")


@attack("N5", messages_max=3_000)
async def replacements(scene: Scene) -> None:
    """Extrinsics of 59 kB behind a gap of nonces, each replaced again and again by one with a little more tip.

    The tip is never paid, and the node that was told passed each of them on to all others; 100 a second to one node.
    """
    signer, key = FloodSigner.of(scene), keypair_from_suri(REPLACER)
    nonce = await with_client(scene.net, lambda client: client.nonce(key.account))

    def make(_: HostilePeer, number: int) -> FloodMessage:
        step, gap = divmod(number, GAPS)
        tip = int(FIRST_TIP * 1.3**step) + step
        call = System.remark(remark=os.urandom(REMARK_BYTES))
        return FrameKind.TX, signer.signed(call, key, nonce + 2 + gap, tip)

    await assail(scene, [scene.victim], flooding(scene, 100, make, at_once=16))


async def _honest_one_early(net: Devnet) -> list[str]:
    """An honest extrinsic that arrives one nonce early, and pays well, still finds a place; then the one before it."""
    return await with_client(net, _try_early)


async def _try_early(client: ChainClient) -> list[str]:
    key = keypair_from_suri(HONEST)
    nonce = await client.nonce(key.account)
    call = System.remark(remark=b"honest")
    try:
        early = await client.sign(call, key, nonce=nonce + 1, tip=HONEST_TIP)
        await client.rpc.call("author_submitExtrinsic", "0x" + early.hex())
    except RpcError as error:
        return [f"an honest extrinsic one nonce early was refused: {error}"]
    due = await client.sign(call, key, nonce=nonce)
    await client.send(due, until="inBlock")
    return []


@attack("N6", messages_max=4_000, aftermath=_honest_one_early)
async def futures(scene: Scene) -> None:
    """32 accounts with 64 extrinsics each, the first nonce never sent: all the places of those that wait, for no fee.

    They are mortal here, so that the attacks after this one find an empty pool.
    """
    keys = [Keypair.from_seed(Scheme.ED25519, blake2_256(b"hoarder %d" % number)) for number in range(HOARDERS)]
    height, birth = await with_client(scene.net, lambda client: _endow(client, keys))
    signer, era = FloodSigner.of(scene), mortal(FUTURE_BLOCKS, height)
    call = System.remark(remark=b"hoarded")
    raws = [
        signer.signed(call, key, nonce, era=era, birth=birth) for nonce in range(1, 1 + FUTURES_EACH) for key in keys
    ]

    async def serve(intruder: HostilePeer) -> None:
        async for due in scene.paced(1_000, at_once=100):
            start = len(raws) - due
            await intruder.send((FrameKind.TX, raw) for raw in raws[max(0, start) :])
            del raws[max(0, start) :]
            if not raws:
                return

    await assail(scene, [scene.victim], serve)


async def _endow(client: ChainClient, keys: list[Keypair]) -> tuple[int, bytes]:
    """Each key gets one oGPU; gives a final block's height and hash."""
    transfers = tuple(Balances.transfer_keep_alive(dest=key.account, value=GRAINS_PER_OGPU) for key in keys)
    await client.submit(Utility.batch(calls=transfers), keypair_from_suri(PAYER))
    final = await client.finalized()
    return await client.height(final), final


async def with_client(net: Devnet, ask: Callable[[ChainClient], Awaitable[T]]) -> T:
    """Ask the victim's node as a wallet does, which is asyncio's."""

    async def asking() -> T:
        async with await ChainClient.connect(victim_of(net).rpc_url) as client:
            return await ask(client)

    return await trio.to_thread.run_sync(lambda: asyncio.run(asking()))
