"""`python -m devnet.demo`: a network that mines real inference, sells a training task, elects, and catches a cheat.

Exit status 1 if a requirement fails. The requirements:

* Every unit is settled and paid exactly once. Its completion opens and matches its hash, and a block has its payee's
  attestation.
* The customer lost exactly the amounts that the units state.
* The cheat is slashed and never paid, and no other validator is slashed.
* The training task is done, paid by the money table, and confirmed by `ogpu task verify`.
* A program in a container leaves the expected outputs, if the machine has an engine.
* A batch of requests is answered whole, in one unit.
* The fifth candidate is elected and proposes a block.
* Every node has the same blocks.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from devnet.demo import container, steps, summary
from devnet.demo.container import DemoEngine
from devnet.launcher import layout, lifecycle
from devnet.launcher.folder import DevnetError, chosen_folder
from devnet.stage.actors import purchase
from devnet.stage.network import Stage, fresh_network, same_blocks
from devnet.stage.report import Narrator, Report, write_report
from wallet.amounts import format_amount

UNITS = 12
"""Three of the four seats judge a unit, so one of its two racers must have no seat.

Units therefore race in sequence.
"""
MODE = "flip-bit"
STEPS = 10
SEATS = 4
"""The first four of the five validators. The last one waits for the election."""
SAMPLE = 3
"""Units of stake in each poll. With three, each poll skips at least one validator."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and stop the network (or keep it with --stay). Return 0 if every requirement held."""
    options = _parse(arguments)
    narrator = Narrator(STEPS)
    prompts = purchase.read_prompts(options.prompts, options.units)
    devnet = None
    held = False
    with lifecycle.ending_on_signals(), container.engine_for(stay=options.stay) as engine:
        try:
            narrator.step(f"Network: {SEATS} validators and one who waits for a seat, each with a GPU provider")
            devnet = fresh_network(
                options.folder,
                SEATS + 1,
                seats=SEATS,
                is_fast=True,
                sample=SAMPLE,
                any_ports=options.any_ports,
                detach=options.stay,
                narrator=narrator,
                before_start=lambda devnet: container.offer(devnet, engine, narrator),
            )
            report = _show(Stage(devnet, narrator), prompts, engine, options.stay)
            held = not report["failures"]
        finally:
            if devnet is not None and not (options.stay and held):
                lifecycle.down(layout.load(options.folder))
    _finish(report, options, narrator)
    return 0 if held else 1


def _show(stage: Stage, prompts: list[str], engine: DemoEngine, stay: bool) -> Report:
    """Run every step after the network's start, and return the report."""
    narrator = stage.narrator
    narrator.step(f"Auction: {steps.CUSTOMER} submits a training task; {' and '.join(steps.BIDDERS)} bid, sealed")
    task = steps.DemoTask(stage)
    narrator.step(
        f"Container: {container.CUSTOMER} sends a program with its image; {container.PROVIDER} runs it in Docker"
    )
    program = container.DemoProgram(stage, engine)
    narrator.step("Cheat: a fifth provider joins, and returns wrong results")
    stage.add_cheat(MODE, detach=stay)
    narrator.step("Stake: an account puts oGPU behind the one who waits")
    elected = steps.DemoElection(stage)
    narrator.step(f"Work: a customer posts {len(prompts)} units; providers race, attest, and are paid")
    units, book, wrong = purchase.trace_purchase(stage, purchase.buy_units(stage, prompts))
    slashed = summary.slashes(book)
    trained, ran = task.end(), program.end()
    narrator.step(f"Batch: the same customer puts {steps.REQUESTS} requests into one unit")
    bought = steps.buy_batch(stage, purchase.read_prompts(purchase.DEFAULT_PROMPTS, steps.REQUESTS))
    narrator.step("Election: the one who waited takes a seat, and proposes a block")
    seated = elected.end()
    narrator.step(f"Agreement: one poll, of {SAMPLE} units of stake")
    shown = steps.show(stage)
    narrator.step("Summary")
    summary.show_units(units, narrator)
    summary.show_slashes(slashed, book, narrator)
    failures = summary.failures(units, slashed, len(prompts), wrong)
    failures += trained["failures"] + ran["failures"] + bought["failures"] + seated["failures"]
    failures += [] if shown else ["no poll was answered by all whom it asked"]
    failures += [] if same_blocks(stage.devnet) else ["the nodes have different final blocks"]
    return {
        "units": units,
        "slashes": slashed,
        "batch": bought,
        "election": seated,
        "training": trained,
        "container": ran,
        "poll": shown,
        "failures": failures,
    }


def _finish(report: Report, options: argparse.Namespace, narrator: Narrator) -> None:
    report["seconds"] = round(narrator.seconds)
    path = write_report("demo", report)
    for failure in report["failures"]:
        narrator.line(f"FAILED: {failure}")
    if options.stay and not report["failures"]:
        narrator.line(f"left running: `ogpu-devnet --folder {options.folder} status`, and `down` ends it")
    units = report["units"]
    paid = sum(int(unit.get("cost_grains", 0)) for unit in units)
    lost = sum(int(slash["grains"]) for slash in report["slashes"])
    narrator.line(
        f"demo: {sum(unit['times_paid'] == 1 for unit in units)} of {options.units} units paid once, "
        f"{format_amount(paid)} oGPU in all; {len(report['slashes'])} slashes of the cheat, "
        f"{format_amount(lost)} oGPU; {_batch(report)}{_trained(report)}{_ran(report)}{_seated(report)}"
        f"{len(report['failures'])} failures; {report['seconds']} s; {path}"
    )


def _batch(report: Report) -> str:
    """Return the batch in a few words, or nothing if it failed."""
    bought = report["batch"]
    if "tokens" not in bought:
        return ""
    return f"{bought['requests']} requests in a unit of {bought['tokens']} tokens, {bought['blocks']} blocks; "


def _trained(report: Report) -> str:
    """Return the training task in a few words, or nothing if it has not ended."""
    earned = report["training"].get("earned_grains")
    if not earned:
        return ""
    counted = report["training"]["milestones"]
    total = format_amount(sum(int(grains) for grains in earned.values()))
    return f"a training task paid {total} oGPU to {', '.join(earned)}, {counted} milestones; "


def _ran(report: Report) -> str:
    """Return the container in a few words."""
    ran = report["container"]
    if "provider" not in ran:
        return "no container; "
    return f"a container paid {format_amount(int(ran['earned_grains']))} oGPU to {ran['provider']}; "


def _seated(report: Report) -> str:
    """Return the election in a few words, or nothing if it failed."""
    seated = report["election"]
    if "block" not in seated:
        return ""
    return f"{seated['candidate']} elected for epoch {seated['epoch']}, and block {seated['block']} is its; "


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("devnet.demo", description="A network that mines real inference.")
    parser.add_argument("--prompts", type=Path, default=purchase.DEFAULT_PROMPTS, help="a text file, one prompt a line")
    parser.add_argument("--units", type=int, default=UNITS, help="how many units; prompts are repeated when fewer")
    parser.add_argument("--stay", action="store_true", help="leave the network running")
    parser.add_argument("--any-ports", action="store_true", help="use free ports instead of the well-known ones")
    parser.add_argument("--folder", type=Path, default=chosen_folder(None), help="of the network; emptied first")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DevnetError as failure:
        sys.exit(f"demo: {failure}")
