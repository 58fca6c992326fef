"""Rulings about gangs at their worst: different results, a missing input, and a false item of one claim."""

from dataclasses import dataclass, replace

from benchmarks.weights.claim_cases import checked, claim_of, until
from benchmarks.weights.findings import line
from benchmarks.weights.races import ROUNDS
from benchmarks.weights.task_hook import HOOK as TASKS_HOOK
from benchmarks.weights.task_road import ROOT, Tasks
from benchmarks.weights.voter_cases import HOOK, VoterCalls, right_vote
from gpu_tasks.market.claims.claim_closing import dispute_id_of as claim_dispute
from gpu_tasks.market.claims.claims import ClaimStage
from gpu_tasks.market.claims.disputes import SEATS
from gpu_tasks.market.claims.findings import ItemVote, Verdict
from gpu_tasks.market.training.tasks import dispute_id_of, slot_case
from gpu_tasks.market.training.terms import SLOTS_MAX
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.traces.trace import SEGMENTS_MAX
from simulation.chains.market_chain import signed

SIZES = (2, SLOTS_MAX)


@dataclass
class GangCalls(VoterCalls):
    """Disputes about gangs whose slots have different owners, and the steps of their tasks after the rulings."""

    tasks: Tasks

    def measure(self) -> None:
        """Measure all rulings. A row covers the costliest one."""
        sides = {slots: self._sides(slots) for slots in SIZES}
        missing = {slots: self._missing_input(slots) for slots in SIZES}
        rulings = [ruling for found in (sides, missing) for ruling, _ in found.values()]
        rows, each = self.found.rows, self.found.rows[f"{HOOK} voter"] + self.found.rows[f"{HOOK} look"]
        real = max(*rulings, self._of_claim()) - SEATS * each - rows[f"{HOOK} step"]
        rows[f"{HOOK} ruling"] = max(real, rows[f"{HOOK} ruling"])
        for found in (sides, missing):
            steps = line("step", "slot", {slots: step for slots, (_, step) in found.items()})
            for part, row in (("step", "step"), ("slot", "step slot")):
                name = f"{TASKS_HOOK} {part}"
                rows[name] = max(steps[row], rows.get(name, 0.0))

    def _sides(self, slots: int) -> tuple[float, float]:
        """Return the costs of a ruling that convicts all slots but one, and of the step after it."""
        tasks = self.tasks
        task_id = tasks.running(slots, bidders=tasks.owners(slots))
        tasks.each(task_id, lambda place: tasks.finish(task_id, place, bytes([place]) * 32 if place else ROOT))
        return self._ruled(f"{slots - 1} liars of a gang", task_id, replace(right_vote(), answer=ROOT))

    def _missing_input(self, slots: int) -> tuple[float, float]:
        """Return the costs of a ruling about a missing input, and of the step that ends its task."""
        tasks = self.tasks
        task_id = tasks.awarded(slots, bidders=tasks.owners(slots))
        report = TrainingMarket.report_input(task=task_id, place=slots - 1)
        self.world.block(signed(tasks.owner(task_id, slots - 1).provider, report))
        vote = replace(right_vote(), verdict=Verdict.WRONG, answer=task_id)
        return self._ruled(f"a missing input of {slots} slots", task_id, vote)

    def _ruled(self, name: str, task_id: bytes, vote: ItemVote) -> tuple[float, float]:
        """Have nine voters decide. Return the costs of the ruling, and of the task's step in the next block."""
        world, tasks = self.world, self.tasks
        ruling = self._decided(name, dispute_id_of(task_id, 0), vote)
        world.block()
        step, _ = self.found.hooks(f"{name}, the step of the task", rounds=ROUNDS)["TrainingMarket"]
        tasks.clear(task_id)
        self.races.wake_devices()
        return ruling, step - self.found.rows[TASKS_HOOK]

    def _of_claim(self) -> float:
        """Return the cost of a ruling that convicts one provider of a gang after ten checks."""
        world, tasks = self.world, self.tasks
        task_id = tasks.stated(SLOTS_MAX, SEGMENTS_MAX)
        claim_id = slot_case(task_id, SLOTS_MAX - 1)
        tasks.claim(task_id, but=SLOTS_MAX - 1)
        until(world, claim_id, ClaimStage.COMMITTING)
        world.block(checked(self, claim_id, Verdict.WRONG))
        while not (claim := claim_of(world, claim_id)).disputes:
            world.block()
        vote = replace(right_vote(), verdict=Verdict.WRONG)
        ruling = self._decided("a false item of a gang", claim_dispute(claim_id, claim.disputes - 1), vote)
        tasks.clear(task_id)
        self.races.wake_devices()
        return ruling

    def _decided(self, name: str, dispute_id: bytes, vote: ItemVote) -> float:
        """Have nine voters vote, and measure the end of their dispute. The next block ends it."""
        self._drawn(f"{name}, voters drawn", dispute_id)
        self._vote(dispute_id, vote)
        return self._ended(name, dispute_id)
