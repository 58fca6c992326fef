"""`python -m devnet.proofs.escape`: a stranger's container tries to leave its limits; exit 1 if it manages anything.

Needs root, and installs Docker and a few programs by apt-get where they are missing. Everything happens in namespaces
of its own (network, mounts, processes), with a `dockerd` of its own in a temporary folder: see `ground`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from devnet.launcher.dockerd import own_engine, why_no_engine
from devnet.launcher.errors import DevnetError
from devnet.proofs.escape import ground
from devnet.proofs.escape.catalogue import ATTEMPTS
from devnet.proofs.escape.course import AttemptFinding, run_course
from devnet.proofs.escape.scene import scene_at
from devnet.stage.report import Timeline, write
from devnet.stage.scenario import chosen_from

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
