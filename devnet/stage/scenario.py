"""Scenarios, and the program that runs a proof: options, networks, strikes, checks, report, exit status.

A proof is a `LiveProof` with its scenarios, and ends with `if __name__ == "__main__": run(PROOF)`. Invariant: a network
is stopped however its scenarios end. Each failed requirement is one sentence. One such sentence makes the exit status
1, and so does a DevnetError.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

from rich.table import Table

from devnet.launcher import lifecycle
from devnet.launcher.folder import DevnetError
from devnet.stage.report import REPORT_FOLDER, Narrator, Report, figures_of, write_report

T = TypeVar("T")
StageT = TypeVar("StageT")
FactsT = TypeVar("FactsT")


@dataclass(frozen=True, slots=True)
class ProofRun:
    """The options and the narrator of a run, for its networks and strikes."""

    options: argparse.Namespace
    narrator: Narrator

    @property
    def folder(self) -> Path:
        """The folder of the run's networks."""
        folder: Path = self.options.folder
        return folder


def recorded_failures(facts: Any) -> Iterable[str]:
    """Return the failures that a strike recorded itself."""
    failures: list[str] = facts.failures
    return failures


@dataclass(frozen=True, slots=True)
class Scenario(Generic[StageT, FactsT]):
    """A strike against a network, and the checks of its outcome."""

    name: str
    title: str
    """The title of its step. Names in braces are replaced by the proof's options."""
    network: Callable[[ProofRun], AbstractContextManager[StageT]]
    """A factory of the network. Consecutive scenarios with equal networks share one."""
    run_strike: Callable[[StageT], FactsT]
    """The action on the network. It returns the facts: a dataclass or a mapping."""
    checks: Callable[[FactsT], Iterable[str]] = recorded_failures
    """The checks. They yield a sentence for each failed requirement."""
    is_always_judged: bool = False
    """True if the scenario runs with every chosen scenario of its network, chosen or not."""


@dataclass(frozen=True, slots=True)
class ProofOption:
    """An option of a proof. Its type is the type of its default."""

    name: str
    default: int | float | bool | str
    about: str


@dataclass(frozen=True, slots=True)
class Result:
    """The facts of a scenario, and its failed requirements."""

    facts: Any
    failures: list[str]


@dataclass(frozen=True, slots=True)
class LiveProof:
    """The scenarios of one make target."""

    name: str
    about: str
    scenarios: Sequence[Scenario[Any, Any]]
    line: Callable[[Mapping[str, Any]], str]
    """The figures of the run in one line, from the facts by scenario."""
    options: Sequence[ProofOption] = ()
    folder: Path | None = None

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run the chosen scenarios, and return 0 if every requirement held."""
        options = self.parse(arguments)
        narrator = Narrator(len(_grouped_by_network(options.only)) + len(options.only))
        results: dict[str, Result] = {}
        # A signal must end the run through its `finally` clauses, which stop the nodes.
        with lifecycle.ending_on_signals():
            # Starting a network is slow, so scenarios with equal networks share one.
            for scenarios in _grouped_by_network(options.only):
                with scenarios[0].network(ProofRun(options, narrator)) as stage:
                    for scenario in scenarios:
                        narrator.step(scenario.title.format(**vars(options)))
                        results[scenario.name] = _run_scenario(scenario, stage, narrator)
                        self._write(results, narrator)  # an aborted run has a report too
        return self._finish(results, narrator)

    def _write(self, results: Mapping[str, Result], narrator: Narrator) -> Path:
        report: Report = {"failures": _failures(results), "seconds": round(narrator.seconds)}
        report["scenarios"] = {entry: result.facts for entry, result in results.items()}
        return write_report(self.name, report)

    def _finish(self, results: Mapping[str, Result], narrator: Narrator) -> int:
        outcome_table, failures = Table("scenario", "outcome", "figures"), _failures(results)
        for entry, result in results.items():
            outcome_table.add_row(entry, "FAILED" if result.failures else "held", figures_of(result.facts))
        narrator.console.print(outcome_table)
        for failure in failures:
            print(f"FAILED {failure}")
        path, figures_line = (
            self._write(results, narrator),
            self.line({entry: result.facts for entry, result in results.items()}),
        )
        print(f"{self.name}: {figures_line}; {len(failures)} failures; {round(narrator.seconds)} s; {path}")
        return 1 if failures else 0

    def parse(self, arguments: Sequence[str] | None = None) -> argparse.Namespace:
        """Parse the options of a run."""
        parser = argparse.ArgumentParser(f"devnet.proofs.{self.name}", description=self.about)
        scenarios_by_name = {scenario.name: scenario for scenario in self.scenarios}
        parser.add_argument(
            "--only",
            type=chosen_from(scenarios_by_name, "scenario"),
            default=list(self.scenarios),
            help=f"only these, with commas: {', '.join(scenarios_by_name)}",
        )
        folder = self.folder or REPORT_FOLDER / self.name
        parser.add_argument("--folder", type=Path, default=folder, help="of the networks; emptied first")
        for option in self.options:
            # `type=bool` of argparse would read the word "False" as true.
            if isinstance(option.default, bool):
                parser.add_argument(option.name, action="store_true", help=option.about)
            else:
                parser.add_argument(option.name, type=type(option.default), default=option.default, help=option.about)
        options = parser.parse_args(arguments)
        required_scenarios = [each for each in self.scenarios if each.is_always_judged and each not in options.only]
        options.only = [
            each
            for network_scenarios in _grouped_by_network(options.only)
            for each in (
                *network_scenarios,
                *(
                    required_scenario
                    for required_scenario in required_scenarios
                    if required_scenario.network == network_scenarios[0].network
                ),
            )
        ]
        return options


def run(proof: LiveProof) -> NoReturn:
    """Run a proof as a program."""
    try:
        sys.exit(proof.main())
    except DevnetError as failure:
        sys.exit(f"{proof.name}: {failure}")


def chosen_from(catalogue: Mapping[str, T], entry_kind: str) -> Callable[[str], list[T]]:
    """Return an argparse type that reads `name,name` as entries of a catalogue. It refuses unknown names."""

    def chosen(text: str) -> list[T]:
        names = text.split(",")
        unknown = [name for name in names if name not in catalogue]
        if unknown:
            raise argparse.ArgumentTypeError(
                f"no {entry_kind} is called {', '.join(unknown)}: there are {', '.join(catalogue)}"
            )
        return [catalogue[name] for name in names]

    return chosen


def _failures(results: Mapping[str, Result]) -> list[str]:
    return [f"{entry}: {failure}" for entry, result in results.items() for failure in result.failures]


def _grouped_by_network(scenarios: Sequence[Scenario[Any, Any]]) -> list[list[Scenario[Any, Any]]]:
    return [
        list(scenarios_of_network)
        for _, scenarios_of_network in groupby(scenarios, key=lambda scenario: scenario.network)
    ]


def _run_scenario(scenario: Scenario[Any, Any], stage: Any, narrator: Narrator) -> Result:
    facts = scenario.run_strike(stage)
    result = Result(facts, list(scenario.checks(facts)))
    for failure in result.failures:
        narrator.line(f"FAILED: {failure}")
    narrator.line(f"{scenario.name}: {'FAILED' if result.failures else 'held'}")
    return result
