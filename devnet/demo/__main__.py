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

# Three of the four seats judge a unit, so one of its two racers must have no seat. Units therefore race in sequence.
UNIT_COUNT = 12
CHEAT_MODE = "flip-bit"
STEP_COUNT = 10
# The first four of the five validators. The last one waits for the election.
SEAT_COUNT = 4
# Units of stake in each poll. With three, each poll skips at least one validator.
SAMPLE_UNITS = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and stop the network (or keep it with --stay). Return 0 if every requirement held."""
    demo_options = _parse_options(arguments)
    narrator = Narrator(STEP_COUNT)
    prompts = purchase.read_prompts(demo_options.prompts, demo_options.units)
    devnet = None
    all_held = False
    with lifecycle.ending_on_signals(), container.engine_for(stays_running=demo_options.stay) as demo_engine:
        try:
            narrator.step(f"Network: {SEAT_COUNT} validators and one that waits for a seat, each with a GPU provider")
            devnet = fresh_network(
                demo_options.folder,
                SEAT_COUNT + 1,
                seats=SEAT_COUNT,
                is_fast=True,
                sample=SAMPLE_UNITS,
                any_ports=demo_options.any_ports,
                detach=demo_options.stay,
                narrator=narrator,
                before_start=lambda devnet: container.offer_containers(devnet, demo_engine, narrator),
            )
            demo_report = _run_steps(Stage(devnet, narrator), prompts, demo_engine, demo_options.stay)
            all_held = not demo_report["failures"]
        finally:
            if devnet is not None and not (demo_options.stay and all_held):
                lifecycle.down(layout.load(demo_options.folder))
    _finish_report(demo_report, demo_options, narrator)
    return 0 if all_held else 1


def _run_steps(stage: Stage, prompts: list[str], demo_engine: DemoEngine, stays_running: bool) -> Report:
    """Run every step after the network's start, and return the report."""
    narrator = stage.narrator
    narrator.step(f"Auction: {steps.CUSTOMER_NAME} submits a training task; {' and '.join(steps.BIDDERS)} bid, sealed")
    demo_task = steps.DemoTask(stage)
    narrator.step(
        f"Container: {container.CUSTOMER_NAME} sends a program with its image; {container.PROVIDER_NAME} runs it in "
        "Docker"
    )
    demo_program = container.DemoProgram(stage, demo_engine)
    narrator.step("Cheat: a fifth provider joins, and returns wrong results")
    stage.add_cheat(CHEAT_MODE, detach=stays_running)
    narrator.step("Stake: an account delegates oGPU to the waiting validator")
    demo_election = steps.DemoElection(stage)
    narrator.step(f"Work: a customer posts {len(prompts)} units; providers race, attest, and are paid")
    unit_views, unit_ledger, wrong_sums = purchase.trace_purchase(stage, purchase.buy_units(stage, prompts))
    slash_rows = summary.slash_rows_of(unit_ledger)
    training_report, container_report = demo_task.wait_for_end(), demo_program.wait_for_end()
    narrator.step(f"Batch: the same customer puts {steps.REQUEST_COUNT} requests into one unit")
    batch_report = steps.buy_batch(stage, purchase.read_prompts(purchase.DEFAULT_PROMPTS, steps.REQUEST_COUNT))
    narrator.step("Election: the waiting validator takes a seat, and proposes a block")
    election_report = demo_election.wait_for_end()
    narrator.step(f"Agreement: one poll, of {SAMPLE_UNITS} units of stake")
    poll_report = steps.show_poll(stage)
    narrator.step("Summary")
    summary.show_units(unit_views, narrator)
    summary.show_slashes(slash_rows, unit_ledger, narrator)
    failures = summary.failures_of(unit_views, slash_rows, len(prompts), wrong_sums)
    failures += (
        training_report["failures"]
        + container_report["failures"]
        + batch_report["failures"]
        + election_report["failures"]
    )
    failures += [] if poll_report else ["no poll was answered by its whole sample"]
    failures += [] if same_blocks(stage.devnet) else ["the nodes have different final blocks"]
    return {
        "units": unit_views,
        "slashes": slash_rows,
        "batch": batch_report,
        "election": election_report,
        "training": training_report,
        "container": container_report,
        "poll": poll_report,
        "failures": failures,
    }


def _finish_report(demo_report: Report, demo_options: argparse.Namespace, narrator: Narrator) -> None:
    demo_report["seconds"] = round(narrator.seconds)
    report_path = write_report("demo", demo_report)
    for failure_text in demo_report["failures"]:
        narrator.line(f"FAILED: {failure_text}")
    if demo_options.stay and not demo_report["failures"]:
        narrator.line(f"left running: `ogpu-devnet --folder {demo_options.folder} status`, and `down` ends it")
    unit_views = demo_report["units"]
    paid_grains = sum(int(unit_view.get("cost_grains", 0)) for unit_view in unit_views)
    slashed_grains = sum(int(slash_row["grains"]) for slash_row in demo_report["slashes"])
    narrator.line(
        f"demo: {sum(unit_view['times_paid'] == 1 for unit_view in unit_views)} of {demo_options.units} units paid "
        "once, "
        f"{format_amount(paid_grains)} oGPU in all; {len(demo_report['slashes'])} slashes of the cheat, "
        f"{format_amount(slashed_grains)} oGPU; "
        f"{_batch_text(demo_report)}{_training_text(demo_report)}{_container_text(demo_report)}{_election_text(demo_report)}"
        f"{len(demo_report['failures'])} failures; {demo_report['seconds']} s; {report_path}"
    )


def _batch_text(demo_report: Report) -> str:
    """Return the batch in a few words, or nothing if it failed."""
    batch_report = demo_report["batch"]
    if "tokens" not in batch_report:
        return ""
    return (
        f"{batch_report['requests']} requests in a unit of {batch_report['tokens']} tokens, "
        f"{batch_report['blocks']} blocks; "
    )


def _training_text(demo_report: Report) -> str:
    """Return the training task in a few words, or nothing if it has not ended."""
    earned_by_provider = demo_report["training"].get("earned_grains")
    if not earned_by_provider:
        return ""
    milestone_count = demo_report["training"]["milestones"]
    total_text = format_amount(sum(int(earned_grains) for earned_grains in earned_by_provider.values()))
    return f"a training task paid {total_text} oGPU to {', '.join(earned_by_provider)}, {milestone_count} milestones; "


def _container_text(demo_report: Report) -> str:
    """Return the container in a few words."""
    container_report = demo_report["container"]
    if "provider" not in container_report:
        return "no container; "
    return (
        f"a container paid {format_amount(int(container_report['earned_grains']))} oGPU to "
        f"{container_report['provider']}; "
    )


def _election_text(demo_report: Report) -> str:
    """Return the election in a few words, or nothing if it failed."""
    election_report = demo_report["election"]
    if "block" not in election_report:
        return ""
    return (
        f"{election_report['candidate']} elected for epoch {election_report['epoch']}, and block "
        f"{election_report['block']} is its; "
    )


def _parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    option_parser = argparse.ArgumentParser("devnet.demo", description="A network that mines real inference.")
    option_parser.add_argument(
        "--prompts", type=Path, default=purchase.DEFAULT_PROMPTS, help="a text file, one prompt a line"
    )
    option_parser.add_argument(
        "--units", type=int, default=UNIT_COUNT, help="how many units; prompts are repeated when fewer"
    )
    option_parser.add_argument("--stay", action="store_true", help="leave the network running")
    option_parser.add_argument("--any-ports", action="store_true", help="use free ports instead of the well-known ones")
    option_parser.add_argument("--folder", type=Path, default=chosen_folder(None), help="of the network; emptied first")
    return option_parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DevnetError as failure:
        sys.exit(f"demo: {failure}")
