"""`python -m devnet.simulation`: many seeds of many scenarios, judged; exit status 1 if a requirement fails.

The requirements:

* No two honest nodes finalise different blocks.
* No evidence names an honest key.
* Every honest node finalises at least six new blocks after healing.
* A repeated seed gives the same trace.
"""

import argparse
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from consensus.parameters import DEVNET, FULL_POLL_VALIDATORS_MAX, SAMPLE_UNITS_MIN
from devnet.simulation.elections import SetChange
from devnet.simulation.scenario import (
    BLACKOUT_MIX,
    CUT_MIX,
    EDGE_MIX,
    HARD_MIX,
    LAN,
    LATE_MIX,
    PUT_BACK_MIX,
    WAN,
    ScenarioOutcome,
    SimulatedScenario,
    run,
)

HANDOFFS_LEAST = 200
"""The least handoffs that a joiner by handoffs follows: the epochs that it missed."""
SAMPLED_ONE_IN = 3
"""One seed in this many polls a sample of the minimum size in small networks. The others poll all validators."""


SAMPLE = re.compile(r"-k\d+$")
"""The suffix of the name of a scenario that polls a sample."""
FAILURES = {
    "conflicting_finals": "conflicting finals",
    "honest_accused": "honest node framed",
    "false_evidence": "do not verify",
    "stalled": "new final blocks after healing",
    "late_and_stuck": "blocks behind",
    "refused_handoffs": "a handoff was refused",
}
"""The kinds of failures, and a phrase that identifies each in a run's failure texts."""


def summarise(outcomes: Sequence[ScenarioOutcome], failures: Sequence[str], wall_s: float) -> dict[str, object]:
    """Return all figures of a set of runs."""
    names = list(dict.fromkeys(outcome.scenario for outcome in outcomes))
    return {
        "runs": len(outcomes),
        "simulated_hours": round(sum(outcome.simulated_s for outcome in outcomes) / 3600, 2),
        "wall_s": round(wall_s, 1),
        "failures": list(failures),
        "failed_runs": {what: sum(_has(outcome, said) for outcome in outcomes) for what, said in FAILURES.items()},
        "finals_after_healing_min": min(outcome.finals_after_healing for outcome in outcomes),
        "soft_conflicts": sum(outcome.soft_conflicts for outcome in outcomes),
        "soft_reverts": sum(outcome.soft_reverts for outcome in outcomes),
        "accused_keys": sum(outcome.accused for outcome in outcomes),
        "runs_with_samples": sum(SAMPLE.search(outcome.scenario) is not None for outcome in outcomes),
        "runs_with_set_changes": sum(outcome.set_changes > 0 for outcome in outcomes),
        "set_changes": sum(outcome.set_changes for outcome in outcomes),
        "runs_of_kind": dict(sorted(Counter(kind_of(outcome.scenario) for outcome in outcomes).items())),
        "scenarios": {
            name: _of_scenario([outcome for outcome in outcomes if outcome.scenario == name]) for name in names
        },
        "traces": {f"{outcome.scenario}/{outcome.seed}": outcome.trace for outcome in outcomes},
    }


def _has(outcome: ScenarioOutcome, said: str) -> bool:
    return any(said in failure for failure in outcome.failures)


def kind_of(scenario: str) -> str:
    """Return a scenario's name without the sizes of its network and of its sample."""
    return SAMPLE.sub("", scenario.partition("-")[2] or scenario)


def _of_scenario(outcomes: Sequence[ScenarioOutcome]) -> dict[str, object]:
    """Return the figures of one scenario's runs."""
    messages: Counter[str] = Counter()
    for outcome in outcomes:
        messages.update(outcome.messages)
    healed = sorted(outcome.finals_after_healing for outcome in outcomes)
    blocks = max(1, sum(outcome.finals for outcome in outcomes))
    accept = sorted(value for outcome in outcomes for value in outcome.accept_ms)
    final = sorted(value for outcome in outcomes for value in outcome.final_ms)
    return {
        "runs": len(outcomes),
        "failed": sum(bool(outcome.failures) for outcome in outcomes),
        "finals_after_healing": sorted({healed[0], healed[-1]}),
        "soft_conflicts": sum(outcome.soft_conflicts for outcome in outcomes),
        "soft_reverts": sum(outcome.soft_reverts for outcome in outcomes),
        "accused_keys": sum(outcome.accused for outcome in outcomes),
        "accepted_ms_p50_p99": _percentiles(accept),
        "final_ms_p50_p99": _percentiles(final),
        "messages_per_final_block": {kind: round(number / blocks, 1) for kind, number in sorted(messages.items())},
    }


def _percentiles(ordered: Sequence[int]) -> tuple[int, int] | None:
    if not ordered:
        return None
    return ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]


def summary_line(report: dict[str, object]) -> str:
    """Return the decisive figures on one line."""
    failures = report["failures"]
    kinds = report["runs_of_kind"]
    assert isinstance(failures, list)  # built above
    failed = report["failed_runs"]
    assert isinstance(kinds, dict)
    assert isinstance(failed, dict)
    return (
        f"simulate: {report['runs']} runs ({len(kinds)} kinds, "
        f"{min(kinds.values())} to {max(kinds.values())} times each; {report['runs_with_samples']} poll a sample), "
        f"{report['simulated_hours']} simulated hours, "
        f"{len(failures)} failures: {failed['conflicting_finals']} runs with conflicting finals, "
        f"{failed['stalled'] + failed['late_and_stuck']} with stalls, "
        f"{failed['honest_accused'] + failed['false_evidence']} with honest keys accused; "
        f"{report['set_changes']} changes of set in {report['runs_with_set_changes']} runs, "
        f"{report['accused_keys']} guilty keys accused, {report['soft_reverts']} soft reverts, "
        f"at least {report['finals_after_healing_min']} finals after healing, {report['wall_s']} s"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the jobs that the command line selects. Return 0 if every requirement holds."""
    options = parse(arguments)
    jobs: list[tuple[SimulatedScenario, int]] = []
    for place, size in enumerate(options.validators.split(",")):
        jobs += deal(list(plan(options, int(size))), options, place * options.seeds)
    repeats = list({kind_of(scenario.name): (scenario, seed) for scenario, seed in reversed(jobs)}.values())
    # The last job of each kind wins in a dict, so the reversed order repeats the first one.
    started = time.monotonic()
    outcomes = list(simulate(jobs + repeats, options.jobs))
    failures = check_repeats(outcomes[: len(jobs)], outcomes[len(jobs) :])
    outcomes = outcomes[: len(jobs)]
    failures += [f"{outcome.scenario} seed {outcome.seed}: {what}" for outcome in outcomes for what in outcome.failures]
    report = summarise(outcomes, failures, time.monotonic() - started)
    write_report(Path(options.report), report)
    for failure in failures:
        print(f"FAILED {failure}")
    print(summary_line(report))
    return 1 if failures else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser("devnet.simulation", description="Simulate the consensus of a network.")
    add = parser.add_argument
    add("--seeds", type=int, default=20, help="networks of each size, dealt out to its scenarios")
    add("--every", action="store_true", help="each seed in every scenario")
    add("--first", type=int, default=0, help="first seed")
    add("--validators", default="4,5,7", help="sizes of the network, comma-separated")
    add("--scenarios", default="", help="only these, comma-separated: n4-twins, or twins for every size")
    add("--sample", type=int, metavar="K", help="poll K units of stake with each seed; 0: poll everybody")
    add("--changing", action="store_true", help="only scenarios in which sets change")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    add("--report", default="out/simulate.json", help="where the figures go")
    return parser.parse_args(arguments)


def plan(options: argparse.Namespace, size: int) -> Iterator[SimulatedScenario]:
    """Yield the scenarios of one network size that the options select."""
    wanted = [part for part in options.scenarios.split(",") if part]
    for scenario in catalogue(size):
        if options.changing and scenario.change is SetChange.NONE:
            continue
        if wanted and not {scenario.name, scenario.name.split("-", 1)[1]} & {*wanted}:
            continue
        yield scenario


def deal(
    scenarios: Sequence[SimulatedScenario], options: argparse.Namespace, skip: int = 0
) -> Iterator[tuple[SimulatedScenario, int]]:
    """Yield jobs: each seed runs the next scenario in turn, or every one with `--every`.

    `skip` shifts the start, so that each network size begins at another scenario.
    """
    for seed in range(options.first, options.first + options.seeds):
        if options.every:
            yield from ((sampled(scenario, seed, options.sample), seed) for scenario in scenarios)
        elif scenarios:
            yield sampled(scenarios[(seed + skip) % len(scenarios)], seed, options.sample), seed


def sampled(scenario: SimulatedScenario, seed: int, units: int | None) -> SimulatedScenario:
    """Return the scenario with polls of `units` units of stake. None lets the seed choose."""
    if units is None:
        is_sampled = seed % SAMPLED_ONE_IN == SAMPLED_ONE_IN - 1 and scenario.validators <= FULL_POLL_VALIDATORS_MAX
        units = SAMPLE_UNITS_MIN if is_sampled else 0
    if not units:
        return scenario
    parameters = replace(scenario.parameters, sample_units=units, force_sampling=True)
    return replace(scenario, name=f"{scenario.name}-k{units}", parameters=parameters)


def catalogue(size: int) -> Iterator[SimulatedScenario]:
    """Yield every scenario of a network of `size` validators: with a constant set, and with changing sets."""
    for scenario in steady(size):
        yield scenario
        yield changing(scenario)
    yield from edges(size)


def steady(size: int) -> Iterator[SimulatedScenario]:
    """Yield the scenarios with a constant set. `bad` is the most validators that may misbehave."""
    bad = (size - 1) // 3
    name = f"n{size}"
    if size > FULL_POLL_VALIDATORS_MAX:
        yield SimulatedScenario(f"{name}-calm", size, storm_s=0, quiet_s=30, delay_ms=WAN)
        yield SimulatedScenario(f"{name}-storm", size, storm_s=20, quiet_s=20, delay_ms=WAN)
        return
    yield SimulatedScenario(f"{name}-calm", size, storm_s=0, quiet_s=60, delay_ms=LAN, clock_offset_max_ms=0)
    yield SimulatedScenario(f"{name}-real-signatures", size, storm_s=10, quiet_s=15, real_signatures=True)
    yield SimulatedScenario(f"{name}-honest", size)
    yield SimulatedScenario(f"{name}-silent", size, silent=bad)
    yield SimulatedScenario(f"{name}-equivocators", size, equivocators=bad)
    yield SimulatedScenario(f"{name}-twins", size, twins=bad)
    yield SimulatedScenario(f"{name}-blackouts", size, equivocators=bad, storm=BLACKOUT_MIX, storm_s=50)
    yield SimulatedScenario(f"{name}-cuts", size, equivocators=bad, storm=CUT_MIX, storm_s=50)
    yield SimulatedScenario(f"{name}-hard", size, storm=HARD_MIX, clock_offset_max_ms=400)
    yield SimulatedScenario(f"{name}-put-back", size, silent=bad, storm=PUT_BACK_MIX, storm_s=60)
    yield SimulatedScenario(f"{name}-slow", size, slow=bad, storm_s=40, quiet_s=30)
    yield SimulatedScenario(f"{name}-withholding", size, withholders=bad, storm_s=40)
    yield SimulatedScenario(f"{name}-weights", size, equivocators=bad, unequal=True)
    yield SimulatedScenario(f"{name}-sparse", size, shape="sparse", followers=2, storm_s=40, quiet_s=60)
    yield SimulatedScenario(
        f"{name}-sparse-equivocators", size, equivocators=bad, shape="ring 4", followers=1, quiet_s=60
    )
    tiny = replace(DEVNET, epoch_blocks=3)
    yield SimulatedScenario(
        f"{name}-late", size, late=1, followers=1, storm=LATE_MIX, storm_s=210, quiet_s=20, parameters=tiny
    )


def changing(scenario: SimulatedScenario) -> SimulatedScenario:
    """Return the scenario with sets that follow the chain's rules, in short epochs, and faults at their boundaries."""
    length = min(scenario.parameters.epoch_blocks, 6)
    return replace(
        scenario, name=f"{scenario.name}-sets", change=SetChange.CUT, spares=max(1, scenario.validators // 3),
        unequal=True, rekey=True, era_epochs=2 if scenario.twins or scenario.withholders else 1,
        edges=EDGE_MIX if scenario.storm_s else (),
        parameters=replace(scenario.parameters, epoch_blocks=length),
    )  # fmt: skip


def edges(size: int) -> Iterator[SimulatedScenario]:
    """Yield the scenarios that need changing sets."""
    if size > FULL_POLL_VALIDATORS_MAX:
        return
    bad = (size - 1) // 3
    name, short, tiny = f"n{size}", replace(DEVNET, epoch_blocks=12), replace(DEVNET, epoch_blocks=4)
    yield SimulatedScenario(f"{name}-rotate", size, change=SetChange.WINDOW, spares=1, parameters=short)
    yield SimulatedScenario(
        f"{name}-rotate-equivocator", size, change=SetChange.WINDOW, spares=1, equivocators=bad, parameters=short
    )
    anybody = SimulatedScenario(f"{name}-any", size, change=SetChange.ANY, spares=size, parameters=tiny, rekey=True)
    yield anybody
    yield replace(anybody, name=f"{name}-any-equivocators", equivocators=bad, edges=EDGE_MIX)
    yield SimulatedScenario(
        f"{name}-third-down", size, change=SetChange.CUT, spares=2, unequal=True, edges=("third",), storm_s=0,
        quiet_s=90, parameters=tiny,
    )  # fmt: skip
    yield SimulatedScenario(
        f"{name}-joiner", size, change=SetChange.CUT, spares=1, unequal=True, rekey=True, joiners=1, storm=LATE_MIX,
        storm_s=1_000, quiet_s=20, parameters=replace(DEVNET, epoch_blocks=3), handoffs_least=HANDOFFS_LEAST,
    )  # fmt: skip


def simulate(jobs: Sequence[tuple[SimulatedScenario, int]], processes: int) -> Iterator[ScenarioOutcome]:
    """Yield outcomes in the order of the jobs, computed by several processes. Print progress to stderr."""
    started = time.monotonic()
    with ProcessPoolExecutor(processes) as pool:
        for done, outcome in enumerate(pool.map(run_job, jobs, chunksize=1), 1):
            yield outcome
            if sys.stderr.isatty() or done % 50 == 0 or done == len(jobs):
                seconds = time.monotonic() - started
                print(
                    f"{done}/{len(jobs)} runs, repetitions too, {seconds:.0f} s, last {outcome.scenario}",
                    file=sys.stderr,
                )


def run_job(job: tuple[SimulatedScenario, int]) -> ScenarioOutcome:
    """Return the outcome of one run, in a worker process."""
    return run(*job)


def check_repeats(outcomes: Iterable[ScenarioOutcome], repeats: Iterable[ScenarioOutcome]) -> list[str]:
    """Return a failure for each run with a different repetition."""
    traces = {(outcome.scenario, outcome.seed): outcome.trace for outcome in outcomes}
    return [
        f"{repeat.scenario} seed {repeat.seed} did not repeat"
        for repeat in repeats
        if traces.get((repeat.scenario, repeat.seed)) != repeat.trace
    ]


def write_report(path: Path, report: dict[str, object]) -> None:
    """Write the figures as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
