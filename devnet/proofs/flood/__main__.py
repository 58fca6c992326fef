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

LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class FloodStage:
    """A course that runs in a thread of its own, which starts the processes that attacks need."""

    course: Course
    going: Future[None]
    token: trio.lowlevel.TrioToken

    def try_out(self, attack: Attack) -> BarResult:
        """Run an attack, and judge it. Raise the course's exception if the course has ended."""
        try:
            return trio.from_thread.run(self.course.judged, attack, trio_token=self.token)
        except trio.RunFinishedError:
            self.going.result()
            raise


@contextmanager
def watched_nodes(proof_run: ProofRun) -> Iterator[FloodStage]:
    """Run a fresh devnet. Measure it in a quiet stretch and from then on."""
    proof_run.narrator.step(f"Network: {network.VALIDATORS} validators, and a quiet stretch")
    devnet = network.fresh(proof_run.folder)
    try:
        network.start(devnet)
        course = Course(devnet, proof_run.options.seconds, proof_run.narrator, proof_run.options.hog)
        ready = queue.Queue[trio.lowlevel.TrioToken]()
        with ThreadPoolExecutor(1) as thread:
            going = thread.submit(trio.run, course.live, ready.put)
            token = _ready(ready, going)
            try:
                yield FloodStage(course, going, token)
            finally:
                if not going.done():
                    trio.from_thread.run_sync(course.scope.cancel, trio_token=token)
                going.result()
    finally:
        processes.stop(*lifecycle.all_processes(devnet))


def _ready(ready: queue.Queue[trio.lowlevel.TrioToken], going: Future[None]) -> trio.lowlevel.TrioToken:
    """Wait for the end of the quiet stretch. Raise the course's exception if the course has ended."""
    while not going.done():
        try:
            return ready.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            continue
    going.result()
    raise AssertionError("a course goes on until it is cancelled")


def figures(facts_by_scenario: Mapping[str, BarResult]) -> str:
    """Return the line of figures."""
    found = list(facts_by_scenario.values())
    intervals, rpc = (
        [each.p99_ms or 0 for each in seen]
        for seen in ([each.intervals for each in found], [each.doors["rpc"] for each in found])
    )
    breakers = [each for each in found if each.rule]
    again = [each.attack for each in found if each.earlier_misses]
    missed = [each.attack for each in found if each.misses]
    return (
        f"{len(found)} attacks, {len(found) - len(missed)} hold; worst interval p99 {max(intervals, default=0)} ms, "
        f"worst honest RPC p99 {max(rpc, default=0)} ms, {sum(each.last_cut is not None for each in breakers)} of "
        f"{len(breakers)} rule breakers cut off"
        + (f"; tried again, as the disk had stood still: {', '.join(again)}" if again else "")
        + (f"; missed: {', '.join(missed)}" if missed else "")
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
