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
    LAN_DELAY_MS,
    LATE_MIX,
    PUT_BACK_MIX,
    WAN_DELAY_MS,
    ScenarioOutcome,
    SimulatedScenario,
    run,
)

# The least handoffs that a joiner by handoffs follows: the epochs that it missed.
HANDOFFS_LEAST = 200
# One seed in this many polls a sample of the minimum size in small networks. The others poll all validators.
SAMPLED_ONE_IN = 3


SAMPLE_SUFFIX = re.compile(r"-k\d+$")
"""The suffix of the name of a scenario that polls a sample."""
FAILURE_PHRASES = {
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
        "failed_runs": {
            failure_kind: sum(_has_failure(outcome, failure_phrase) for outcome in outcomes)
            for failure_kind, failure_phrase in FAILURE_PHRASES.items()
        },
        "finals_after_healing_min": min(outcome.finals_after_healing for outcome in outcomes),
        "soft_conflicts": sum(outcome.soft_conflicts for outcome in outcomes),
        "soft_reverts": sum(outcome.soft_reverts for outcome in outcomes),
        "accused_keys": sum(outcome.accused for outcome in outcomes),
        "runs_with_samples": sum(SAMPLE_SUFFIX.search(outcome.scenario) is not None for outcome in outcomes),
        "runs_with_set_changes": sum(outcome.set_changes > 0 for outcome in outcomes),
        "set_changes": sum(outcome.set_changes for outcome in outcomes),
        "runs_of_kind": dict(sorted(Counter(kind_of(outcome.scenario) for outcome in outcomes).items())),
        "scenarios": {
            name: _of_scenario([outcome for outcome in outcomes if outcome.scenario == name]) for name in names
        },
        "traces": {f"{outcome.scenario}/{outcome.seed}": outcome.trace for outcome in outcomes},
    }


def _has_failure(outcome: ScenarioOutcome, failure_phrase: str) -> bool:
    return any(failure_phrase in failure for failure in outcome.failures)


def kind_of(scenario: str) -> str:
    """Return a scenario's name without the sizes of its network and of its sample."""
    return SAMPLE_SUFFIX.sub("", scenario.partition("-")[2] or scenario)


def _of_scenario(outcomes: Sequence[ScenarioOutcome]) -> dict[str, object]:
    """Return the figures of one scenario's runs."""
    messages: Counter[str] = Counter()
    for outcome in outcomes:
        messages.update(outcome.messages)
    finals_after_healing = sorted(outcome.finals_after_healing for outcome in outcomes)
    block_count = max(1, sum(outcome.finals for outcome in outcomes))
    accept_latencies_ms = sorted(latency_ms for outcome in outcomes for latency_ms in outcome.accept_ms)
    final_latencies_ms = sorted(latency_ms for outcome in outcomes for latency_ms in outcome.final_ms)
    return {
        "runs": len(outcomes),
        "failed": sum(bool(outcome.failures) for outcome in outcomes),
        "finals_after_healing": sorted({finals_after_healing[0], finals_after_healing[-1]}),
        "soft_conflicts": sum(outcome.soft_conflicts for outcome in outcomes),
        "soft_reverts": sum(outcome.soft_reverts for outcome in outcomes),
        "accused_keys": sum(outcome.accused for outcome in outcomes),
        "accepted_ms_p50_p99": _percentiles(accept_latencies_ms),
        "final_ms_p50_p99": _percentiles(final_latencies_ms),
        "messages_per_final_block": {
            message_kind: round(message_count / block_count, 1)
            for message_kind, message_count in sorted(messages.items())
        },
    }


def _percentiles(ordered: Sequence[int]) -> tuple[int, int] | None:
    if not ordered:
        return None
    return ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]


def summary_line(report: dict[str, object]) -> str:
    """Return the decisive figures on one line."""
    failures = report["failures"]
    runs_by_kind = report["runs_of_kind"]
    assert isinstance(failures, list)  # built above
    failed_runs = report["failed_runs"]
    assert isinstance(runs_by_kind, dict)
    assert isinstance(failed_runs, dict)
    return (
        f"simulate: {report['runs']} runs ({len(runs_by_kind)} kinds, {min(runs_by_kind.values())} to "
        f"{max(runs_by_kind.values())} times each; {report['runs_with_samples']} poll a sample), "
        f"{report['simulated_hours']} simulated hours, {len(failures)} failures: {failed_runs['conflicting_finals']} "
        f"runs with conflicting finals, {failed_runs['stalled'] + failed_runs['late_and_stuck']} with stalls, "
        f"{failed_runs['honest_accused'] + failed_runs['false_evidence']} with honest keys accused; "
        f"{report['set_changes']} changes of set in {report['runs_with_set_changes']} runs, {report['accused_keys']} "
        f"guilty keys accused, {report['soft_reverts']} soft reverts, at least {report['finals_after_healing_min']} "
        f"finals after healing, {report['wall_s']} s"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the jobs that the command line selects. Return 0 if every requirement holds."""
    options = parse(arguments)
    scenario_jobs: list[tuple[SimulatedScenario, int]] = []
    for size_index, validator_count in enumerate(options.validators.split(",")):
        scenario_jobs += deal_jobs(
            list(selected_scenarios(options, int(validator_count))), options, size_index * options.seeds
        )
    repeated_jobs = list(
        {kind_of(scenario.name): (scenario, run_seed) for scenario, run_seed in reversed(scenario_jobs)}.values()
    )
    # The last job of each kind wins in a dict, so the reversed order repeats the first one.
    started = time.monotonic()
    outcomes = list(simulate(scenario_jobs + repeated_jobs, options.jobs))
    failures = check_repeats(outcomes[: len(scenario_jobs)], outcomes[len(scenario_jobs) :])
    outcomes = outcomes[: len(scenario_jobs)]
    failures += [
        f"{outcome.scenario} seed {outcome.seed}: {failure_text}"
        for outcome in outcomes
        for failure_text in outcome.failures
    ]
    report = summarise(outcomes, failures, time.monotonic() - started)
    write_report(Path(options.report), report)
    for failure in failures:
        print(f"FAILED {failure}")
    print(summary_line(report))
    return 1 if failures else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser("devnet.simulation", description="Simulate the consensus of a network.")
    add_option = parser.add_argument
    add_option("--seeds", type=int, default=20, help="networks of each size, dealt out to its scenarios")
    add_option("--every", action="store_true", help="each seed in every scenario")
    add_option("--first", type=int, default=0, help="first seed")
    add_option("--validators", default="4,5,7", help="sizes of the network, comma-separated")
    add_option("--scenarios", default="", help="only these, comma-separated: n4-twins, or twins for every size")
    add_option("--sample", type=int, metavar="K", help="poll K units of stake with each seed; 0: poll everybody")
    add_option("--changing", action="store_true", help="only scenarios in which sets change")
    add_option("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    add_option("--report", default="out/simulate.json", help="where the figures go")
    return parser.parse_args(arguments)


def selected_scenarios(options: argparse.Namespace, validator_count: int) -> Iterator[SimulatedScenario]:
    """Yield the scenarios of one network size that the options select."""
    wanted_names = [name for name in options.scenarios.split(",") if name]
    for scenario in catalogue(validator_count):
        if options.changing and scenario.change is SetChange.NONE:
            continue
        if wanted_names and not {scenario.name, scenario.name.split("-", 1)[1]} & {*wanted_names}:
            continue
        yield scenario


def deal_jobs(
    scenarios: Sequence[SimulatedScenario], options: argparse.Namespace, skipped_scenarios: int = 0
) -> Iterator[tuple[SimulatedScenario, int]]:
    """Yield jobs: each seed runs the next scenario in turn, or every one with `--every`.

    `skip` shifts the start, so that each network size begins at another scenario.
    """
    for run_seed in range(options.first, options.first + options.seeds):
        if options.every:
            yield from ((sampled(scenario, run_seed, options.sample), run_seed) for scenario in scenarios)
        elif scenarios:
            yield (
                sampled(scenarios[(run_seed + skipped_scenarios) % len(scenarios)], run_seed, options.sample),
                run_seed,
            )


def sampled(scenario: SimulatedScenario, run_seed: int, sample_units: int | None) -> SimulatedScenario:
    """Return the scenario with polls of `units` units of stake. None lets the seed choose."""
    if sample_units is None:
        is_sampled = run_seed % SAMPLED_ONE_IN == SAMPLED_ONE_IN - 1 and scenario.validators <= FULL_POLL_VALIDATORS_MAX
        sample_units = SAMPLE_UNITS_MIN if is_sampled else 0
    if not sample_units:
        return scenario
    parameters = replace(scenario.parameters, sample_units=sample_units, force_sampling=True)
    return replace(scenario, name=f"{scenario.name}-k{sample_units}", parameters=parameters)


def catalogue(validator_count: int) -> Iterator[SimulatedScenario]:
    """Yield every scenario of a network of `size` validators: with a constant set, and with changing sets."""
    for scenario in steady(validator_count):
        yield scenario
        yield changing(scenario)
    yield from edges(validator_count)


def steady(validator_count: int) -> Iterator[SimulatedScenario]:
    """Yield the scenarios with a constant set. `bad` is the most validators that may misbehave."""
    misbehaving_max = (validator_count - 1) // 3
    size = f"n{validator_count}"
    if validator_count > FULL_POLL_VALIDATORS_MAX:
        yield SimulatedScenario(f"{size}-calm", validator_count, storm_s=0, quiet_s=30, delay_ms=WAN_DELAY_MS)
        yield SimulatedScenario(f"{size}-storm", validator_count, storm_s=20, quiet_s=20, delay_ms=WAN_DELAY_MS)
        return
    yield SimulatedScenario(
        f"{size}-calm", validator_count, storm_s=0, quiet_s=60, delay_ms=LAN_DELAY_MS, clock_offset_max_ms=0
    )
    yield SimulatedScenario(f"{size}-real-signatures", validator_count, storm_s=10, quiet_s=15, real_signatures=True)
    yield SimulatedScenario(f"{size}-honest", validator_count)
    yield SimulatedScenario(f"{size}-silent", validator_count, silent=misbehaving_max)
    yield SimulatedScenario(f"{size}-equivocators", validator_count, equivocators=misbehaving_max)
    yield SimulatedScenario(f"{size}-twins", validator_count, twins=misbehaving_max)
    yield SimulatedScenario(
        f"{size}-blackouts", validator_count, equivocators=misbehaving_max, storm=BLACKOUT_MIX, storm_s=50
    )
    yield SimulatedScenario(f"{size}-cuts", validator_count, equivocators=misbehaving_max, storm=CUT_MIX, storm_s=50)
    yield SimulatedScenario(f"{size}-hard", validator_count, storm=HARD_MIX, clock_offset_max_ms=400)
    yield SimulatedScenario(f"{size}-put-back", validator_count, silent=misbehaving_max, storm=PUT_BACK_MIX, storm_s=60)
    yield SimulatedScenario(f"{size}-slow", validator_count, slow=misbehaving_max, storm_s=40, quiet_s=30)
    yield SimulatedScenario(f"{size}-withholding", validator_count, withholders=misbehaving_max, storm_s=40)
    yield SimulatedScenario(f"{size}-weights", validator_count, equivocators=misbehaving_max, unequal=True)
    yield SimulatedScenario(f"{size}-sparse", validator_count, shape="sparse", followers=2, storm_s=40, quiet_s=60)
    yield SimulatedScenario(
        f"{size}-sparse-equivocators",
        validator_count,
        equivocators=misbehaving_max,
        shape="ring 4",
        followers=1,
        quiet_s=60,
    )
    tiny_epochs = replace(DEVNET, epoch_blocks=3)
    yield SimulatedScenario(
        f"{size}-late",
        validator_count,
        late=1,
        followers=1,
        storm=LATE_MIX,
        storm_s=210,
        quiet_s=20,
        parameters=tiny_epochs,
    )


def changing(scenario: SimulatedScenario) -> SimulatedScenario:
    """Return the scenario with sets that follow the chain's rules, in short epochs, and faults at their boundaries."""
    epoch_length = min(scenario.parameters.epoch_blocks, 6)
    return replace(
        scenario, name=f"{scenario.name}-sets", change=SetChange.CUT, spares=max(1, scenario.validators // 3),
        unequal=True, rekey=True, era_epochs=2 if scenario.twins or scenario.withholders else 1,
        edges=EDGE_MIX if scenario.storm_s else (),
        parameters=replace(scenario.parameters, epoch_blocks=epoch_length),
    )  # fmt: skip


def edges(validator_count: int) -> Iterator[SimulatedScenario]:
    """Yield the scenarios that need changing sets."""
    if validator_count > FULL_POLL_VALIDATORS_MAX:
        return
    misbehaving_max = (validator_count - 1) // 3
    size, short_epochs, tiny_epochs = (
        f"n{validator_count}",
        replace(DEVNET, epoch_blocks=12),
        replace(DEVNET, epoch_blocks=4),
    )
    yield SimulatedScenario(
        f"{size}-rotate", validator_count, change=SetChange.WINDOW, spares=1, parameters=short_epochs
    )
    yield SimulatedScenario(
        f"{size}-rotate-equivocator",
        validator_count,
        change=SetChange.WINDOW,
        spares=1,
        equivocators=misbehaving_max,
        parameters=short_epochs,
    )
    any_set_scenario = SimulatedScenario(
        f"{size}-any", validator_count, change=SetChange.ANY, spares=validator_count, parameters=tiny_epochs, rekey=True
    )
    yield any_set_scenario
    yield replace(any_set_scenario, name=f"{size}-any-equivocators", equivocators=misbehaving_max, edges=EDGE_MIX)
    yield SimulatedScenario(
        f"{size}-third-down", validator_count, change=SetChange.CUT, spares=2, unequal=True, edges=("third",),
        storm_s=0,
        quiet_s=90, parameters=tiny_epochs,
    )  # fmt: skip
    yield SimulatedScenario(
        f"{size}-joiner", validator_count, change=SetChange.CUT, spares=1, unequal=True, rekey=True, joiners=1,
        storm=LATE_MIX,
        storm_s=1_000, quiet_s=20, parameters=replace(DEVNET, epoch_blocks=3), handoffs_least=HANDOFFS_LEAST,
    )  # fmt: skip


def simulate(scenario_jobs: Sequence[tuple[SimulatedScenario, int]], processes: int) -> Iterator[ScenarioOutcome]:
    """Yield outcomes in the order of the jobs, computed by several processes. Print progress to stderr."""
    started = time.monotonic()
    with ProcessPoolExecutor(processes) as process_pool:
        for done_count, outcome in enumerate(process_pool.map(run_job, scenario_jobs, chunksize=1), 1):
            yield outcome
            if sys.stderr.isatty() or done_count % 50 == 0 or done_count == len(scenario_jobs):
                elapsed_seconds = time.monotonic() - started
                print(
                    f"{done_count}/{len(scenario_jobs)} runs, repetitions too, {elapsed_seconds:.0f} s, last "
                    f"{outcome.scenario}",
                    file=sys.stderr,
                )


def run_job(scenario_job: tuple[SimulatedScenario, int]) -> ScenarioOutcome:
    """Return the outcome of one run, in a worker process."""
    return run(*scenario_job)


def check_repeats(outcomes: Iterable[ScenarioOutcome], repeated_outcomes: Iterable[ScenarioOutcome]) -> list[str]:
    """Return a failure for each run with a different repetition."""
    traces_by_run = {(outcome.scenario, outcome.seed): outcome.trace for outcome in outcomes}
    return [
        f"{repeated_outcome.scenario} seed {repeated_outcome.seed} did not repeat"
        for repeated_outcome in repeated_outcomes
        if traces_by_run.get((repeated_outcome.scenario, repeated_outcome.seed)) != repeated_outcome.trace
    ]


def write_report(path: Path, report: dict[str, object]) -> None:
    """Write the figures as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
