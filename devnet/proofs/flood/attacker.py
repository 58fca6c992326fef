"""`python -m devnet.proofs.flood.attacker FOLDER ATTACK SECONDS NICE`: one attack in a process of its own; all attacks.

It prints `ready` when all is prepared, begins when it is told to by a line, and prints its account as one line of JSON.
Always: it gives way to the nodes by `NICE`, because a real attacker's processor is not the nodes'; beside
programs that want every processor it does not, since it would get nothing at all.
"""

from __future__ import annotations

import os
import random
import resource
import secrets
import sys
import time
from pathlib import Path
from typing import Final

import trio

from devnet.launcher import layout
from devnet.proofs.flood import peer_blocks, peer_messages, rpc_attacks
from devnet.proofs.flood.attack import Attack, Scene

ATTACKS: Final = {
    attack.name: attack
    for attack in (
        *peer_messages.REQUESTS, *peer_blocks.BLOCK_FLOODS, *peer_blocks.TRANSACTION_FLOODS, *peer_messages.NEWCOMERS,
        *rpc_attacks.ATTACKS, peer_messages.FALSE_ADDRESSES,
    )
}  # fmt: skip
"""In the order in which they are tried: attacks that may cost a node its life, or its peers, come last."""


def main(folder: Path, name: str, seconds: float, nice: int) -> None:
    """Prepare, attack, tell."""
    os.nice(nice)
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    print(trio.run(_attack, folder, ATTACKS[name], seconds), flush=True)


async def _attack(folder: Path, attack: Attack, seconds: float) -> str:
    net = layout.load(folder)
    scene = Scene(net, seconds, attack.messages_max, random.Random(secrets.randbits(64)))
    before = time.process_time()
    with scene.time:
        await attack.act(scene)
    account = scene.close()
    account.cpu_seconds = time.process_time() - before
    return account.to_json()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
