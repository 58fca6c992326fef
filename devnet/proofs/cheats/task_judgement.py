"""Cheats about training tasks: the scenes, and their required outcomes, judged from the final chain.

The requirements in each scene:

* The slots end as the scene says.
* Only cheats lose money, and exactly the money table's sums.
* Every account has the balance that tasks, judges and fees leave.
* The chain refused the forbidden calls.
* A cheat ends with less than before, or less than honest work would pay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum, auto
from pathlib import Path

from devnet.proofs.cheats.task_strangers import PROVER, Attempt
from devnet.proofs.cheats.units import Check, Finding
from devnet.stage.actors.purchase import name_of_account
from devnet.stage.actors.task_sale import EXAMPLES, People
from devnet.stage.cheating.races import ACCEPTED
from devnet.stage.measuring.ledger import EventTrace
from devnet.stage.measuring.task_ledger import TaskLedger, TaskSums
from devnet.stage.network import CHEAT
from genesis import dev_accounts
from gpu_tasks.market.courts.opinions import Answered
from gpu_tasks.market.training.events import FraudProven, MilestoneReported, SlotSettled, TaskJudged
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.showing import refuted
from gpu_tasks.market.training.tasks import JudgedFor
from runtime.cryptography.hashing import blake2_256

TEXT = "verses.txt"
FILE = """\
apiVersion: ogpu/v1
kind: TrainingTask
metadata: {{name: {name}}}
spec:
  run:
    input: {text}
    length: {steps}
    options: {{segment: {segment}}}
    milestones: {milestones}
    seed: "0x{seed}"
  market: {{maxPrice: 1 oGPU}}
  limits: {{deadline: {blocks} blocks}}
"""


@dataclass(frozen=True, slots=True)
class TaskSize:
    """The size of a task, and its parts."""

    steps: int = 40
    segment: int = 10
    milestones: int = 2
    blocks: int = 40
    """The deadline in blocks. It also bounds the judges' wait for states."""


def write(folder: Path, name: str, size: TaskSize) -> Path:
    """Write a task file with its input beside it, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TEXT).write_bytes((EXAMPLES / TEXT).read_bytes())
    path, seed = folder / f"{name}.yaml", blake2_256(name.encode()).hex()
    path.write_text(FILE.format(name=name, text=TEXT, seed=seed, **asdict(size)), encoding="utf-8")
    return path


class TaskCustomer(Enum):
    """The customer's behaviour with its task."""

    ACCEPTS = auto()
    """It signs each checkpoint, and accepts the result if it could fetch and check it."""
    DISPUTES = auto()
    """It signs each checkpoint, and disputes the result."""
    COMPUTES = auto()
    """It signs each checkpoint, computes the run itself, and disputes the wrong segment."""
    SILENT = auto()
    """It submits, and then signs nothing."""
    LEAVES_IT = auto()
    """It signs each checkpoint, and leaves the result to others."""


class Stranger(Enum):
    """An attack by transactions alone."""

    NOBODY = auto()
    COPIES_BID = auto()
    NEVER_OPENS = auto()
    PROVES = auto()
    """No cheat: an observer computes the run, and shows its first wrong step (`ogpu-provider prove`)."""
    STEALS_PROOF = auto()


@dataclass(frozen=True, slots=True)
class CheatScene:
    """A task and its cheats."""

    name: str
    title: str
    slots: tuple[tuple[str, TaskOutcome], ...]
    """The provider of each awarded slot and the slot's outcome, in the order of the blocks."""
    mode: str = "honest"
    """The mode of the cheating provider."""
    bidders: tuple[str, ...] = ()
    """The honest bidders."""
    customer: TaskCustomer = TaskCustomer.ACCEPTS
    stranger: Stranger = Stranger.NOBODY
    lazy_judge: str = ""
    cheats: tuple[str, ...] = ("Eve",)
    """The names that may lose money."""
    taken: tuple[str, ...] = ()
    """The reasons of the cheats' losses, in the order of the blocks."""
    size: TaskSize = field(default_factory=TaskSize)

    is_refused: bool = False
    """True if the scene sends a call that the chain must refuse."""

    @property
    def cheat_bids(self) -> bool:
        """True if the cheat bids for the task."""
        return self.mode != "honest"


SCENES = (
    CheatScene(
        "bit-in-one-weight",
        "One bit in one weight of one training step; the customer computes the run, and disputes that segment",
        (("Eve", TaskOutcome.LIED),),
        mode="bit-in-one-weight",
        customer=TaskCustomer.COMPUTES,
        taken=("LIED",),
        size=TaskSize(steps=600),
    ),
    CheatScene(
        "skipped-tenth",
        "A tenth of the steps is skipped; somebody computes the run, and proves it",
        (("Eve", TaskOutcome.LIED),),
        mode="skipped-tenth",
        customer=TaskCustomer.LEAVES_IT,
        stranger=Stranger.PROVES,
        taken=("LIED", "a fraud proof"),
        size=TaskSize(steps=100),
    ),
    CheatScene(
        "replayed-milestone",
        "A milestone is stated again, and again under the next number",
        (("Eve", TaskOutcome.DIED), ("Alice", TaskOutcome.ON_TIME)),
        mode="replayed-milestone",
        bidders=("Alice",),
        taken=("DIED",),
        size=TaskSize(steps=60, milestones=3, blocks=60),
        is_refused=True,
    ),
    CheatScene(
        "copied-bid",
        "A rival's sealed bid is copied, and opened with what the rival opens",
        (("Alice", TaskOutcome.ON_TIME),),
        bidders=("Alice",),
        stranger=Stranger.COPIES_BID,
        taken=("NOT_REVEALED",),
        is_refused=True,
    ),
    CheatScene(
        "unrevealed-bid",
        "A bid is committed to and never opened",
        (("Alice", TaskOutcome.ON_TIME),),
        bidders=("Alice",),
        stranger=Stranger.NEVER_OPENS,
        taken=("NOT_REVEALED",),
    ),
    CheatScene(
        "stolen-proof",
        "A fraud proof is stolen out of the pool, by who pays to be first in the block",
        (("Eve", TaskOutcome.LIED),),
        mode="skipped-tenth",
        customer=TaskCustomer.LEAVES_IT,
        stranger=Stranger.STEALS_PROOF,
        cheats=("Charlie", "Dave", "Eve"),
        taken=("LIED", "a fraud proof"),
        size=TaskSize(steps=100),
        is_refused=True,
    ),
    CheatScene(
        "lazy-judge",
        "A judge seconds a lie without a look at it",
        (("Eve", TaskOutcome.LIED),),
        mode="bit-in-one-weight",
        customer=TaskCustomer.DISPUTES,
        lazy_judge="Charlie",
        cheats=("Charlie", "Eve"),
        taken=("LIED",),
    ),
    CheatScene(
        "false-dispute",
        "A customer disputes a right result",
        (("Alice", TaskOutcome.DISPUTED_FALSELY),),
        bidders=("Alice", "Bob"),
        customer=TaskCustomer.DISPUTES,
        cheats=("Ferdie",),
    ),
    CheatScene(
        "silent-customer",
        "A customer signs nothing any more",
        (("Alice", TaskOutcome.ACCEPTED_BY_SILENCE),),
        bidders=("Alice",),
        customer=TaskCustomer.SILENT,
        cheats=("Ferdie",),
    ),
    CheatScene(
        "withheld-checkpoint",
        "Checkpoints, result and states are shown to nobody; the customer disputes",
        (("Eve", TaskOutcome.LIED),),
        mode="withheld-checkpoint",
        customer=TaskCustomer.DISPUTES,
        taken=("LIED",),
        size=TaskSize(steps=200),
    ),
)


JUDGES = "its judges"
"""The ledger's reason for the payment of a judge that computed."""
LIED = ("LIED", "a fraud proof")
NAMES = ("Alice", "Bob", "Charlie", "Dave", "Eve", "Ferdie", "Node7")


def judge(scene: CheatScene, task_id: bytes, ledger: TaskLedger, people: People, attempts: list[Attempt]) -> Finding:
    """Judge one scene after its task has ended."""
    trace, sums = ledger.tasks.get(task_id, EventTrace()), ledger.sums.get(task_id, TaskSums())
    unit = "0x" + task_id.hex()
    finding = Finding(scene.name, units=0, tasks=1)
    finding.checks = [Check(loss.what, unit, loss.height, loss.taken, loss.expected) for loss in sums.losses]
    finding.drawn = sum(event.provider == dev_accounts.stash(CHEAT) for _, event in trace.all(SlotSettled))
    finding.slashed = sum(loss.what == "LIED" for loss in sums.losses)
    finding.fined = sum(loss.what not in LIED for loss in sums.losses)
    finding.grains = people.gains
    finding.gained = sum(finding.grains[name] for name in scene.cheats)
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
    """Return failures of the requirements on honest parties, which hold for every course of a scene."""
    sums = ledger.sums.get(task_id, TaskSums())
    return [*_of_losses(scene, sums), *people.wrong(ledger), *_of_judges(scene, ledger, task_id)]


def is_forestalled(trace: EventTrace) -> bool:
    """Return whether the beacon itself ordered an audit, which prevents the scene's attack."""
    return any(event.why is JudgedFor.AUDIT for _, event in trace.all(TaskJudged))


def _count_attempts(finding: Finding, attempts: list[Attempt], trace: EventTrace) -> None:
    """Count the attempts. An attestation in the pool is refused if no author could include it in a block."""
    stated = [event.milestone for _, event in trace.all(MilestoneReported)]
    twice = len(stated) - len(set(stated))
    for attempt in attempts:
        answer = f"{attempt['what']}: {attempt['answer']}"
        finding.answers[answer] = finding.answers.get(answer, 0) + 1
    calls = [attempt for attempt in attempts if attempt["what"] not in ("attestation", "blob")]
    stating = sum(attempt["what"] == "attestation" for attempt in attempts)
    finding.tried = len(calls) + stating
    finding.refused = sum(attempt["answer"] != ACCEPTED for attempt in calls) + stating - min(stating, twice)


def _of_course(scene: CheatScene, trace: EventTrace, sums: TaskSums) -> Iterator[str]:
    found = [(name_of_account(event.provider), event.outcome) for _, event in trace.all(SlotSettled)]
    if found != list(scene.slots):
        said = [f"{name} {outcome.name}" for name, outcome in found]
        yield (
            f"its slots ended as {said}, and {[f'{name} {deadline.name}' for name, deadline in scene.slots]} was "
            "to come"
        )
    taken = tuple(loss.what for loss in sums.losses if loss.taken)
    if taken != scene.taken:
        yield f"what was taken is {taken}, and {scene.taken} was to be"


def _of_losses(scene: CheatScene, sums: TaskSums) -> Iterator[str]:
    yield from sums.wrong
    for loss in sums.losses:
        name = name_of_account(loss.account)
        if name not in scene.cheats:
            yield f"block {loss.height}: {name} is honest and lost {loss.taken} grains: {loss.what}"
        if loss.taken != loss.expected:
            yield f"{loss.what}: {loss.taken} taken, {loss.expected} expected"


def _of_attempts(scene: CheatScene, finding: Finding, trace: EventTrace) -> Iterator[str]:
    if finding.refused != finding.tried - _harmless(finding):
        yield f"{finding.refused} of {finding.tried} attempts were refused: {finding.answers}"
    if not finding.tried and scene.is_refused:
        yield "nothing was tried: nothing was tested"
    if scene.stranger in (Stranger.PROVES, Stranger.STEALS_PROOF):
        proven = [name_of_account(event.challenger) for _, event in trace.all(FraudProven)]
        if proven != [PROVER]:
            yield f"{proven} were paid for the fraud proof of {PROVER}"


def _harmless(finding: Finding) -> int:
    """Return the accepted claims.

    The chain accepts a bonded claim of any account: it proves nothing, and the bond returns.
    """
    return sum(
        count for answer, count in finding.answers.items() if answer == f"TrainingMarket.claim_fraud: {ACCEPTED}"
    )


def _of_judges(scene: CheatScene, ledger: TaskLedger, task_id: bytes) -> Iterator[str]:
    """Yield failures of judges: honest ones must answer and agree, and a lazy one must be outvoted."""
    cases = [slot for slot in ledger.audits.slots.values() if slot.task == task_id]
    for case in cases:
        silent = {name_of_account(judge) for judge in case.judges if judge not in case.said} - set(scene.cheats)
        if silent:
            yield f"the judges {sorted(silent)} said nothing"
        wrong = Answered(case.root if case.lost else refuted(case.root))
        what = "a lie right" if case.lost else "a right result wrong"
        erring = {name_of_account(judge) for judge, said in case.said.items() if said == wrong} - {scene.lazy_judge}
        if erring:
            yield f"the judges {sorted(erring)} found {what}"


def _of_the_lazy(scene: CheatScene, ledger: TaskLedger, task_id: bytes) -> Iterator[str]:
    cases = [slot for slot in ledger.audits.slots.values() if slot.task == task_id]
    if scene.lazy_judge and dev_accounts.stash(scene.lazy_judge) not in {name for case in cases for name in case.said}:
        yield f"{scene.lazy_judge} sat in no case: nothing was tested"


def _of_the_cheat(scene: CheatScene, sums: TaskSums) -> Iterator[str]:
    """Yield a failure for each cheat that gained by the task. A cheat's pay as a judge counts only for the lazy judge.

    A provider that died keeps the pay for milestones that the customer has signed, because it computed them.
    """
    ends: Mapping[str, TaskOutcome] = dict(scene.slots)
    for name in scene.cheats:
        stash, judged = dev_accounts.stash(name), name != scene.lazy_judge
        gained = sum(
            move.grains for move in sums.moves if move.account == stash and not (judged and move.why == JUDGES)
        )
        if gained > 0 and ends.get(name) is not TaskOutcome.DIED:
            yield f"{name} gained {gained} grains of the task"
