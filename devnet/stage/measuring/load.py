"""A load of transfers between the development accounts, spread over the nodes of a devnet.

Invariant: each sender has one transfer in flight at a time, so nonces never race. If a node does not answer, the sender
tries another node and never raises.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from devnet.launcher.layout import Devnet
from genesis.preset_names import DEV_NAMES
from runtime.cryptography.signatures import Scheme
from runtime.pallets.balances import Balances
from wallet.client import ChainClient, NotIncludedError
from wallet.errors import WalletError
from wallet.keypair import Keypair
from wallet.rpc import NodeUnreachableError, RpcError
from wallet.suri import keypair_from_suri

RETRY_SECONDS = 0.2


@dataclass(slots=True)
class Load:
    """Counts of the transfers so far."""

    handed_in: int = 0
    included: int = 0
    retried: int = 0


async def transfers(devnet: Devnet, load: Load, random_source: random.Random) -> None:
    """Send until cancelled, with one sender for each development account."""
    keys = [keypair_from_suri(f"//{name}", Scheme.SR25519) for name in DEV_NAMES]
    async with asyncio.TaskGroup() as group:
        for key in keys:
            group.create_task(_send(devnet, load, random_source, key, keys))


async def _send(devnet: Devnet, load: Load, random_source: random.Random, key: Keypair, others: list[Keypair]) -> None:
    while True:
        member = random_source.choice(devnet.members)
        try:
            async with await ChainClient.connect(member.rpc_url) as chain:
                while True:
                    call = Balances.transfer_keep_alive(
                        dest=random_source.choice(others).account, value=random_source.randrange(1, 10**6)
                    )
                    extrinsic = await chain.sign(call, key)
                    load.handed_in += 1
                    await chain.send(extrinsic, until="inBlock")
                    load.included += 1
        except (NodeUnreachableError, RpcError, NotIncludedError, WalletError, ValueError):
            load.retried += 1
            await asyncio.sleep(RETRY_SECONDS)
