"""`python -m devnet.proofs.escape`: a stranger's container tries to leave its limits; exit 1 if it manages anything.

One attempt after the other; after each, the provider and its machine must be as they were. Needs root, and installs
Docker and a few programs by apt-get where they are missing. Everything happens in namespaces of its own (network,
mounts, processes), with a `dockerd` of its own in a temporary folder: see `ground`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from devnet.launcher.dockerd import own_engine, why_no_engine
from devnet.launcher.errors import DevnetError
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
from devnet.stage.report import Timeline, write
from devnet.stage.scenario import chosen_from
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


WIDTH_WITHOUT_TERMINAL = 160


def main(arguments: Sequence[str] | None = None) -> int:
    """An engine of its own, the attempts, the judgement; 0 if every attempt was stopped and nobody harmed."""
    words = sys.argv[1:] if arguments is None else arguments
    options = _parse(words)
    if not ground.is_inside():
        ground.install()
        if why := why_no_engine():
            raise DevnetError(why)
        return ground.enter(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    tell = Timeline(WIDTH_WITHOUT_TERMINAL)
    with tempfile.TemporaryDirectory(prefix="ogpu-escape-", dir=options.folder) as name, ground.laid_out():
        folder = Path(name)
        with own_engine(folder / "engine", has_network=True) as address:
            tell.line(f"an engine at {address}; {len(options.attempts)} attempts")
            findings = asyncio.run(_course(address, folder, options, tell))
    return _finish(findings, tell.seconds)


async def _course(address: str, folder: Path, options: argparse.Namespace, tell: Timeline) -> list[AttemptFinding]:
    async with scene_at(address, folder) as scene:
        return await run_course(scene, options.attempts, tell)


def _finish(findings: Sequence[AttemptFinding], seconds: float) -> int:
    missed = [finding.attempt for finding in findings if finding.misses]
    harmed = [finding.attempt for finding in findings if finding.harm]
    bars = sum(len(finding.held) + len(finding.misses) for finding in findings)
    report = {
        "attempts": len(findings),
        "bars": bars,
        "missed": missed,
        "harmed": harmed,
        "seconds": round(seconds),
        "kernel": os.uname().release,
        "findings": [asdict(finding) for finding in findings],
    }
    path = write("escape", report)
    text = (
        f"escape: {len(findings)} ways tried in {seconds:.0f} s, {sum(finding.is_stopped for finding in findings)} "
        f"stopped; {bars} bars, the provider unharmed after {len(findings) - len(harmed)}"
    )
    print(text + (f"; missed: {', '.join([*missed, *harmed])}" if missed or harmed else "") + f"; {path}")
    return 1 if missed or harmed else 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("devnet.proofs.escape", description="Try to leave a container's limits.")
    named = chosen_from(ATTEMPTS, "attempt")
    parser.add_argument("--only", dest="attempts", type=named, default=list(ATTEMPTS.values()), help="with commas")
    parser.add_argument("--folder", type=Path, default=None, help="of the engine's temporary folder")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DevnetError as failure:
        sys.exit(f"escape: {failure}")
