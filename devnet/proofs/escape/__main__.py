"""`python -m devnet.proofs.escape`: a stranger's container tries to escape its limits; exit 1 if any attempt succeeds.

After each attempt, the provider and its machine must be unchanged. The proof needs root, and installs missing programs,
Docker among them, by apt-get. Everything runs in separate namespaces (network, mounts, processes), with a private
`dockerd` in an emptied folder: see `ground`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from devnet.launcher.dockerd import own_engine
from devnet.launcher.folder import DevnetError
from devnet.proofs.escape import ground
from devnet.proofs.escape.attempts import ATTEMPTS
from devnet.proofs.escape.scene import (
    EscapeAttempt,
    EscapeChecks,
    EscapeScene,
    pid_of,
    process_count,
    resident_bytes,
    scene_at,
    used_disk,
)
from devnet.stage.scenario import LiveProof, ProofRun, Scenario, run
from gpu_tasks.provider.execution.containers.programs import run_program
from gpu_tasks.provider.execution.containers.refusals import ContainerError
from gpu_tasks.provider.execution.containers.spec import MIB

WELL_SECONDS = 10.0
PROCESSES_SLACK = 8
MEMORY_SLACK_BYTES = 200 * MIB
DISK_SLACK_BYTES = 64 * MIB


@dataclass(slots=True)
class AttemptFinding:
    """The outcome of an attempt."""

    seconds: float = 0.0
    held: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)
    harm: list[str] = field(default_factory=list)
    """Harm to the provider or its machine."""

    def failures(self) -> list[str]:
        """Return every failed requirement."""
        return [*self.misses, *self.harm]


@dataclass(frozen=True, slots=True)
class EscapeStage:
    """The scene of a run, and its event loop."""

    scene: EscapeScene
    loop: asyncio.Runner

    def tried(self, attempt: EscapeAttempt) -> AttemptFinding:
        """Make an attempt."""
        return self.loop.run(_tried(self.scene, attempt))


@contextlib.contextmanager
def with_engine(proof_run: ProofRun) -> Iterator[EscapeStage]:
    """Open an engine, a registry and a provider's files in private network namespaces."""
    proof_run.narrator.step("An engine, a registry and a provider on a private piece of network")
    shutil.rmtree(proof_run.folder, ignore_errors=True)
    proof_run.folder.mkdir(parents=True)
    with (
        ground.laid_out(),
        own_engine(proof_run.folder / "engine", has_network=True) as address,
        asyncio.Runner() as loop,
    ):
        exits = contextlib.AsyncExitStack()
        try:
            scene = loop.run(exits.enter_async_context(scene_at(address, proof_run.folder)))
            loop.run(_harm(scene, _state(scene)))  # an engine's first container is slower than others
            yield EscapeStage(scene, loop)
        finally:
            loop.run(exits.aclose())


async def _tried(scene: EscapeScene, attempt: EscapeAttempt) -> AttemptFinding:
    checks, before, start_time = EscapeChecks(), _state(scene), time.monotonic()
    try:
        await attempt.act(scene, checks)
    except (ContainerError, OSError, ValueError) as error:
        checks.misses.append(f"it could not be tried: {error}")
    seconds = round(time.monotonic() - start_time, 1)
    return AttemptFinding(seconds, checks.held, checks.misses, await _harm(scene, before))


@dataclass(frozen=True, slots=True)
class _State:
    engine_pid: int | None
    processes: int
    memory: int
    disk: int


def _state(scene: EscapeScene) -> _State:
    return _State(pid_of("dockerd"), process_count(), resident_bytes(), used_disk(scene.folder))


async def _harm(scene: EscapeScene, before: _State) -> list[str]:
    """Return a sentence for each degradation since `before`."""
    found, start_time = [], time.monotonic()
    try:
        ran = await scene.run("echo", "well")
    except ContainerError as error:
        return [f"harm: no container runs any more: {error}"]
    seconds = time.monotonic() - start_time
    if ran.text != "well" or seconds > WELL_SECONDS:
        found.append(f"harm: a good container says {ran.text!r} after {seconds:.1f} s")
    after = _state(scene)
    if after.engine_pid != before.engine_pid:
        found.append("harm: the engine is another process")
    if after.processes > before.processes + PROCESSES_SLACK:
        found.append(f"harm: {after.processes} processes, {before.processes} before")
    if after.memory > before.memory + MEMORY_SLACK_BYTES:
        found.append(f"harm: {after.memory // MIB} MiB of memory, {before.memory // MIB} before")
    if after.disk > before.disk + DISK_SLACK_BYTES:
        found.append(f"harm: {(after.disk - before.disk) // MIB} MiB of disk are taken")
    left = await scene.ask_engine(lambda client: [*client.containers(all=True), *(client.volumes()["Volumes"] or [])])
    loops = [line for line in (await run_program("losetup", "--all")).splitlines() if str(scene.folder) in line]
    if left or loops or scene.engine.containers:
        found.append(f"harm: left behind: {[*left, *loops]!r:.300}")
    if scene.key_file.read_text() != scene.secret:
        found.append("harm: the provider's key file is another")
    return found


def figures(facts_by_scenario: Mapping[str, AttemptFinding]) -> str:
    """Return the line of figures."""
    found = facts_by_scenario.values()
    return (
        f"{len(found)} ways tried, {sum(not each.failures() for each in found)} stopped; "
        f"{sum(len(each.held) + len(each.misses) for each in found)} bars, the provider unharmed after "
        f"{sum(not each.harm for each in found)}; kernel {os.uname().release}"
    )


PROOF = LiveProof(
    "escape",
    "Try to leave a container's limits.",
    [
        Scenario(
            name, f"{name}: {attempt.tries}", with_engine,
            partial(lambda attempt, stage: stage.tried(attempt), attempt), AttemptFinding.failures,
        )
        for name, attempt in ATTEMPTS.items()
    ],
    figures,
    folder=Path("/tmp/ogpu-escape"),  # noqa: S108  # sockets need a short path
)  # fmt: skip

if __name__ == "__main__":
    if not ground.is_inside():
        PROOF.parse()
        try:
            sys.exit(ground.enter(sys.argv[1:]))
        except DevnetError as failure:
            sys.exit(f"escape: {failure}")
    run(PROOF)
