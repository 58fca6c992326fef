"""`python -m devnet.demo`: a network that mines real inference, sells a training task, elects, and catches a cheat.

Exit status 1 if a requirement fails. The requirements:

* Every unit is settled and paid exactly once. Its completion opens and matches its hash, and a block has its payee's
  attestation.
* The customer lost exactly the amounts that the units state.
* The cheat is slashed and never paid, and no other validator is slashed.
* The training task is done, paid by the money table, and confirmed by `ogpu task verify`.
* A program in a container leaves the expected outputs, if the machine has an engine.
* A language model answers a question in plain words, and its provider is paid once. Without a network to install the
  model, the built-in model answers.
* Of twenty sentences, the customer finds the one nearest to another by their vectors, and their provider is paid once.
  Without a network to install the encoder, the demo leaves this out.
* A batch of requests is answered whole, in one unit, and its provider is paid once.
* The waiting candidate is elected and proposes a block.
* Every node has the same blocks.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from devnet.demo import container, payments, question, real_model, search, steps, summary
from devnet.demo.container import DemoEngine
from devnet.demo.real_model import ENCODER, LANGUAGE_MODEL, DemoOffers, RealModel
from devnet.launcher import layout, lifecycle
from devnet.launcher.folder import DevnetError, chosen_folder
from devnet.stage.actors import purchase
from devnet.stage.network import Stage, fresh_network, same_blocks
from devnet.stage.report import Narrator, Report, write_report
from wallet.amounts import format_amount

UNIT_COUNT = 12
CHEAT_MODE = "flip-bit"
STEP_COUNT = 14
# All validators but the last, which waits for the election. If two racers differ, the other four vote, and one of them
# may be late: three are enough.
SEAT_COUNT = 6
# Units of stake in each poll. With three, each poll skips at least one validator.
SAMPLE_UNITS = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and stop the network (or keep it with --stay). Return 0 if every requirement held."""
    options = _parse_options(arguments)
    narrator = Narrator(STEP_COUNT)
    prompts = purchase.read_prompts(options.prompts, options.units)
    devnet = None
    all_held = False
    with lifecycle.ending_on_signals(), container.engine_for(stays_running=options.stay) as engine:
        try:
            narrator.step(f"Models: install {LANGUAGE_MODEL.name} and {ENCODER.name}, unless they are here")
            missing = {model: real_model.install_model(model, narrator) for model in (LANGUAGE_MODEL, ENCODER)}
            narrator.step(f"Network: {SEAT_COUNT} validators and one that waits for a seat, each with a GPU provider")
            devnet = fresh_network(
                options.folder,
                SEAT_COUNT + 1,
                seats=SEAT_COUNT,
                is_fast=True,
                sample=SAMPLE_UNITS,
                any_ports=options.any_ports,
                detach=options.stay,
                narrator=narrator,
                before_start=lambda devnet: container.offer_containers(devnet, engine, narrator),
            )
            report = _run_steps(Stage(devnet, narrator), prompts, engine, missing, options.stay)
            all_held = not report["failures"]
        finally:
            # The file names the cheat too, which joined after `devnet` was made.
            if devnet is not None and not (options.stay and all_held):
                lifecycle.down(layout.load(options.folder))
    _finish_report(report, options, narrator)
    return 0 if all_held else 1


def _run_steps(
    stage: Stage, prompts: list[str], engine: DemoEngine, missing: dict[RealModel, str], stays_running: bool
) -> Report:
    """Run every step after the network's start, and return the report.

    `missing` has the reason why a model is not installed, or an empty text.
    """
    narrator = stage.narrator
    narrator.step(f"Auction: {steps.CUSTOMER_NAME} submits a training task; {' and '.join(steps.BIDDERS)} bid, sealed")
    task = steps.DemoTask(stage)
    narrator.step(
        f"Container: {container.CUSTOMER_NAME} sends a program with its image; {container.PROVIDER_NAME} runs it in "
        "Docker"
    )
    program = container.DemoProgram(stage, engine)
    # Offered this early, so that nobody waits for an offer.
    sale = DemoOffers(stage, [model for model, reason in missing.items() if not reason])
    narrator.step("Cheat: one more provider joins, and returns wrong results")
    stage.add_cheat(CHEAT_MODE, detach=stays_running)
    narrator.step("Stake: an account delegates oGPU to the waiting validator")
    election = steps.DemoElection(stage)
    narrator.step(f"Work: a customer posts {len(prompts)} units; providers race, attest, and are paid")
    views, ledger, wrong_sums = purchase.trace_purchase(stage, purchase.buy_units(stage, prompts))
    slashes = summary.slash_rows_of(ledger)
    narrator.step(
        f"Question: the same customer asks {'the built-in' if missing[LANGUAGE_MODEL] else 'the language'} model in "
        "plain words"
    )
    reports = {"question": question.ask_question(stage, sale, missing[LANGUAGE_MODEL])}
    narrator.step("Search: the same customer buys the vectors of twenty sentences, and finds the nearest to another")
    reports["search"] = search.find_nearest(stage, sale, missing[ENCODER])
    reports |= {"training": task.wait_for_end(), "container": program.wait_for_end()}
    narrator.step(f"Batch: the same customer puts {steps.REQUEST_COUNT} requests into one unit")
    reports["batch"] = steps.buy_batch(stage, purchase.read_prompts(purchase.DEFAULT_PROMPTS, steps.REQUEST_COUNT))
    narrator.step("Election: the waiting validator takes a seat, and proposes a block")
    reports["election"] = election.wait_for_end()
    narrator.step(f"Agreement: one poll, of {SAMPLE_UNITS} units of stake")
    poll_report = steps.show_poll(stage)
    narrator.step("Payments: the providers of these answers are paid once nobody may check them any more")
    payments.settle(stage, reports)
    narrator.step("Summary")
    summary.show_units(views, narrator)
    summary.show_slashes(slashes, ledger, narrator)
    failures = summary.failures_of(views, slashes, len(prompts), wrong_sums)
    failures += [failure for report in reports.values() for failure in report["failures"]]
    failures += [] if poll_report else ["no poll was answered by its whole sample"]
    failures += [] if same_blocks(stage.devnet) else ["the nodes have different final blocks"]
    return {"units": views, "slashes": slashes, **reports, "poll": poll_report, "failures": failures}


def _finish_report(report: Report, options: argparse.Namespace, narrator: Narrator) -> None:
    report["seconds"] = round(narrator.seconds)
    path = write_report("demo", report)
    for failure in report["failures"]:
        narrator.line(f"FAILED: {failure}")
    if options.stay and not report["failures"]:
        narrator.line(f"left running: `ogpu-devnet --folder {options.folder} status`, and `down` ends it")
    views = report["units"]
    paid_grains = sum(int(view.get("cost_grains", 0)) for view in views)
    slashed_grains = sum(int(row["grains"]) for row in report["slashes"])
    narrator.line(
        f"demo: {sum(view['times_paid'] == 1 for view in views)} of {options.units} units paid once, "
        f"{format_amount(paid_grains)} oGPU in all; {len(report['slashes'])} slashes of the cheat, "
        f"{format_amount(slashed_grains)} oGPU; "
        f"{_batch_text(report)}{_training_text(report)}{_container_text(report)}"
        f"{_question_text(report)}{_search_text(report)}{_election_text(report)}"
        f"{len(report['failures'])} failures; {report['seconds']} s; {path}"
    )


def _batch_text(report: Report) -> str:
    """Return the batch in a few words, or nothing if it failed."""
    batch = report["batch"]
    return f"{batch['requests']} requests in a unit paid after {batch['blocks']} blocks; " if "blocks" in batch else ""


def _training_text(report: Report) -> str:
    """Return the training task in a few words, or nothing if it has not ended."""
    earned = report["training"].get("earned_grains")
    if not earned:
        return ""
    milestone_count = report["training"]["milestones"]
    total = format_amount(sum(int(grains) for grains in earned.values()))
    return f"a training task paid {total} oGPU to {', '.join(earned)}, {milestone_count} milestones; "


def _container_text(report: Report) -> str:
    """Return the container in a few words."""
    container_report = report["container"]
    if "provider" not in container_report:
        return "no container; "
    return (
        f"a container paid {format_amount(int(container_report['earned_grains']))} oGPU to "
        f"{container_report['provider']}; "
    )


def _question_text(report: Report) -> str:
    """Return the question in a few words, or nothing if it has no answer."""
    question = report["question"]
    if not question.get("completion"):
        return ""
    return f"{question['model']} answered {purchase.one_line(question['completion']).strip()!r}; "


def _search_text(report: Report) -> str:
    """Return the search in a few words, or nothing if it found no sentence."""
    search_report = report["search"]
    if not search_report.get("nearest"):
        return ""
    return f"{search_report['model']} finds {search_report['nearest']!r}; "


def _election_text(report: Report) -> str:
    """Return the election in a few words, or nothing if it failed."""
    election = report["election"]
    if "block" not in election:
        return ""
    return f"{election['candidate']} elected for epoch {election['epoch']}, and block {election['block']} is its; "


def _parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("devnet.demo", description="A network that mines real inference.")
    parser.add_argument("--prompts", type=Path, default=purchase.DEFAULT_PROMPTS, help="a text file, one prompt a line")
    parser.add_argument("--units", type=int, default=UNIT_COUNT, help="how many units; prompts are repeated when fewer")
    parser.add_argument("--stay", action="store_true", help="leave the network running")
    parser.add_argument("--any-ports", action="store_true", help="use free ports instead of the well-known ones")
    parser.add_argument("--folder", type=Path, default=chosen_folder(None), help="of the network; emptied first")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DevnetError as failure:
        sys.exit(f"demo: {failure}")
