"""`python -m devnet.proofs.crash --kills N`: SIGKILL on nodes of a live devnet under load; exit 1 on a failure.

The strikes are of six kinds (`devnet.proofs.crash_strikes`), equally often, in an order that the printed seed draws.
The requirements:

* Every node restarts from its remaining files, reaches the highest final block that any node reported, and votes again.
* All nodes have the same blocks, and so the same state roots, at the same heights. No final block is lost.
* No key signed two conflicting statements, by an observer on the network and by each node's own record.
* The chain continues.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from devnet.launcher import layout, processes
from devnet.launcher import lifecycle as network
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet
from devnet.proofs.crash_strikes import BACK_SECONDS, STRIKES_BY_KIND, StruckDevnet, deal_kinds
from devnet.stage.measuring.final_blocks import ObservedFinals, compare_final_blocks, lost_finals
from devnet.stage.measuring.latency import measure_latencies
from devnet.stage.measuring.load import TransferLoad, send_transfers
from devnet.stage.measuring.observer import missing_records
from devnet.stage.network import ObservedStage, fresh_layout, observed_nodes
from devnet.stage.report import Narrator, Report
from devnet.stage.scenario import LiveProof, ProofOption, ProofRun, Scenario, run
from genesis import dev_accounts
from genesis.parameters import CONSENSUS

VALIDATOR_COUNT = 4
CALM_SECONDS = 20.0
GOES_ON_BLOCKS = 8


@contextmanager
def four_nodes(proof_run: ProofRun) -> Iterator[ObservedStage]:
    """Run four validators and an observer."""
    with observed_nodes(proof_run, fresh_layout(proof_run, VALIDATOR_COUNT)) as stage:
        yield stage


def strike_and_judge(stage: ObservedStage) -> Report:
    """Measure a calm phase, strike, stop all, and compare the observed signatures with each node's record."""
    storm_report = asyncio.run(_strike_under_load(stage))
    report = stage.stop_observer()
    # The sign-states are complete only after all nodes have ended.
    processes.stop(*network.all_processes(stage.devnet))
    return storm_report | _judge_signatures(stage.devnet, report, storm_report["height_after_strikes"])


async def _strike_under_load(stage: ObservedStage) -> Report:
    """Run the calm phase and the strikes under load, and return the report."""
    options, narrator = stage.options, stage.narrator
    load, random_source = TransferLoad(), random.Random(options.seed)
    devnet = StruckDevnet(stage.devnet, random_source, ObservedFinals(), layout.genesis_hash(stage.devnet))
    sending_task = asyncio.create_task(send_transfers(stage.devnet, load, random_source))
    watching_task = asyncio.create_task(devnet.observed.watch(stage.devnet))
    try:
        narrator.line(f"calm: {CALM_SECONDS:.0f} s under load")
        # Measured before the strikes: afterwards, blocks wait for nodes that restart.
        calm_latency = await measure_latencies(stage.devnet, CONSENSUS["devnet"].slot_ms, CALM_SECONDS)
        narrator.line(f"calm: {calm_latency.line()}")
        report = await _run_strikes(devnet, deal_kinds(options.kills, random_source), narrator)
    finally:
        for background in (sending_task, watching_task):
            background.cancel()
        await asyncio.gather(sending_task, watching_task, return_exceptions=True)
    return {
        "seed": options.seed,
        "kills": options.kills,
        "kinds": {kind: Counter(row["kind"] for row in report["strikes"])[kind] for kind in STRIKES_BY_KIND},
        "latency": calm_latency.figures(),
        "latency_line": calm_latency.line(),
        "transfers_included": load.included,
        "transfers_retried": load.retried,
        "open_votes": devnet.open_votes,
        **report,
        **await _judge_blocks(stage.devnet, devnet.observed, are_back=not report["not_started"]),
    }


async def _run_strikes(devnet: StruckDevnet, kinds: Sequence[str], narrator: Narrator) -> Report:
    """Strike until done, or until a node does not return. Then wait for the chain to continue."""
    strikes_done: list[Report] = []
    not_started: list[str] = []
    final_height = 0
    try:
        await devnet.copy_databases()
        for strike, kind in enumerate(kinds, 1):
            victim = devnet.random_source.choice(devnet.devnet.members)
            strikes_done.append({"kind": kind, "victim": victim.name})
            narrator.line(f"strike {strike}/{len(kinds)}: {kind}, {victim.name}")
            await devnet.strike(kind, victim)
        await devnet.wait_for_all()
        final_height = await devnet.highest_final()
        await network.ready(devnet.devnet, BACK_SECONDS, final=final_height + GOES_ON_BLOCKS)
    # A node that does not return ends the strikes, and the report still judges the rest.
    except DevnetError as start_failure:
        not_started.append(str(start_failure))
    return {"strikes": strikes_done, "not_started": not_started, "height_after_strikes": final_height}


async def _judge_blocks(devnet: Devnet, finals: ObservedFinals, *, are_back: bool) -> Report:
    """Compare the nodes block by block with each other, and with their earlier reports of final blocks."""
    # A node that is down cannot be asked for its blocks.
    if not are_back:
        return {"height": 0, "different_blocks": [], "lost_finals": finals.lost}
    final_height, different_heights = await compare_final_blocks(devnet)
    return {
        "height": final_height,
        "different_blocks": different_heights,
        "lost_finals": finals.lost + await lost_finals(devnet, finals),
    }


def _judge_signatures(devnet: Devnet, report: Report, height_before: int) -> Report:
    """Compare the observed signatures with the nodes' records, and list the validators without votes above a height."""
    votes = report.pop("votes")
    awake_voters = {voter for voter, _, _, _, vote_height, _ in votes if vote_height > height_before}
    member_names = [member.name for member in devnet.members]
    return {
        "observer": report,
        "conflicting_signatures": report["conflicts"],
        "unrecorded_votes": missing_records(devnet, votes),
        "silent": [
            name for name in member_names if dev_accounts.key(name, dev_accounts.SESSION).hex() not in awake_voters
        ],
    }


def _failures(report: Report) -> list[str]:
    """Return each failed requirement."""
    requirements = {
        "nodes that did not come back": report["not_started"],
        "final blocks lost": report["lost_finals"],
        "heights with different blocks": report["different_blocks"],
        "conflicting signatures": report["conflicting_signatures"],
        "votes that their voter did not record first": report["unrecorded_votes"],
        "validators that vote no more": report["silent"],
    }
    failure_lines = [
        f"{requirement}: {violations[:5]}" for requirement, violations in requirements.items() if violations
    ]
    if not report["observer"]["ballots"] or not report["transfers_included"]:
        failure_lines.append("nothing was tested: the observer saw no votes, or no transfer got into a block")
    return failure_lines


def figures(facts_by_scenario: Mapping[str, Report]) -> str:
    """Return the line of figures."""
    report = facts_by_scenario["storm"]
    kinds = ", ".join(f"{kind_count} {kind}" for kind, kind_count in report["kinds"].items())
    return (
        f"{len(report['strikes'])} of {report['kills']} kills ({kinds}; seed {report['seed']}), "
        f"{report['open_votes']} open votes on the disks of the killed, {len(report['conflicting_signatures'])} "
        f"conflicting signatures in {report['observer']['ballots']} votes and {report['observer']['headers']} headers "
        f"seen, {len(report['not_started'])} nodes that did not come back, {len(report['lost_finals'])} final blocks "
        f"lost, {report['height']} blocks equal on {VALIDATOR_COUNT} nodes, {report['transfers_included']} transfers; "
        f"{report['latency_line']}"
    )


PROOF = LiveProof(
    "crash",
    "Kill nodes of a live devnet.",
    [Scenario("storm", "{kills} strikes, seed {seed}", four_nodes, strike_and_judge, _failures)],
    figures,
    [
        ProofOption("--kills", 100, "how often"),
        ProofOption("--seed", random.SystemRandom().randrange(2**32), "of times and victims"),
    ],
)

if __name__ == "__main__":
    run(PROOF)
