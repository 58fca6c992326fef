"""What must have become of a cheat about a task, and of everybody else: judged from the final chain.

The bars, in each scene: the slots ended as the scene says; what was taken of anybody was taken of a cheat, and is what
the money table says, to the grain; everybody has what tasks, judges and fees leave; what was tried was refused; a cheat
has less in the end than before, or than it would have by honest work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from devnet.demo.stage import CHEAT
from devnet.measuring.task_ledger import TaskLedger, TaskSums, TaskTrace
from devnet.proofs.auction.judging import People
from devnet.proofs.cheat_judgement import Check, Finding
from devnet.proofs.cheating.attempts import ACCEPTED
from devnet.proofs.task_cheats.scenes import CheatScene, Stranger
from devnet.proofs.task_cheats.strangers import PROVER, Attempt
from genesis import dev_accounts
from gpu_tasks.market.courts.opinions import Answered
from gpu_tasks.market.training.events import FraudProven, MilestoneReported, SlotSettled, TaskJudged
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.showing import refuted
from gpu_tasks.market.training.tasks import JudgedFor
from runtime.cryptography.ss58 import encode as ss58

JUDGES = "its judges"
"""What a judge that looked is paid, as the ledger calls it."""
LIED = ("LIED", "a fraud proof")
NAMES = ("Alice", "Bob", "Charlie", "Dave", "Eve", "Ferdie", "Node7")


def judge(scene: CheatScene, task_id: bytes, ledger: TaskLedger, people: People, attempts: list[Attempt]) -> Finding:
    """One scene, when its task has ended."""
    trace, sums = ledger.tasks.get(task_id, TaskTrace()), ledger.sums.get(task_id, TaskSums())
    unit = "0x" + task_id.hex()
    finding = Finding(scene.name, units=0, tasks=1, cheats=scene.cheats)
    finding.checks = [Check(loss.what, unit, loss.height, loss.taken, loss.expected) for loss in sums.losses]
    finding.drawn = sum(event.provider == dev_accounts.stash(CHEAT) for _, event in trace.all(SlotSettled))
    finding.slashed = sum(loss.what == "LIED" for loss in sums.losses)
    finding.fined = sum(loss.what not in LIED for loss in sums.losses)
    finding.grains = {name: people.after[name] - people.before[name] for name in people.accounts}
    _count_attempts(finding, attempts, trace)
    finding.failures = [
        *_of_course(scene, trace, sums),
        *of_the_honest(scene, task_id, ledger, people),
        *_of_attempts(scene, finding, trace),
        *_of_the_lazy(scene, ledger, task_id),
        *_of_the_cheat(scene, sums),
    ]
    return finding


def of_the_honest(scene: CheatScene, task_id: bytes, ledger: TaskLedger, people: People) -> list[str]:
    """Bars that hold whatever course a scene takes: everybody has what the tables say, and who is honest all of it."""
    sums = ledger.sums.get(task_id, TaskSums())
    return [*_of_losses(scene, sums), *people.wrong(ledger), *_of_judges(scene, ledger, task_id)]


def is_forestalled(trace: TaskTrace) -> bool:
    """Whether the beacon asked for an audit by itself, so that nobody could do what a scene wants."""
    return any(event.why is JudgedFor.AUDIT for _, event in trace.all(TaskJudged))


def _count_attempts(finding: Finding, attempts: list[Attempt], trace: TaskTrace) -> None:
    """An attestation that the pool took is refused where no author could put it into a block."""
    stated = [event.milestone for _, event in trace.all(MilestoneReported)]
    twice = len(stated) - len(set(stated))
    for attempt in attempts:
        answer = f"{attempt['what']}: {attempt['answer']}"
        finding.answers[answer] = finding.answers.get(answer, 0) + 1
    calls = [attempt for attempt in attempts if attempt["what"] not in ("attestation", "blob")]
    stating = sum(attempt["what"] == "attestation" for attempt in attempts)
    finding.tried = len(calls) + stating
    finding.refused = sum(attempt["answer"] != ACCEPTED for attempt in calls) + stating - min(stating, twice)


def _of_course(scene: CheatScene, trace: TaskTrace, sums: TaskSums) -> Iterator[str]:
    found = [(_name(event.provider), event.outcome) for _, event in trace.all(SlotSettled)]
    if found != list(scene.slots):
        said = [f"{name} {outcome.name}" for name, outcome in found]
        yield f"its slots ended as {said}, and {[f'{name} {end.name}' for name, end in scene.slots]} was to come"
    taken = tuple(loss.what for loss in sums.losses if loss.taken)
    if taken != scene.taken:
        yield f"what was taken is {taken}, and {scene.taken} was to be"


def _of_losses(scene: CheatScene, sums: TaskSums) -> Iterator[str]:
    yield from sums.wrong
    for loss in sums.losses:
        name = _name(loss.account)
        if name not in scene.cheats:
            yield f"block {loss.height}: {name} is honest and lost {loss.taken} grains: {loss.what}"
        if loss.taken != loss.expected:
            yield f"{loss.what}: {loss.taken} taken, {loss.expected} expected"


def _of_attempts(scene: CheatScene, finding: Finding, trace: TaskTrace) -> Iterator[str]:
    if finding.refused != finding.tried - _harmless(finding):
        yield f"{finding.refused} of {finding.tried} attempts were refused: {finding.answers}"
    if not finding.tried and scene.is_refused:
        yield "nothing was tried: nothing was tested"
    if scene.stranger in (Stranger.PROVES, Stranger.STEALS_PROOF):
        proven = [_name(event.challenger) for _, event in trace.all(FraudProven)]
        if proven != [PROVER]:
            yield f"{proven} were paid for the fraud proof of {PROVER}"


def _harmless(finding: Finding) -> int:
    """Claims are taken of anybody who locks their bond; they prove nothing, and give it back."""
    return sum(
        count for answer, count in finding.answers.items() if answer == f"TrainingMarket.claim_fraud: {ACCEPTED}"
    )


def _of_judges(scene: CheatScene, ledger: TaskLedger, task_id: bytes) -> Iterator[str]:
    """Who judges honestly is heard and never charged; who does not look is outvoted."""
    cases = [slot for slot in ledger.audits.slots.values() if slot.task == task_id]
    for case in cases:
        silent = {_name(judge) for judge in case.judges if judge not in case.said} - set(scene.cheats)
        if silent:
            yield f"the judges {sorted(silent)} said nothing"
        wrong = Answered(case.root if case.lost else refuted(case.root))
        what = "a lie right" if case.lost else "a right result wrong"
        erring = {_name(judge) for judge, said in case.said.items() if said == wrong} - {scene.lazy_judge}
        if erring:
            yield f"the judges {sorted(erring)} found {what}"


def _of_the_lazy(scene: CheatScene, ledger: TaskLedger, task_id: bytes) -> Iterator[str]:
    cases = [slot for slot in ledger.audits.slots.values() if slot.task == task_id]
    if scene.lazy_judge and dev_accounts.stash(scene.lazy_judge) not in {name for case in cases for name in case.said}:
        yield f"{scene.lazy_judge} sat in no case: nothing was tested"


def _of_the_cheat(scene: CheatScene, sums: TaskSums) -> Iterator[str]:
    """Nobody gains by cheating: neither of the task, nor as the judge that it was not.

    Who died is paid for milestones that the customer has signed for, and those it has computed.
    """
    ends: Mapping[str, TaskOutcome] = dict(scene.slots)
    for name in scene.cheats:
        stash, judged = dev_accounts.stash(name), name != scene.lazy_judge
        gained = sum(
            move.grains for move in sums.moves if move.account == stash and not (judged and move.why == JUDGES)
        )
        if gained > 0 and ends.get(name) is not TaskOutcome.DIED:
            yield f"{name} gained {gained} grains of the task"


def _name(stash: bytes) -> str:
    return next((name for name in NAMES if dev_accounts.stash(name) == stash), ss58(stash))
