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
class TransferLoad:
    """Counts of the transfers so far."""

    handed_in: int = 0
    included: int = 0
    retried: int = 0


async def send_transfers(devnet: Devnet, load: TransferLoad, random_source: random.Random) -> None:
    """Send until cancelled, with one sender for each development account."""
    sender_keys = [keypair_from_suri(f"//{name}", Scheme.SR25519) for name in DEV_NAMES]
    # One sender for each key: two transfers of one account at a time would race for its nonce.
    async with asyncio.TaskGroup() as task_group:
        for sender_key in sender_keys:
            task_group.create_task(_send_transfers(devnet, load, random_source, sender_key, sender_keys))


async def _send_transfers(
    devnet: Devnet, load: TransferLoad, random_source: random.Random, sender_key: Keypair, receiver_keys: list[Keypair]
) -> None:
    while True:
        member = random_source.choice(devnet.members)
        try:
            async with await ChainClient.connect(member.rpc_url) as chain:
                while True:
                    call = Balances.transfer_keep_alive(
                        dest=random_source.choice(receiver_keys).account, value=random_source.randrange(1, 10**6)
                    )
                    extrinsic = await chain.sign(call, sender_key)
                    load.handed_in += 1
                    # Waiting for the block keeps one transfer of this key in flight.
                    await chain.send(extrinsic, until="inBlock")
                    load.included += 1
        except (NodeUnreachableError, RpcError, NotIncludedError, WalletError, ValueError):
            load.retried += 1
            await asyncio.sleep(RETRY_SECONDS)
