"""`python -m devnet.proofs.telemetry`: tasks are watched, whatever their broker does; exit 1 if a bar fails."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from devnet.demo.telling import Narrator
from devnet.launcher import lifecycle as network
from devnet.launcher.errors import DevnetError
from devnet.measuring.choice import chosen_from
from devnet.measuring.report import Report, write
from devnet.proofs.telemetry import course
from devnet.proofs.telemetry.judging import TelemetryFinding
from devnet.proofs.telemetry.scenes import HONEST, SCENES, TelemetryScene

VALIDATORS = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """A fresh devnet, one scene after the other; 0 if every bar held."""
    options = _parse(arguments)
    scenes: list[TelemetryScene] = options.scenes
    tell = Narrator(1 + len(scenes))
    findings: dict[str, TelemetryFinding] = {}
    with network.ending_on_signals():
        tell.step(f"Network: {options.validators} validators, each with a GPU provider; a broker behind a relay")
        with course.open_stage(options.folder, options.validators, tell) as stage:
            for scene in scenes:
                tell.step(scene.title)
                findings[scene.name] = course.play(stage, scene, findings.get(HONEST.name))
    return _finish(list(findings.values()), options.validators, tell)


def _finish(findings: list[TelemetryFinding], validators: int, tell: Narrator) -> int:
    table = Table("scene", "notes heard", "said of the broker", "blocks at work", "ended", "outcome")
    for each in findings:
        outcome = "FAILED" if each.failures else "held"
        kinds = str(len(set(each.problems)))
        table.add_row(each.scene.name, str(each.notes), kinds, str(each.blocks_at_work), each.outcome, outcome)
    tell.console.print(table)
    failures = [f"{each.scene.name}: {failure}" for each in findings for failure in each.failures]
    for failure in failures:
        print(f"FAILED {failure}")
    report: Report = {"scenes": [each.as_json() for each in findings], "failures": failures, "validators": validators}
    report["seconds"] = round(tell.seconds)
    path = write("telemetry", report)
    notes, said = sum(each.notes for each in findings), sum(len(set(each.problems)) for each in findings)
    print(f"telemetry: {len(findings)} tasks, {notes} notes heard, {said} problems of brokers named, ", end="")
    print(f"{len(failures)} failures; {report['seconds']} s; {path}")
    return 1 if failures else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("devnet.proofs.telemetry", description="Tasks are watched, whatever brokers do.")
    parser.add_argument("--validators", type=int, default=VALIDATORS, help="of the network, each a provider too")
    scenes = {scene.name: scene for scene in SCENES}
    chosen, names = chosen_from(scenes, "scene"), ", ".join(scenes)
    parser.add_argument("--scenes", type=chosen, default=list(SCENES), help=f"only these, with commas: {names}")
    parser.add_argument("--folder", type=Path, default=Path("out") / "telemetry-net", help="of the network; emptied")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DevnetError as failure:
        sys.exit(f"telemetry: {failure}")
