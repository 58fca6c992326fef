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

from devnet.proofs.liars.catalogue import LIES
from devnet.proofs.liars.course import LiarsNet, LiarsRun, LyingCourse, behind_proxies, beside_bad_stores
from devnet.proofs.liars.judging import Hearing, shown
from devnet.stage.scenario import LiveProof, ProofOption, ProofRun, Scenario, run

HONEST, BAD_STORES = "honest", "bad-stores"
UNITS = 60


@contextmanager
def all_told(proof_run: ProofRun) -> Iterator[LiarsRun]:
    """Tell the chosen lies, several at a time, on a devnet under load."""
    lies = [LIES[scenario.name] for scenario in proof_run.options.only if scenario.name in LIES]
    proof_run.narrator.step(f"Network: {len(lies)} lies to every program that they are for")
    with behind_proxies(proof_run) as stage:
        yield asyncio.run(LyingCourse(stage, lies)())


@contextmanager
def with_bad_stores(proof_run: ProofRun) -> Iterator[tuple[LiarsNet, int]]:
    """Run a devnet, and yield it with the number of units to post."""
    proof_run.narrator.step("Network: one store drips, one is full, one is gone")
    with behind_proxies(proof_run) as stage:
        yield stage, proof_run.options.units


@dataclass(frozen=True, slots=True)
class HeardLie:
    """The hearings of one lie."""

    says: str
    must_be: str
    hearings: list[dict[str, Any]]


def heard(name: str, proof_run: LiarsRun) -> HeardLie:
    """Return the hearings of a lie."""
    lie = LIES[name]
    return HeardLie(lie.says, lie.noticed.value, [_row(each) for each in proof_run.hearings if each.lie == name])


def _row(hearing: Hearing) -> dict[str, Any]:
    content = asdict(hearing) | {"verdict": hearing.verdict, "is_deceived": hearing.is_deceived}
    for said in (*content["under_lie"], *content["repeats"]):
        said["text"] = shown(said["text"])
    return content


def missed(lie: HeardLie) -> Iterator[str]:
    """Yield every failed requirement of a program."""
    for each in lie.hearings:
        yield from (f"{each['program']} ({each['who']}): {miss}" for miss in each["misses"])


def harmed(proof_run: LiarsRun) -> list[str]:
    """Return the harm to honest parties."""
    return [*proof_run.bonds_touched, *proof_run.failures]


def figures(facts_by_scenario: Mapping[str, HeardLie | LiarsRun]) -> str:
    """Return the line of figures."""
    rows = [row for fact in facts_by_scenario.values() if isinstance(fact, HeardLie) for row in fact.hearings]
    runs = [fact for fact in facts_by_scenario.values() if isinstance(fact, LiarsRun)]
    verdicts = Counter(row["verdict"] for row in rows)
    kinds = Counter(miss.partition(":")[0].split(",")[0].split(" for ")[0] for row in rows for miss in row["misses"])
    return (
        f"{len({row['lie'] for row in rows})} lies told {len(rows)} times: {verdicts['named']} named, "
        f"{verdicts['harmless']} cannot matter, {verdicts['unnoticed']} without any proof "
        f"({sum(row['is_deceived'] for row in rows)} believed); {kinds['moved']} moved grains that no command said, "
        f"{sum(len(proof_run.bonds_touched) for proof_run in runs)} honest bonds touched, {kinds['posted twice']} "
        "posted twice, "
        f"{kinds['dead'] + kinds['hung']} programs dead, {verdicts['missed']} missed; "
        f"{sum(proof_run.ended['settled'] for proof_run in runs)} of "
        f"{sum(proof_run.ended['units'] for proof_run in runs)} units settled"
    )


PROOF = LiveProof(
    "liars",
    "Lie to every program of a live devnet.",
    (
        *(Scenario(name, f"{name}: {lie.says}", all_told, partial(heard, name), missed) for name, lie in LIES.items()),
        Scenario(HONEST, "Those who are honest meanwhile", all_told, lambda run: run, harmed, is_always_judged=True),
        Scenario(
            BAD_STORES, "{units} units beside bad stores", with_bad_stores,
            lambda stage: asyncio.run(beside_bad_stores(*stage)), harmed,
        ),
    ),
    figures,
    (ProofOption("--units", UNITS, "beside bad stores"),),
)  # fmt: skip

if __name__ == "__main__":
    run(PROOF)
