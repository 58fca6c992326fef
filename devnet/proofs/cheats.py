"""`python -m devnet.proofs.cheats`: every known way to cheat the market, on real devnets; exit 1 if a bar fails.

First about units, then about batches (`batch_cheats`), those that are answered differently (`differing`), and tasks
(`task_cheats`), with bars of their own; each on a devnet of its own. The cheat is a
provider beside those of the validators. The bars, in each mode about units: it was drawn or tried something at least
once; what it sent was refused, or it was slashed or fined by exactly the table's amounts; it was never paid for wrong
work; no honest provider lost a grain; every unit was settled and paid once, all the same.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from devnet.demo import purchase, stage
from devnet.demo.telling import Narrator
from devnet.launcher import lifecycle as network
from devnet.launcher import processes
from devnet.launcher.errors import DevnetError
from devnet.launcher.layout import Devnet, Guest, replace_guest
from devnet.launcher.lifecycle import provider_process
from devnet.measuring import ledger
from devnet.measuring.choice import chosen_from
from devnet.measuring.report import Report, write
from devnet.proofs.batch_cheats import course as batches
from devnet.proofs.batch_cheats.network import VALIDATORS as BATCH_VALIDATORS
from devnet.proofs.cheat_judgement import Finding, judge
from devnet.proofs.cheating.__main__ import CHEATS
from devnet.proofs.differing import course as differing
from devnet.proofs.task_cheats import course, honest
from devnet.proofs.task_cheats.network import VALIDATORS as TASK_VALIDATORS
from devnet.proofs.task_cheats.scenes import SCENES
from wallet.amounts import format_amount

UNITS = 120
"""Over all modes: 20 in each of six."""
SCENES_BY_NAME = {scene.name: scene for scene in SCENES}
NAMES = (*CHEATS, batches.NAME, differing.NAME, *SCENES_BY_NAME, honest.NAME)
TASKS = 5
"""About which nobody cheats, beside those of the scenes."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Fresh devnets, one mode after the other; 0 if every bar held."""
    options = _parse(arguments)
    modes = [name for name in options.only if name in CHEATS]
    scenes = [SCENES_BY_NAME[name] for name in options.only if name in SCENES_BY_NAME]
    tasks = options.tasks if honest.NAME in options.only else 0
    about_tasks = len(scenes) + bool(tasks)
    about_batches = batches.STEPS if batches.NAME in options.only else 0
    about_differing = differing.STEPS if differing.NAME in options.only else 0
    about_all = about_batches + about_differing + bool(about_tasks) + about_tasks
    tell = Narrator(bool(modes) + len(modes) + about_all)
    findings: list[Finding] = []
    with network.ending_on_signals():
        if modes:
            findings += _about_units(options, modes, tell)
        if about_batches:
            findings += batches.play_all(options.folder / "batches", tell)
        if about_differing:
            findings += differing.play_all(options.folder / "differing", tell)
        if about_tasks:
            findings += course.play_all(options.folder / "tasks", scenes, tasks, tell)
    return _finish(findings, options.validators, tell)


def _about_units(options: argparse.Namespace, modes: list[str], tell: Narrator) -> list[Finding]:
    net = None
    try:
        tell.step(f"Network: {options.validators} validators, each with a GPU provider")
        folder = options.folder / "units"
        net = stage.fresh_network(folder, options.validators, any_ports=True, detach=False, tell=tell)
        net = stage.add_cheat(net, modes[0], detach=False, tell=tell)
        return [_try(net, mode, -(-options.units // len(modes)), tell) for mode in modes]
    finally:
        if net is not None:
            network.down(net)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("devnet.proofs.cheats", description="Cheat the market in every known way.")
    parser.add_argument("--units", type=int, default=UNITS, help="units posted in all modes together")
    parser.add_argument("--tasks", type=int, default=TASKS, help="tasks about which nobody cheats")
    parser.add_argument(
        "--validators", type=int, default=stage.VALIDATORS, help="of the units' network, each a provider"
    )
    chosen, names = chosen_from({name: name for name in NAMES}, "cheat"), ", ".join(NAMES)
    parser.add_argument("--only", type=chosen, default=list(NAMES), help=f"only these, with commas: {names}")
    parser.add_argument("--folder", type=Path, default=Path("out") / "cheats", help="of the networks; emptied first")
    return parser.parse_args(arguments)


def _try(net: Devnet, mode: str, units: int, tell: Narrator) -> Finding:
    """Let the cheat run in one mode while a customer buys, then judge what the chain did."""
    tell.step(f"Mode {mode}: {units} units")
    guest = _restarted(net, mode)
    telemetry = net.home(guest) / "provider" / "telemetry.jsonl"
    first = asyncio.run(ledger.next_height(net.members[0].rpc_url))
    before = len(_lines(telemetry))
    prompts = purchase.read_prompts(purchase.DEFAULT_PROMPTS, units)
    rows = purchase.buy(net, prompts, tell).units
    attempts = [line for line in _lines(telemetry)[before:] if line["event"] == "cheat"]
    finding = asyncio.run(judge(net, mode, [row["unit"] for row in rows], first, attempts))
    tell.line(f"{mode}: {finding.outcome}")
    for failure in finding.failures:
        tell.line(f"FAILED: {failure}")
    return finding


def _restarted(net: Devnet, mode: str) -> Guest:
    """The cheat, now in this mode."""
    (guest,) = net.guests
    processes.stop(provider_process(net, guest))
    guest = replace(guest, options=stage.cheat_options(mode))
    net = replace_guest(net, guest)
    processes.start(provider_process(net, guest))
    network.wait_for_provider(net, guest)
    return guest


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _finish(findings: list[Finding], validators: int, tell: Narrator) -> int:
    table = Table(
        "mode", "drawn", "tried", "refused", "slashed", "fined", "taken", "as the table says", "gained", "outcome"
    )
    for finding in findings:
        taken = format_amount(sum(check.taken for check in finding.checks))
        right = f"{sum(check.taken == check.expected for check in finding.checks)} of {len(finding.checks)}"
        counts = (finding.drawn, finding.tried, finding.refused, finding.slashed, finding.fined)
        outcome = "held" if not finding.failures else "FAILED"
        gained = "-" if finding.gained is None else f"{finding.gained:,}"
        table.add_row(finding.mode, *map(str, counts), f"{taken} oGPU", right, gained, outcome)
    tell.console.print(table)
    failures = [f"{finding.mode}: {failure}" for finding in findings for failure in finding.failures]
    report: Report = {"findings": [finding.as_json() for finding in findings], "failures": failures}
    networks = [validators, BATCH_VALIDATORS, differing.VALIDATORS, TASK_VALIDATORS]
    report["seconds"], report["validators"] = round(tell.seconds), networks
    path = write("cheats", report)
    figures = f"{', '.join(map(str, networks))} validators, {_figures(findings)}; {len(failures)} failures"
    print(f"cheats: {figures}; {report['seconds']} s; {path}")
    return 1 if failures else 0


def _figures(findings: list[Finding]) -> str:
    checks = [check for finding in findings for check in finding.checks]
    right = sum(check.taken == check.expected for check in checks)
    tried = sum(finding.tried for finding in findings)
    refused = sum(finding.refused for finding in findings)
    units = sum(finding.units for finding in findings)
    cheats = sum(finding.mode != honest.NAME for finding in findings)
    tasks = sum(finding.tasks for finding in findings)
    return (
        f"{cheats} cheats, {units} units, {tasks} tasks, {refused} of {tried} attempts refused, "
        f"{sum(finding.slashed for finding in findings)} slashes, {sum(finding.fined for finding in findings)} fines, "
        f"{right} of {len(checks)} amounts as the table says"
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DevnetError as failure:
        sys.exit(f"cheats: {failure}")
