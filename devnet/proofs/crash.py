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
from devnet.proofs.crash_strikes import BACK_SECONDS, KINDS, Struck, deal
from devnet.stage.measuring.final_blocks import Observed, blocks_of_all, lost_finals
from devnet.stage.measuring.latency import measure
from devnet.stage.measuring.load import Load, transfers
from devnet.stage.measuring.observer import missing_records
from devnet.stage.network import ObservedStage, fresh_layout, observed_nodes
from devnet.stage.report import Narrator, Report
from devnet.stage.scenario import LiveProof, ProofOption, ProofRun, Scenario, run
from genesis import dev_accounts
from genesis.parameters import CONSENSUS

VALIDATORS = 4
CALM_SECONDS = 20.0
GOES_ON_BLOCKS = 8


@contextmanager
def four_nodes(run: ProofRun) -> Iterator[ObservedStage]:
    """Run four validators and an observer."""
    with observed_nodes(run, fresh_layout(run, VALIDATORS)) as stage:
        yield stage


def stormed(stage: ObservedStage) -> Report:
    """Measure a calm phase, strike, stop all, and compare the observed signatures with each node's record."""
    report = asyncio.run(_storm(stage))
    seen = stage.seen()
    # The sign-states are complete only after all nodes have ended.
    processes.stop(*network.all_processes(stage.net))
    return report | _judge_signatures(stage.net, seen, report["height_after_strikes"])


async def _storm(stage: ObservedStage) -> Report:
    """Run the calm phase and the strikes under load, and return the report."""
    options, tell = stage.options, stage.tell
    load, rng = Load(), random.Random(options.seed)
    struck = Struck(stage.net, rng, Observed(), layout.genesis_hash(stage.net))
    sending = asyncio.create_task(transfers(stage.net, load, rng))
    watching = asyncio.create_task(struck.observed.watch(stage.net))
    try:
        tell.line(f"calm: {CALM_SECONDS:.0f} s under load")
        calm = await measure(stage.net, CONSENSUS["devnet"].slot_ms, CALM_SECONDS)
        tell.line(f"calm: {calm.line()}")
        strikes = await _strike(struck, deal(options.kills, rng), tell)
    finally:
        for task in (sending, watching):
            task.cancel()
        await asyncio.gather(sending, watching, return_exceptions=True)
    return {
        "seed": options.seed,
        "kills": options.kills,
        "kinds": {kind: Counter(strike["kind"] for strike in strikes["strikes"])[kind] for kind in KINDS},
        "latency": calm.figures(),
        "latency_line": calm.line(),
        "transfers_included": load.included,
        "transfers_retried": load.retried,
        "open_votes": struck.open_votes,
        **strikes,
        **await _judge_blocks(stage.net, struck.observed, are_back=not strikes["not_started"]),
    }


async def _strike(struck: Struck, kinds: Sequence[str], tell: Narrator) -> Report:
    """Strike until done, or until a node does not return. Then wait for the chain to continue."""
    done: list[Report] = []
    not_started: list[str] = []
    height = 0
    try:
        await struck.copy_databases()
        for number, kind in enumerate(kinds, 1):
            victim = struck.rng.choice(struck.net.members)
            done.append({"kind": kind, "victim": victim.name})
            tell.line(f"strike {number}/{len(kinds)}: {kind}, {victim.name}")
            await struck.strike(kind, victim)
        await struck.all_back()
        height = await struck.height()
        await network.ready(struck.net, BACK_SECONDS, final=height + GOES_ON_BLOCKS)
    # A node that does not return ends the strikes, and the report still judges the rest.
    except DevnetError as failure:
        not_started.append(str(failure))
    return {"strikes": done, "not_started": not_started, "height_after_strikes": height}


async def _judge_blocks(net: Devnet, observed: Observed, *, are_back: bool) -> Report:
    """Compare the nodes block by block with each other, and with their earlier reports of final blocks."""
    # A node that is down cannot be asked for its blocks.
    if not are_back:
        return {"height": 0, "different_blocks": [], "lost_finals": observed.lost}
    height, different = await blocks_of_all(net)
    return {
        "height": height,
        "different_blocks": different,
        "lost_finals": observed.lost + await lost_finals(net, observed),
    }


def _judge_signatures(net: Devnet, seen: Report, above: int) -> Report:
    """Compare the observed signatures with the nodes' records, and list the validators without votes above a height."""
    votes = seen.pop("votes")
    awake = {voter for voter, _, _, _, height, _ in votes if height > above}
    names = [member.name for member in net.members]
    return {
        "observer": seen,
        "conflicting_signatures": seen["conflicts"],
        "unrecorded_votes": missing_records(net, votes),
        "silent": [name for name in names if dev_accounts.key(name, dev_accounts.SESSION).hex() not in awake],
    }


def _failures(report: Report) -> list[str]:
    """Return each failed requirement."""
    bars = {
        "nodes that did not come back": report["not_started"],
        "final blocks lost": report["lost_finals"],
        "heights with different blocks": report["different_blocks"],
        "conflicting signatures": report["conflicting_signatures"],
        "votes that their voter did not record first": report["unrecorded_votes"],
        "validators that vote no more": report["silent"],
    }
    failures = [f"{name}: {found[:5]}" for name, found in bars.items() if found]
    if not report["observer"]["ballots"] or not report["transfers_included"]:
        failures.append("nothing was tested: the observer saw no votes, or no transfer got into a block")
    return failures


def figures(facts: Mapping[str, Report]) -> str:
    """Return the line of figures."""
    report = facts["storm"]
    kinds = ", ".join(f"{count} {kind}" for kind, count in report["kinds"].items())
    return (
        f"{len(report['strikes'])} of {report['kills']} kills ({kinds}; seed {report['seed']}), "
        f"{report['open_votes']} open votes on the disks of the killed, {len(report['conflicting_signatures'])} "
        f"conflicting signatures in {report['observer']['ballots']} votes and {report['observer']['headers']} headers "
        f"seen, {len(report['not_started'])} nodes that did not come back, {len(report['lost_finals'])} final blocks "
        f"lost, {report['height']} blocks equal on {VALIDATORS} nodes, {report['transfers_included']} transfers; "
        f"{report['latency_line']}"
    )


PROOF = LiveProof(
    "crash",
    "Kill nodes of a live devnet.",
    [Scenario("storm", "{kills} strikes, seed {seed}", four_nodes, stormed, _failures)],
    figures,
    [
        ProofOption("--kills", 100, "how often"),
        ProofOption("--seed", random.SystemRandom().randrange(2**32), "of times and victims"),
    ],
)

if __name__ == "__main__":
    run(PROOF)
