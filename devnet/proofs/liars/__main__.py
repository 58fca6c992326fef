"""`python -m devnet.proofs.liars`: nodes and blob stores lie to every program on a live devnet; exit 1 on a failure.

The requirements: no grain moves without a command, no honest bond changes, no unit is posted twice, and no program
dies. Every lie that matters is named, except lies about non-final state, which no proof can refute.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from devnet.proofs.liars.catalogue import LIES_BY_NAME
from devnet.proofs.liars.course import LiarsNet, LiarsRun, LyingCourse, behind_proxies, beside_bad_stores
from devnet.proofs.liars.judging import Hearing, shown_text
from devnet.stage.scenario import LiveProof, ProofOption, ProofRun, Scenario, run

HONEST_SCENARIO, BAD_STORES = "honest", "bad-stores"
UNIT_COUNT = 60


@contextmanager
def all_lies_told(proof_run: ProofRun) -> Iterator[LiarsRun]:
    """Tell the chosen lies, several at a time, on a devnet under load."""
    chosen_lies = [LIES_BY_NAME[scenario.name] for scenario in proof_run.options.only if scenario.name in LIES_BY_NAME]
    proof_run.narrator.step(f"Network: {len(chosen_lies)} lies to every program that they are for")
    with behind_proxies(proof_run) as liars_net:
        yield asyncio.run(LyingCourse(liars_net, chosen_lies)())


@contextmanager
def with_bad_stores(proof_run: ProofRun) -> Iterator[tuple[LiarsNet, int]]:
    """Run a devnet, and yield it with the number of units to post."""
    proof_run.narrator.step("Network: one store drips, one is full, one is gone")
    with behind_proxies(proof_run) as liars_net:
        yield liars_net, proof_run.options.units


@dataclass(frozen=True, slots=True)
class HeardLie:
    """The hearings of one lie."""

    says: str
    must_be: str
    hearings: list[dict[str, Any]]


def hear_lie(lie_name: str, proof_run: LiarsRun) -> HeardLie:
    """Return the hearings of a lie."""
    told_lie = LIES_BY_NAME[lie_name]
    return HeardLie(
        told_lie.says,
        told_lie.noticed.value,
        [_hearing_row(hearing) for hearing in proof_run.hearings if hearing.lie == lie_name],
    )


def _hearing_row(hearing: Hearing) -> dict[str, Any]:
    hearing_row = asdict(hearing) | {"verdict": hearing.verdict, "is_deceived": hearing.is_deceived}
    for row in (*hearing_row["under_lie"], *hearing_row["repeats"]):
        row["text"] = shown_text(row["text"])
    return hearing_row


def missed_requirements(heard_lie: HeardLie) -> Iterator[str]:
    """Yield every failed requirement of a program."""
    for hearing in heard_lie.hearings:
        yield from (f"{hearing['program']} ({hearing['who']}): {miss}" for miss in hearing["misses"])


def harm_done(proof_run: LiarsRun) -> list[str]:
    """Return the harm to honest parties."""
    return [*proof_run.bonds_touched, *proof_run.failures]


def figures(facts_by_scenario: Mapping[str, HeardLie | LiarsRun]) -> str:
    """Return the line of figures."""
    rows = [
        row for lie_facts in facts_by_scenario.values() if isinstance(lie_facts, HeardLie) for row in lie_facts.hearings
    ]
    liars_runs = [lie_facts for lie_facts in facts_by_scenario.values() if isinstance(lie_facts, LiarsRun)]
    verdict_counts = Counter(row["verdict"] for row in rows)
    miss_counts = Counter(
        miss.partition(":")[0].split(",")[0].split(" for ")[0] for row in rows for miss in row["misses"]
    )
    return (
        f"{len({row['lie'] for row in rows})} lies told {len(rows)} times: {verdict_counts['named']} named, "
        f"{verdict_counts['harmless']} cannot matter, {verdict_counts['unnoticed']} without any proof "
        f"({sum(row['is_deceived'] for row in rows)} believed); {miss_counts['moved']} moved grains without a command, "
        f"{sum(len(proof_run.bonds_touched) for proof_run in liars_runs)} honest bonds touched, "
        f"{miss_counts['posted twice']} posted twice, {miss_counts['dead'] + miss_counts['hung']} programs dead, "
        f"{verdict_counts['missed']} missed; {sum(proof_run.ended['settled'] for proof_run in liars_runs)} of "
        f"{sum(proof_run.ended['units'] for proof_run in liars_runs)} units settled"
    )


PROOF = LiveProof(
    "liars",
    "Lie to every program of a live devnet.",
    (
        *(
            Scenario(name, f"{name}: {lie.says}", all_lies_told, partial(hear_lie, name), missed_requirements)
            for name, lie in LIES_BY_NAME.items()
        ),
        Scenario(
            HONEST_SCENARIO, "Honest accounts meanwhile", all_lies_told, lambda run: run, harm_done,
            is_always_judged=True,
        ),
        Scenario(
            BAD_STORES, "{units} units beside bad stores", with_bad_stores,
            lambda stage: asyncio.run(beside_bad_stores(*stage)), harm_done,
        ),
    ),
    figures,
    (ProofOption("--units", UNIT_COUNT, "beside bad stores"),),
)  # fmt: skip

if __name__ == "__main__":
    run(PROOF)
