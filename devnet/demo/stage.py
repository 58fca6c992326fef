"""Setting the stage: a fresh network of validators with providers, one more provider that cheats, and a delegation."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from devnet.demo.telling import Narrator
from devnet.launcher import layout, processes, programs
from devnet.launcher import lifecycle as network
from devnet.launcher.errors import DevnetError
from devnet.launcher.layout import Devnet
from devnet.measuring.final_blocks import blocks_of_all
from genesis import dev_accounts
from runtime.cryptography.ss58 import encode as ss58

VALIDATORS = 4
CHEAT_PROGRAM = "devnet.proofs.cheating"
CHEAT = "Eve"
CUSTOMER = "Ferdie"
FAVOURITE = "Alice"
# In oGPU, as people type it.
CHEAT_BOND = "100"
DEVICE_BOND = "2000"
DELEGATED = "1000"


def fresh_network(
    folder: Path,
    validators: int = VALIDATORS,
    *,
    any_ports: bool,
    detach: bool,
    tell: Narrator,
    numbers: Mapping[str, int] | None = None,
    before_start: Callable[[Devnet], None] = lambda _: None,
) -> Devnet:
    """Validators with a provider each, in an emptied folder.  Raises `DevnetError` if a devnet runs there.

    `numbers` are parameters of the chain that are to begin otherwise than a devnet's; `before_start` is done to its
    folder while nothing of it runs.
    """
    if (folder / "devnet.json").exists():
        there = network.all_processes(layout.load(folder))
        busy = [process.label for process in there if processes.running(process) is not None]
        if busy:
            raise DevnetError(f"a devnet runs in {folder} ({', '.join(busy)}): `ogpu-devnet down` ends it")
        shutil.rmtree(folder)
    apart = (CHEAT, CUSTOMER)
    net = layout.create(folder, validators, providers=True, any_ports=any_ports, apart=apart, numbers=numbers)
    before_start(net)
    names = ", ".join(member.name for member in net.members)
    tell.line(f"starting validators and providers of {names}; logs in {net.folder}")
    standing = network.up(net, detach=detach)
    tell.line(f"all answer; final block {min(status.final for status in standing)}; {standing[0].peers} peers each")
    return net


def add_cheat(net: Devnet, mode: str, *, detach: bool, tell: Narrator) -> Devnet:
    """One more provider registers live, and returns wrong results from its first unit on."""
    net, guest = layout.add_guest(net, CHEAT, CHEAT_PROGRAM, cheat_options(mode))
    words = ["--url", guest.rpc_url, "--key", f"//{CHEAT}//provider", "--base-path", str(net.home(guest) / "provider")]
    words += ["register", "--yes", "--stash", f"//{CHEAT}", "--endpoint", guest.blob_url]
    words += ["--bond", CHEAT_BOND, "--device-bond", DEVICE_BOND]
    words += ["--session-key", "0x" + dev_accounts.key(CHEAT, dev_accounts.SESSION).hex()]
    words += ["--vrf-key", "0x" + dev_accounts.key(CHEAT, dev_accounts.VRF).hex()]
    programs.run("ogpu-provider", *words, keyring=net.keyring, show=tell.command)
    processes.start(network.provider_process(net, guest), detach=detach)
    network.wait_for_provider(net, guest)
    tell.line(f"{CHEAT} is bonded with {CHEAT_BOND} oGPU, and cheats: {mode}")
    return net


def cheat_options(mode: str) -> tuple[str, ...]:
    """How the cheat is told what to do wrong."""
    return ("--mode", mode)


def delegate(net: Devnet, tell: Narrator) -> dict[str, Any]:
    """The customer's account puts stake behind a validator with `ogpu-wallet`; gives what its `stakes` then shows."""
    url = ("--url", net.members[0].rpc_url)
    validator = ss58(dev_accounts.stash(FAVOURITE))
    words = ("delegate", validator, DELEGATED, "--from", f"//{CUSTOMER}", "--yes")
    programs.run("ogpu-wallet", *url, *words, keyring=net.keyring, show=tell.command)
    rows = json.loads(programs.run("ogpu-wallet", *url, "validators", keyring=net.keyring))
    found: dict[str, Any] = next(row for row in rows if row["stash"] == validator)
    tell.line(f"{FAVOURITE} now has {found['total']['ogpu']} oGPU behind it")
    return found


def same_blocks(net: Devnet) -> bool:
    """Whether every node has the same final blocks, from the first to the newest that all have."""
    _, different = asyncio.run(blocks_of_all(net))
    return not different
