"""`python -m devnet.proofs.flood --seconds 30`: one stranger at a time floods a live devnet; exit 1 on a failure.

The requirements, each relative to a quiet stretch of the same run: the interval between final blocks, the latency of an
honest client, and memory that is freed again. A node must also disconnect a rule breaker in time, bound its logs, and
never end.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import trio

from devnet.launcher import lifecycle, processes
from devnet.proofs.flood import network
from devnet.proofs.flood.attack import Attack
from devnet.proofs.flood.attacker import ATTACKS
from devnet.proofs.flood.course import Course
from devnet.proofs.flood.judging import BarResult
from devnet.stage.scenario import LiveProof, ProofOption, ProofRun, Scenario, run

READY_POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class FloodStage:
    """A course that runs in a thread of its own, which starts the processes that attacks need."""

    course: Course
    course_run: Future[None]
    trio_token: trio.lowlevel.TrioToken

    def try_out(self, attack: Attack) -> BarResult:
        """Run an attack, and judge it. Raise the course's exception if the course has ended."""
        try:
            return trio.from_thread.run(self.course.judged, attack, trio_token=self.trio_token)
        except trio.RunFinishedError:
            self.course_run.result()
            raise


@contextmanager
def watched_nodes(proof_run: ProofRun) -> Iterator[FloodStage]:
    """Run a fresh devnet. Measure it in a quiet stretch and from then on."""
    proof_run.narrator.step(f"Network: {network.VALIDATOR_COUNT} validators, and a quiet stretch")
    devnet = network.lay_out(proof_run.folder)
    try:
        network.start_nodes(devnet)
        course = Course(devnet, proof_run.options.seconds, proof_run.narrator, proof_run.options.hog)
        token_queue = queue.Queue[trio.lowlevel.TrioToken]()
        # The course needs trio's loop, and scenarios are plain functions: a thread joins both.
        with ThreadPoolExecutor(1) as course_thread:
            run = course_thread.submit(trio.run, course.live, token_queue.put)
            trio_token = _token_when_ready(token_queue, run)
            try:
                yield FloodStage(course, run, trio_token)
            finally:
                if not run.done():
                    trio.from_thread.run_sync(course.cancel_scope.cancel, trio_token=trio_token)
                run.result()
    finally:
        processes.stop(*lifecycle.all_processes(devnet))


def _token_when_ready(token_queue: queue.Queue[trio.lowlevel.TrioToken], run: Future[None]) -> trio.lowlevel.TrioToken:
    """Wait for the end of the quiet stretch. Raise the course's exception if the course has ended."""
    while not run.done():
        try:
            return token_queue.get(timeout=READY_POLL_SECONDS)
        except queue.Empty:
            continue
    run.result()
    raise AssertionError("a course goes on until it is cancelled")


def figures(facts_by_scenario: Mapping[str, BarResult]) -> str:
    """Return the last line of the output, with the figures of all attacks."""
    bar_results = list(facts_by_scenario.values())
    intervals, rpc_latencies = (
        [result.p99_ms or 0 for result in figures_by_attack]
        for figures_by_attack in (
            [result.intervals for result in bar_results],
            [result.doors["rpc"] for result in bar_results],
        )
    )
    rule_breakers = [result for result in bar_results if result.rule]
    repeated_attacks = [result.attack for result in bar_results if result.earlier_misses]
    missed_attacks = [result.attack for result in bar_results if result.misses]
    return (
        f"{len(bar_results)} attacks, {len(bar_results) - len(missed_attacks)} hold; worst interval p99 "
        f"{max(intervals, default=0)} ms, worst honest RPC p99 {max(rpc_latencies, default=0)} ms, "
        f"{sum(result.last_cut is not None for result in rule_breakers)} of {len(rule_breakers)} rule breakers cut off"
        + (f"; tried again, as the disk had stood still: {', '.join(repeated_attacks)}" if repeated_attacks else "")
        + (f"; missed: {', '.join(missed_attacks)}" if missed_attacks else "")
    )


PROOF = LiveProof(
    "flood",
    "Flood a live devnet, one way after the other.",
    [
        Scenario(
            name, f"{name} ({attack.finding}): {attack.tries}", watched_nodes,
            partial(lambda attack, stage: stage.try_out(attack), attack), lambda finding: finding.misses,
        )
        for name, attack in ATTACKS.items()
    ],
    figures,
    [
        ProofOption("--seconds", 30.0, "of each attack"),
        ProofOption("--hog", False, "keep every processor busy beside each attack"),
    ],
)  # fmt: skip

if __name__ == "__main__":
    run(PROOF)
