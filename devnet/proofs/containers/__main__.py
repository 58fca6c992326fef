"""`python -m devnet.proofs.containers`: programs run in containers for bought time; exit 1 if a bar fails."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from devnet.demo.telling import Narrator
from devnet.launcher import lifecycle as network
from devnet.launcher.errors import DevnetError
from devnet.measuring.choice import chosen_from
from devnet.measuring.report import Report, write
from devnet.proofs.containers import course
from devnet.proofs.containers.errands import ERRANDS, Errand
from devnet.proofs.containers.judging import ContainerFinding, ContainerScene

VALIDATORS = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Engine, registry and a fresh devnet, one scene after the other; 0 if every bar held."""
    options = _parse(arguments)
    scenes = [each for each in options.scenes if isinstance(each, ContainerScene)]
    errands = [each for each in options.scenes if isinstance(each, Errand)]
    tell = Narrator(1 + len(scenes) + len(errands))
    shutil.rmtree(options.folder, ignore_errors=True)
    (options.folder / "yard").mkdir(parents=True)
    with network.ending_on_signals():
        tell.step(f"Network: {VALIDATORS} validators, each with a GPU provider; a container engine, and a registry")
        with course.open_harbour(options.folder, VALIDATORS, tell) as harbour:
            findings = [course.play(harbour, scene) for scene in scenes]
            failed = {errand.name: course.run_errand(harbour, errand) for errand in errands}
    return _finish(findings, failed, tell)


def _finish(findings: list[ContainerFinding], errands: dict[str, list[str]], tell: Narrator) -> int:
    table = Table("scene", "ended", "intervals paid", "grains paid", "seconds", "outcome")
    for each in findings:
        outcome = "FAILED" if each.failures else "held"
        table.add_row(each.scene.name, each.outcome, str(each.intervals), str(each.paid), str(each.seconds), outcome)
    for name, found in errands.items():
        table.add_row(name, "", "", "", "", "FAILED" if found else "held")
    tell.console.print(table)
    failures = [f"{each.scene.name}: {failure}" for each in findings for failure in each.failures]
    failures += [f"{name}: {failure}" for name, found in errands.items() for failure in found]
    for failure in failures:
        print(f"FAILED {failure}")
    report: Report = {
        "scenes": [each.as_json() for each in findings], "errands": list(errands), "failures": failures,
    }  # fmt: skip
    report["seconds"] = round(tell.seconds)
    path = write("containers", report)
    intervals = sum(each.intervals for each in findings)
    print(f"containers: {len(findings)} programs, {intervals} intervals paid, {len(errands)} errands, ", end="")
    print(f"{len(failures)} failures; {report['seconds']} s; {path}")
    return 1 if failures else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("devnet.proofs.containers", description="Programs run in containers.")
    everything = (*course.SCENES, *ERRANDS)
    scenes = {scene.name: scene for scene in everything}
    chosen, names = chosen_from(scenes, "scene"), ", ".join(scenes)
    parser.add_argument("--scenes", type=chosen, default=list(everything), help=f"only these, with commas: {names}")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/ogpu-containers"), help="emptied; a short path")  # noqa: S108
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DevnetError as failure:
        sys.exit(f"containers: {failure}")
