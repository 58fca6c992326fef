"""The devnet of scenarios: started fresh, used by the command-line programs, and stopped.

Invariant: a devnet is stopped however the block that opened it ends. A folder with a running devnet is refused.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from devnet.launcher import layout, lifecycle, processes, programs
from devnet.launcher.folder import DevnetError, named_command
from devnet.launcher.layout import Devnet, Guest, NodeLayout, replace_guest
from devnet.launcher.lifecycle import provider_process
from devnet.launcher.processes import Process
from devnet.stage.measuring import ledger
from devnet.stage.measuring.final_blocks import compare_final_blocks
from devnet.stage.measuring.observer import observed_devnet
from devnet.stage.report import Narrator
from devnet.stage.scenario import ProofRun
from genesis import dev_accounts
from gpu_tasks.data import market_reads
from wallet.client import ChainClient

VALIDATORS = 4
CHEAT_PROGRAM = "devnet.stage.cheating"
CHEAT = "Eve"
CUSTOMER = "Ferdie"
CUSTOMER_KEY = f"//{CUSTOMER}"
CHEAT_BOND, DEVICE_BOND = "100", "2000"
"""Bonds in oGPU, as users type them."""
# The longest wait for a final block. It allows for other load on the machine.
STUCK_SECONDS = 120.0
POLL_SECONDS = 0.5
T = TypeVar("T")


@dataclass(slots=True)
class Stage:
    """A running devnet, and the programs of its users."""

    devnet: Devnet
    narrator: Narrator
    options: argparse.Namespace = field(default_factory=argparse.Namespace)
    run_options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Further options of `ogpu-provider run`, by provider."""

    @property
    def url(self) -> str:
        """The RPC address of the first node."""
        return self.devnet.members[0].rpc_url

    # --- programs

    def ogpu(self, command: str, *words: str, is_shown: bool = True) -> str:
        """Run `ogpu` against the first node, and return its output. Raise DevnetError if it fails.

        `command` is the words of the command, such as `unit post`.
        """
        return self._run("ogpu", "--url", self.url, *command.split(), *words, is_shown=is_shown)

    def ogpu_lines(self, command: str, *arguments: str, is_shown: bool = True) -> Iterator[Any]:
        """Run `ogpu` against the first node, and yield each printed line, parsed. Raise DevnetError if it fails."""
        print_command = self.narrator.command if is_shown else None
        return programs.lines(
            "ogpu", "--url", self.url, *command.split(), *arguments, keyring=self.devnet.keyring, show=print_command
        )

    def ogpu_tried(self, command: str, *arguments: str) -> tuple[int, str]:
        """Run `ogpu` against the first node, and return its exit code and its output. It may fail."""
        arguments = ("--url", self.url, *command.split(), *arguments)
        return programs.tried("ogpu", *arguments, keyring=self.devnet.keyring, show=self.narrator.command)

    def wallet(self, command: str, *words: str, is_shown: bool = True) -> str:
        """Run `ogpu-wallet` against the first node, and return its output. Raise DevnetError if it fails."""
        return self._run("ogpu-wallet", "--url", self.url, command, *words, is_shown=is_shown)

    def provider(self, name: str, command: str, *arguments: str, is_shown: bool = True) -> str:
        """Run `ogpu-provider` as a provider does, and return its output. Raise DevnetError if it fails."""
        return self._run("ogpu-provider", *self.provider_words(name), command, *arguments, is_shown=is_shown)

    def provider_words(self, name: str) -> tuple[str, ...]:
        """Return the options with which a provider calls its own programs."""
        member = self.member(name)
        base_path = str(self.devnet.home(member) / "provider")
        return "--url", member.rpc_url, "--provider-key", f"//{name}//provider", "--base-path", base_path

    def _run(self, program: str, *arguments: str, is_shown: bool) -> str:
        return programs.run(
            program, *arguments, keyring=self.devnet.keyring, show=self.narrator.command if is_shown else None
        )

    # --- the chain

    def ask(self, question: Callable[[ChainClient], Awaitable[T]]) -> T:
        """Return the result of a question to the chain, asked at the first node."""

        async def asked() -> T:
            async with await ChainClient.connect(self.url) as chain:
                return await question(chain)

        return asyncio.run(asked())

    def next_height(self) -> int:
        """Return the height of the first block that is not final."""
        return 1 + self.ask(ledger.final_height)

    def wealth(self, accounts_by_name: Mapping[str, tuple[bytes, ...]], height: int | None = None) -> dict[str, int]:
        """Return the grains of each name's accounts after a final block, by default the newest."""

        async def owned(chain: ChainClient) -> dict[str, int]:
            block_height = await ledger.final_height(chain) if height is None else height
            return {
                name: sum([await ledger.wealth(chain, account, block_height) for account in accounts])
                for name, accounts in accounts_by_name.items()
            }

        return self.ask(owned)

    # --- providers

    def member(self, name: str) -> NodeLayout | Guest:
        """Return a member or a guest by its name."""
        return next((guest for guest in self.devnet.guests if guest.name == name), None) or self.devnet.member(name)

    def process(self, name: str) -> Process:
        """Return the process of a provider."""
        process = provider_process(self.devnet, self.member(name))
        return replace(process, arguments=(*process.arguments, *self.run_options.get(name, ())))

    def kill(self, name: str) -> int:
        """Kill a provider and its child processes with SIGKILL. Return its pid."""
        return processes.kill(self.process(name))

    def start(self, *names: str) -> None:
        """Start stopped providers, and wait until they serve."""
        for name in names:
            processes.start(self.process(name))
        for name in names:
            lifecycle.wait_for_provider(self.devnet, self.member(name))

    def kill_and_restart(self, name: str, moment: str) -> None:
        """Kill a provider with SIGKILL, and start it again at once."""
        pid = self.kill(name)
        processes.start(self.process(name))
        self.narrator.line(f"killed the provider of {name} with -9 (process {pid}) {moment}; started it again")

    def restart(self, modes_by_name: Mapping[str, str | None]) -> None:
        """Restart members' providers. Each cheats in its mode, or is honest if the mode is None."""
        processes_by_name = {name: self.process(name) for name in modes_by_name}
        processes.stop(*processes_by_name.values())
        for name, mode in modes_by_name.items():
            processes.start(
                processes_by_name[name] if mode is None else _cheating_process(processes_by_name[name], mode)
            )
        for name in modes_by_name:
            lifecycle.wait_for_provider(self.devnet, self.member(name))

    def pause(self, name: str) -> None:
        """Pause a member's device."""
        self.provider(name, "pause", is_shown=False)

    def resume(self, *names: str) -> None:
        """Resume those devices that are paused. A daemon does not resume a device after a refuted result."""

        async def are_paused(chain: ChainClient) -> list[str]:
            devices = await market_reads.devices(chain, await chain.finalized())
            paused = {status.device.owner for status in devices if status.device.is_paused}
            return [name for name in names if dev_accounts.stash(name) in paused]

        for name in self.ask(are_paused):
            self.provider(name, "resume", "--yes", is_shown=False)

    def leave_devices_to(self, *names: str) -> None:
        """Pause the devices of all other members."""
        for member in self.devnet.members:
            if member.name not in names:
                self.pause(member.name)

    def telemetry(self, name: str) -> list[dict[str, Any]]:
        """Return the events that a provider's daemon has written so far."""
        log = self.devnet.home(self.member(name)) / "provider" / "telemetry.jsonl"
        return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []

    # --- the cheat

    def add_cheat(self, mode: str, *, detach: bool = False) -> None:
        """Register one more provider on the live devnet, and let it cheat from its first unit on."""
        self.devnet, guest = layout.add_guest(self.devnet, CHEAT, CHEAT_PROGRAM, cheat_options(mode))
        options = ["--yes", "--key", f"//{CHEAT}", "--endpoint", guest.blob_url, "--bond", CHEAT_BOND]
        # A cheat registers as any provider does: the chain must stop it, and not its registration.
        self.provider(CHEAT, "register", *options, "--device-bond", DEVICE_BOND, "--node-keys", f"//{CHEAT}")
        processes.start(self.process(CHEAT), detach=detach)
        lifecycle.wait_for_provider(self.devnet, guest)
        self.narrator.line(f"{CHEAT} is bonded with {CHEAT_BOND} oGPU, and cheats: {mode}")

    def cheat_in(self, mode: str, *, anew: bool = True) -> None:
        """Let the cheat use this mode. Without `anew`, a cheat that has this mode is not restarted."""
        (guest,) = self.devnet.guests
        if guest.options == cheat_options(mode) and not anew:
            return
        processes.stop(self.process(CHEAT))
        self.devnet = replace_guest(self.devnet, replace(guest, options=cheat_options(mode)))
        self.resume(CHEAT)  # a refuted device stays paused over restarts
        self.start(CHEAT)


@dataclass(slots=True)
class BlockFollower:
    """A reader of a devnet's final blocks, until a condition holds."""

    stage: Stage
    consume_event: Callable[[ChainClient, int, bytes, Any], Awaitable[None]]
    """The consumer of every event: it takes height, block hash and event."""
    next_height: int = 1

    def read_on(self) -> int:
        """Take the events of new final blocks, and return the height of the newest."""
        self.stage.ask(self._read_on)
        return self.next_height - 1

    def until(
        self, what: str, holds: Callable[[], bool], blocks: int, on_wait: Callable[[], None] = lambda: None
    ) -> None:
        """Read on until a condition holds.

        Raise DevnetError if `blocks` more blocks pass without it, or if no block becomes final for STUCK_SECONDS.
        """
        last_height, moved_at = self.read_on() + blocks, time.monotonic()
        while not holds():
            height_before, height = self.next_height, self.read_on()
            moved_at = time.monotonic() if self.next_height > height_before else moved_at
            if height > last_height or time.monotonic() > moved_at + STUCK_SECONDS:
                raise DevnetError(f"{what} is not so at final block {height}")
            on_wait()
            time.sleep(POLL_SECONDS)

    async def _read_on(self, chain: ChainClient) -> None:
        async for height, block_hash, events in ledger.final_blocks(chain, self.next_height):
            for event in events:
                await self.consume_event(chain, height, block_hash, event)
            self.next_height = height + 1


@dataclass(frozen=True, slots=True)
class FreshDevnet:
    """A fresh devnet for scenarios: validators with a provider each."""

    validators: int = VALIDATORS
    name: str = ""
    """The name of the devnet's folder, for proofs with several devnets."""
    is_resizable: bool = False
    """True if the proof's option `--validators` sets the number."""
    numbers: Mapping[str, int] | None = None
    """Parameters of the chain that differ from a devnet's at genesis."""
    before_start: Callable[[ProofRun, Devnet], None] = lambda *_: None
    """A step on the folder before any process starts."""
    prepare: Callable[[Stage], None] = lambda _: None
    """A step on the running devnet before the first scenario."""

    @contextlib.contextmanager
    def open(self, proof_run: ProofRun) -> Iterator[Stage]:
        """Run the devnet during the block."""
        validator_count = proof_run.options.validators if self.is_resizable else self.validators
        proof_run.narrator.step(f"Network: {validator_count} validators, each with a GPU provider")
        devnet = fresh_network(
            proof_run.folder / self.name,
            validator_count,
            narrator=proof_run.narrator,
            before_start=lambda devnet: self.before_start(proof_run, devnet),
            numbers=self.numbers,
        )
        stage = Stage(devnet, proof_run.narrator, proof_run.options)
        try:
            self.prepare(stage)
            yield stage
        finally:
            # `stage.devnet` and not `devnet`, because scenarios may have added guests.
            lifecycle.down(stage.devnet)


@dataclass(slots=True)
class ObservedStage(Stage):
    """Nodes without providers, beside a peer that remembers the validators' signatures."""

    stop_observer: Callable[[], dict[str, Any]] = field(kw_only=True)
    """A function that stops that peer and returns its report."""


@contextlib.contextmanager
def observed_nodes(
    proof_run: ProofRun, devnet: Devnet, started_members: Devnet | None = None
) -> Iterator[ObservedStage]:
    """Run an observer and the nodes of a devnet (or of `started_members` alone) during the block."""
    with lifecycle.running(started_members or devnet), observed_devnet(devnet) as stop_observer:
        yield ObservedStage(devnet, proof_run.narrator, proof_run.options, stop_observer=stop_observer)


def fresh_layout(proof_run: ProofRun, validator_count: int, **options: Any) -> Devnet:
    """Lay out validators without providers in an emptied folder, on free ports. Start nothing."""
    proof_run.narrator.step(f"Network: {validator_count} validators")
    shutil.rmtree(proof_run.folder, ignore_errors=True)
    return layout.create(proof_run.folder, validator_count, any_ports=True, **options)


def fresh_network(
    folder: Path,
    validator_count: int = VALIDATORS,
    *,
    narrator: Narrator,
    detach: bool = False,
    before_start: Callable[[Devnet], None] = lambda _: None,
    **options: Any,
) -> Devnet:
    """Start validators with a provider each, in an emptied folder.

    Raise DevnetError if a devnet runs there. The other options are those of `layout.create`. By default the ports are
    free ones.
    """
    # Emptying the folder of a running devnet would leave its processes behind, without their files.
    if (folder / "devnet.json").exists():
        processes_there = lifecycle.all_processes(layout.load(folder))
        running_labels = [process.label for process in processes_there if processes.running(process) is not None]
        if running_labels:
            raise DevnetError(
                f"a devnet runs in {folder} ({', '.join(running_labels)}): `{named_command(folder)} down` ends it"
            )
        shutil.rmtree(folder)
    devnet = layout.create(
        folder, validator_count, providers=True, apart=(CHEAT, CUSTOMER), **{"any_ports": True, **options}
    )
    before_start(devnet)
    narrator.line(
        f"starting validators and providers of {', '.join(member.name for member in devnet.members)}; logs in {folder}"
    )
    statuses = lifecycle.up(devnet, detach=detach)
    narrator.line(f"all answer; final block {min(status.final for status in statuses)}; {statuses[0].peers} peers each")
    return devnet


def cheat_options(mode: str) -> tuple[str, ...]:
    """Return the options that set the cheat's mode."""
    return ("--mode", mode)


def same_blocks(devnet: Devnet) -> bool:
    """Return whether all nodes have the same final blocks, up to the lowest final height of any node."""
    _, different_heights = asyncio.run(compare_final_blocks(devnet))
    return not different_heights


def _cheating_process(honest_process: Process, mode: str) -> Process:
    return replace(honest_process, module=CHEAT_PROGRAM, arguments=(*cheat_options(mode), *honest_process.arguments))
