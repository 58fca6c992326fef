"""`python -m devnet.proofs.flood.attacker FOLDER ATTACK SECONDS NICE`: one attack in a process of its own.

It prints `ready` when all is prepared, begins after a line on stdin, and prints its account as one line of JSON.
Invariant: it runs at the priority `NICE`, because a real attacker does not use the nodes' processors. Beside processes
that use every processor, NICE is 0, since the attack would otherwise get no CPU time.
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
from devnet.proofs.flood.attack import Attack, AttackScene

# All attacks in order. Those that may kill a node, or cost it its peers, come last.
ATTACKS: Final = {
    attack.name: attack
    for attack in (
        *peer_messages.REQUESTS, *peer_blocks.BLOCK_FLOODS, *peer_blocks.TRANSACTION_FLOODS, *peer_messages.NEWCOMERS,
        *rpc_attacks.ATTACKS, peer_messages.FALSE_ADDRESSES,
    )
}  # fmt: skip


def main(folder: Path, attack: str, seconds: float, priority: int) -> None:
    """Prepare, attack, and print the account."""
    os.nice(priority)
    # The largest crowd has 1,200 connections, more than the usual soft limit of 1,024 files.
    _, files_max = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))
    print(trio.run(_attack, folder, ATTACKS[attack], seconds), flush=True)


async def _attack(folder: Path, attack: Attack, seconds: float) -> str:
    devnet = layout.load(folder)
    scene = AttackScene(devnet, seconds, attack.messages_max, random.Random(secrets.randbits(64)))
    cpu_before = time.process_time()
    with scene.time:
        await attack.act(scene)
    attack_account = scene.close()
    attack_account.cpu_seconds = time.process_time() - cpu_before
    return attack_account.to_json()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
