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
    first_pid_of,
    process_count,
    resident_bytes,
    scene_at,
    used_disk_bytes,
)
from devnet.stage.scenario import LiveProof, ProofRun, Scenario, run
from gpu_tasks.provider.execution.containers.programs import run_program
from gpu_tasks.provider.execution.containers.refusals import ContainerError
from gpu_tasks.provider.execution.containers.spec import MIB

ECHO_SECONDS_MAX = 10.0
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

    escape_scene: EscapeScene
    async_runner: asyncio.Runner

    def try_attempt(self, attempt: EscapeAttempt) -> AttemptFinding:
        """Make an attempt."""
        return self.async_runner.run(_try_attempt(self.escape_scene, attempt))


@contextlib.contextmanager
def with_engine(proof_run: ProofRun) -> Iterator[EscapeStage]:
    """Open an engine, a registry and a provider's files in private network namespaces."""
    proof_run.narrator.step("An engine, a registry and a provider on a private piece of network")
    shutil.rmtree(proof_run.folder, ignore_errors=True)
    proof_run.folder.mkdir(parents=True)
    with (
        ground.namespaces_laid_out(),
        own_engine(proof_run.folder / "engine", has_network=True) as address,
        asyncio.Runner() as async_runner,
    ):
        stack = contextlib.AsyncExitStack()
        try:
            scene = async_runner.run(stack.enter_async_context(scene_at(address, proof_run.folder)))
            async_runner.run(
                _harm_since(scene, _host_state(scene))
            )  # an engine's first container is slower than others
            yield EscapeStage(scene, async_runner)
        finally:
            async_runner.run(stack.aclose())


async def _try_attempt(scene: EscapeScene, attempt: EscapeAttempt) -> AttemptFinding:
    checks, state_before, started = EscapeChecks(), _host_state(scene), time.monotonic()
    try:
        await attempt.act(scene, checks)
    except (ContainerError, OSError, ValueError) as error:
        checks.misses.append(f"it could not be tried: {error}")
    seconds = round(time.monotonic() - started, 1)
    return AttemptFinding(seconds, checks.held, checks.misses, await _harm_since(scene, state_before))


@dataclass(frozen=True, slots=True)
class _HostState:
    engine_pid: int | None
    processes: int
    memory: int
    disk: int


def _host_state(scene: EscapeScene) -> _HostState:
    return _HostState(first_pid_of("dockerd"), process_count(), resident_bytes(), used_disk_bytes(scene.folder))


async def _harm_since(scene: EscapeScene, state_before: _HostState) -> list[str]:
    """Return a sentence for each degradation since `before`."""
    harm_found, started = [], time.monotonic()
    try:
        run = await scene.run("echo", "well")
    except ContainerError as error:
        return [f"harm: no container runs any more: {error}"]
    seconds = time.monotonic() - started
    if run.text != "well" or seconds > ECHO_SECONDS_MAX:
        harm_found.append(f"harm: a good container says {run.text!r} after {seconds:.1f} s")
    state_after = _host_state(scene)
    # A new process means that the engine crashed and was restarted.
    if state_after.engine_pid != state_before.engine_pid:
        harm_found.append("harm: the engine is another process")
    if state_after.processes > state_before.processes + PROCESSES_SLACK:
        harm_found.append(f"harm: {state_after.processes} processes, {state_before.processes} before")
    if state_after.memory > state_before.memory + MEMORY_SLACK_BYTES:
        harm_found.append(f"harm: {state_after.memory // MIB} MiB of memory, {state_before.memory // MIB} before")
    if state_after.disk > state_before.disk + DISK_SLACK_BYTES:
        harm_found.append(f"harm: {(state_after.disk - state_before.disk) // MIB} MiB of disk are taken")
    left_behind = await scene.ask_engine(
        lambda engine: [*engine.containers(all=True), *(engine.volumes()["Volumes"] or [])]
    )
    loop_devices = [line for line in (await run_program("losetup", "--all")).splitlines() if str(scene.folder) in line]
    # Volumes are loop devices here, so a leak uses up the machine's loop devices as well as its disk.
    if left_behind or loop_devices or scene.engine.containers:
        harm_found.append(f"harm: left behind: {[*left_behind, *loop_devices]!r:.300}")
    if scene.key_file.read_text() != scene.secret:
        harm_found.append("harm: the provider's key file is another")
    return harm_found


def figures(facts_by_scenario: Mapping[str, AttemptFinding]) -> str:
    """Return the line of figures."""
    attempt_findings = facts_by_scenario.values()
    return (
        f"{len(attempt_findings)} ways tried, {sum(not finding.failures() for finding in attempt_findings)} stopped; "
        f"{sum(len(finding.held) + len(finding.misses) for finding in attempt_findings)} bars, the provider unharmed "
        f"after {sum(not finding.harm for finding in attempt_findings)}; kernel {os.uname().release}"
    )


PROOF = LiveProof(
    "escape",
    "Try to leave a container's limits.",
    [
        Scenario(
            name, f"{name}: {attempt.tries}", with_engine,
            partial(lambda attempt, stage: stage.try_attempt(attempt), attempt), AttemptFinding.failures,
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
            sys.exit(ground.enter_namespaces(sys.argv[1:]))
        except DevnetError as failure:
            sys.exit(f"escape: {failure}")
    run(PROOF)
