"""Setting the stage: a fresh network of validators with providers, one more provider that cheats, and a delegation."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from devnet.demo.telling import Narrator
from devnet.launcher import layout, processes, programs
from devnet.launcher import lifecycle as network
from devnet.launcher.errors import DevnetError
from devnet.launcher.folder import named_command
from devnet.launcher.layout import Devnet, NodeLayout
from devnet.launcher.processes import Process
from devnet.measuring.final_blocks import blocks_of_all

VALIDATORS = 4
CHEAT_PROGRAM = "devnet.proofs.cheating"
CHEAT = "Eve"
CUSTOMER = "Ferdie"
# In oGPU, as people type it.
CHEAT_BOND = "100"
DEVICE_BOND = "2000"


def fresh_network(
    folder: Path,
    validators: int = VALIDATORS,
    *,
    any_ports: bool,
    detach: bool,
    tell: Narrator,
    numbers: Mapping[str, int] | None = None,
    seats: int | None = None,
    is_fast: bool = False,
    sample: int | None = None,
    before_start: Callable[[Devnet], None] = lambda _: None,
) -> Devnet:
    """Validators with a provider each, in an emptied folder.  Raises `DevnetError` if a devnet runs there.

    `numbers` are parameters of the chain that are to begin otherwise than a devnet's; where there are fewer `seats`
    than validators the last ones wait; `is_fast` is for epochs of ten blocks; with `sample` nodes poll so many units
    of stake. `before_start` is done to its folder while nothing of it runs.
    """
    if (folder / "devnet.json").exists():
        there = network.all_processes(layout.load(folder))
        busy = [process.label for process in there if processes.running(process) is not None]
        if busy:
            raise DevnetError(f"a devnet runs in {folder} ({', '.join(busy)}): `{named_command(folder)} down` ends it")
        shutil.rmtree(folder)
    apart = (CHEAT, CUSTOMER)
    net = layout.create(
        folder,
        validators,
        providers=True,
        any_ports=any_ports,
        apart=apart,
        numbers=numbers,
        seats=seats,
        is_fast=is_fast,
        sample=sample,
    )
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
    words += ["--node-keys", f"//{CHEAT}"]
    programs.run("ogpu-provider", *words, keyring=net.keyring, show=tell.command)
    processes.start(network.provider_process(net, guest), detach=detach)
    network.wait_for_provider(net, guest)
    tell.line(f"{CHEAT} is bonded with {CHEAT_BOND} oGPU, and cheats: {mode}")
    return net


def cheat_options(mode: str) -> tuple[str, ...]:
    """How the cheat is told what to do wrong."""
    return ("--mode", mode)


def restart_providers(net: Devnet, modes: Mapping[str, str | None]) -> None:
    """These validators' providers cheat so from now on, all started anew; honestly where there is no mode."""
    honest = {name: network.provider_process(net, net.member(name)) for name in modes}
    for process in honest.values():
        processes.stop(process)
    for name, mode in modes.items():
        processes.start(honest[name] if mode is None else _cheating(honest[name], mode))
    for name in modes:
        network.wait_for_provider(net, net.member(name))


def _cheating(honest: Process, mode: str) -> Process:
    return replace(honest, module=CHEAT_PROGRAM, arguments=(*cheat_options(mode), *honest.arguments))


def set_device(net: Devnet, member: NodeLayout, command: str) -> None:
    """Pause or resume a member's device."""
    home = net.home(member) / "provider"
    words = ["--url", member.rpc_url, "--key", f"//{member.name}//provider", "--base-path", str(home), command]
    programs.run("ogpu-provider", *words, keyring=net.keyring)


def same_blocks(net: Devnet) -> bool:
    """Whether every node has the same final blocks, from the first to the newest that all have."""
    _, different = asyncio.run(blocks_of_all(net))
    return not different
