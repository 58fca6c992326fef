"""One attempt after the other; after each, whether the provider and its machine are as they were."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from devnet.proofs.escape.attempt import EscapeAttempt, EscapeChecks
from devnet.proofs.escape.scene import EscapeScene, pid_of, process_count, resident_bytes, used_disk
from devnet.stage.report import Timeline
from gpu_tasks.provider.execution.containers.programs import run_program
from gpu_tasks.provider.execution.containers.refusals import ContainerError
from gpu_tasks.provider.execution.containers.spec import MIB

WELL_SECONDS = 10.0
PROCESSES_SLACK = 8
MEMORY_SLACK_BYTES = 200 * MIB
DISK_SLACK_BYTES = 64 * MIB


@dataclass(slots=True)
class AttemptFinding:
    """What came of an attempt."""

    attempt: str
    tries: str
    seconds: float = 0.0
    held: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)
    harm: list[str] = field(default_factory=list)
    """To the provider or its machine."""

    @property
    def is_stopped(self) -> bool:
        """Every bar held, and nobody was harmed."""
        return not self.misses and not self.harm


@dataclass(frozen=True, slots=True)
class _State:
    engine_pid: int | None
    processes: int
    memory: int
    disk: int


async def run_course(scene: EscapeScene, attempts: Sequence[EscapeAttempt], tell: Timeline) -> list[AttemptFinding]:
    """All of them; what is missed is told at once."""
    findings: list[AttemptFinding] = []
    await _harm(scene, _state(scene))  # the first container of an engine is slower than others
    for attempt in attempts:
        finding = await _tried(scene, attempt)
        findings.append(finding)
        verdict = "stopped" if finding.is_stopped else "MISSED"
        tell.line(f"{attempt.name}: {verdict} in {finding.seconds:.1f} s, {len(finding.held)} bars")
        for miss in (*finding.misses, *finding.harm):
            tell.line(f"    {miss}")
    return findings


async def _tried(scene: EscapeScene, attempt: EscapeAttempt) -> AttemptFinding:
    finding, checks = AttemptFinding(attempt.name, attempt.tries), EscapeChecks()
    before, began = _state(scene), time.monotonic()
    try:
        await attempt.act(scene, checks)
    except (ContainerError, OSError, ValueError) as error:
        checks.misses.append(f"it could not be tried: {error}")
    finding.seconds = round(time.monotonic() - began, 1)
    finding.held, finding.misses = checks.held, checks.misses
    finding.harm = await _harm(scene, before)
    return finding


def _state(scene: EscapeScene) -> _State:
    return _State(pid_of("dockerd"), process_count(), resident_bytes(), used_disk(scene.folder))


async def _harm(scene: EscapeScene, before: _State) -> list[str]:
    """What is worse than before."""
    found, began = [], time.monotonic()
    try:
        ran = await scene.run("echo", "well")
    except ContainerError as error:
        return [f"harm: no container runs any more: {error}"]
    seconds = time.monotonic() - began
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
