"""Cheats about training tasks: the scenes, and their required outcomes, judged from the final chain.

The requirements in each scene:

* The slots end as the scene says.
* Only cheats lose money, and exactly the money tables' sums.
* Every account has the balance that tasks, claims, disputes and fees leave.
* The chain refused the forbidden calls.
* A cheat ends with less than before, or less than honest work would pay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum, auto
from pathlib import Path

from devnet.proofs.cheats.findings import AmountCheck, CheatFinding
from devnet.proofs.cheats.task_strangers import Attempt
from devnet.stage.actors.purchase import name_of_account
from devnet.stage.actors.task_sale import EXAMPLES, People
from devnet.stage.cheating.__main__ import FALSE_TASK_MODES
from devnet.stage.cheating.races import ACCEPTED_ANSWER
from devnet.stage.measuring.ledger import EventTrace
from devnet.stage.measuring.task_claims import TaskCheats
from devnet.stage.measuring.task_ledger import CHECK_PAY, TaskLedger, TaskSums
from devnet.stage.network import CHEAT
from genesis import dev_accounts
from gpu_tasks.market.claims.claims import CHECKER_BOND, DISPUTE_BOND, CheckEnd
from gpu_tasks.market.training.events import MilestoneReported, SlotSettled
from gpu_tasks.market.training.money import TaskOutcome
from runtime.cryptography.hashing import blake2_256

INPUT_NAME = "verses.txt"
FILE_TEMPLATE = """\
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
  resources: {{devices: {devices}}}
  market: {{maxPrice: 1 oGPU}}
  limits: {{deadline: {blocks} blocks}}
"""


@dataclass(frozen=True, slots=True)
class TaskSize:
    """The size of a task, and its parts."""

    steps: int = 40
    segment: int = 10
    milestones: int = 2
    blocks: int = 20
    """The deadline in blocks. A step of a claim takes up to three times as long."""
    devices: int = 1


def write_task_file(orders_folder: Path, name: str, task_size: TaskSize) -> Path:
    """Write a task file with its input beside it, and return its path."""
    orders_folder.mkdir(parents=True, exist_ok=True)
    (orders_folder / INPUT_NAME).write_bytes((EXAMPLES / INPUT_NAME).read_bytes())
    file, seed_hex = orders_folder / f"{name}.yaml", blake2_256(name.encode()).hex()
    file.write_text(
        FILE_TEMPLATE.format(name=name, text=INPUT_NAME, seed=seed_hex, **asdict(task_size)), encoding="utf-8"
    )
    return file


class TaskCustomer(Enum):
    """The customer's behaviour with its task. It signs each checkpoint."""

    READS = auto()
    """It fetches the result, and leaves its checks to others."""
    DISPUTES = auto()
    """It disputes an item of the result without a computation."""
    COMPUTES = auto()
    """It computes the run itself, and disputes the wrong segment."""


class Stranger(Enum):
    """An attack by transactions alone."""

    NOBODY = auto()
    COPIES_BID = auto()
    NEVER_OPENS = auto()


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
    customer: TaskCustomer = TaskCustomer.READS
    stranger: Stranger = Stranger.NOBODY
    checkers: Mapping[str, str] = field(default_factory=dict)
    """The modes of checkers that cheat, by name."""
    cheats: tuple[str, ...] = (CHEAT,)
    """The names that may lose money."""
    taken: tuple[str, ...] = ()
    """The reasons of the cheats' losses, in the order of the blocks, each once."""
    size: TaskSize = field(default_factory=TaskSize)

    is_refused: bool = False
    """True if the scene sends a call that the chain must refuse."""

    @property
    def cheat_bids(self) -> bool:
        """True if the cheat bids for the task."""
        return self.mode != "honest"

    @property
    def truth(self) -> TaskCheats:
        """The truth about results, for the ledger."""
        return TaskCheats(frozenset({dev_accounts.stash(CHEAT)} if self.mode in FALSE_TASK_MODES else ()))


CHECKERS = ("Bob", "Charlie", "Dave", "Node7", "Node8")
"""The validators that check and vote while Alice works."""
CHEAT_SCENES = (
    CheatScene(
        "bit-in-one-weight",
        "One bit in one weight of one training step; the customer computes the run, and disputes that segment",
        ((CHEAT, TaskOutcome.LIED),),
        mode="bit-in-one-weight",
        customer=TaskCustomer.COMPUTES,
        taken=("LIED",),
    ),
    CheatScene(
        "skipped-tenth",
        "The provider skips a tenth of the steps; a drawn checker computes that segment",
        ((CHEAT, TaskOutcome.LIED),),
        mode="skipped-tenth",
        taken=("LIED",),
    ),
    CheatScene(
        "withheld-checkpoint",
        "The provider shows no checkpoints, result and states; neither its checker nor voters can fetch them",
        ((CHEAT, TaskOutcome.LIED),),
        mode="withheld-checkpoint",
        taken=("LIED",),
    ),
    CheatScene(
        "different-results",
        "Two compute the same run, and one result is false; voters compute where they differ",
        ((CHEAT, TaskOutcome.LIED), ("Alice", TaskOutcome.ON_TIME)),
        mode="skipped-tenth",
        bidders=("Alice",),
        taken=("LIED",),
        size=TaskSize(devices=2),
    ),
    CheatScene(
        "false-checkers",
        "Checkers guess: they invent fingerprints, or call a right result wrong",
        (("Alice", TaskOutcome.ON_TIME),),
        bidders=("Alice",),
        checkers=dict(zip(CHECKERS, ("copying-checker", "accusing-checker") * 3, strict=False)),
        cheats=CHECKERS,
        taken=(CHECKER_BOND.name,),
    ),
    CheatScene(
        "false-dispute",
        "A customer disputes a right result",
        (("Alice", TaskOutcome.ON_TIME),),
        bidders=("Alice",),
        customer=TaskCustomer.DISPUTES,
        cheats=("Ferdie",),
        taken=(DISPUTE_BOND.name,),
    ),
    CheatScene(
        "replayed-milestone",
        "A milestone is stated again, and again under the next number",
        ((CHEAT, TaskOutcome.DIED), ("Alice", TaskOutcome.ON_TIME)),
        mode="replayed-milestone",
        bidders=("Alice",),
        taken=("DIED",),
        size=TaskSize(steps=60, milestones=3, blocks=60),
        is_refused=True,
    ),
    CheatScene(
        "copied-bid",
        "A stranger copies a rival's sealed bid, and opens it with the rival's opening",
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
)


def judge_scene(
    scene: CheatScene, task_id: bytes, ledger: TaskLedger, people: People, attempts: list[Attempt]
) -> CheatFinding:
    """Judge one scene after its task has ended."""
    trace, task_sums = ledger.tasks.get(task_id, EventTrace()), ledger.sums.get(task_id, TaskSums())
    text = "0x" + task_id.hex()
    finding = CheatFinding(scene.name, units=0, tasks=1)
    finding.checks = [AmountCheck(loss.what, text, loss.height, loss.taken, loss.expected) for loss in task_sums.losses]
    finding.drawn = sum(event.provider == dev_accounts.stash(CHEAT) for _, event in trace.all(SlotSettled))
    finding.slashed = sum(loss.what == "LIED" for loss in task_sums.losses)
    finding.fined = sum(loss.what != "LIED" for loss in task_sums.losses)
    finding.grains = people.gains
    finding.gained = sum(finding.grains[cheat] for cheat in scene.cheats)
    _count_attempts(finding, attempts, trace)
    finding.failures = [
        *_course_failures(scene, trace, task_sums),
        *honest_failures(scene, task_id, ledger, people),
        *_attempt_failures(scene, finding),
        *_gain_failures(scene, task_sums),
    ]
    return finding


def honest_failures(scene: CheatScene, task_id: bytes, ledger: TaskLedger, people: People) -> list[str]:
    """Return failures of the requirements on honest parties, which hold for every course of a scene."""
    task_sums = ledger.sums.get(task_id, TaskSums())
    return [*_loss_failures(scene, task_sums), *people.wrong(ledger)]


def is_forestalled(scene: CheatScene, task_id: bytes, ledger: TaskLedger) -> bool:
    """Return True if a drawn check refuted the result before its customer could."""
    claims = [claim for claim in ledger.claims.claims.values() if claim.task == task_id]
    is_refuted = any(check.end is CheckEnd.UPHELD for claim in claims for check in claim.checks)
    return scene.customer is TaskCustomer.COMPUTES and is_refuted


def _count_attempts(finding: CheatFinding, attempts: list[Attempt], trace: EventTrace) -> None:
    """Count the attempts. An attestation in the pool is refused if no author could include it in a block."""
    stated_milestones = [event.milestone for _, event in trace.all(MilestoneReported)]
    # A milestone that counts twice was included twice, so the repetition was not refused.
    repeated_count = len(stated_milestones) - len(set(stated_milestones))
    for attempt in attempts:
        answer = f"{attempt['what']}: {attempt['answer']}"
        finding.answers[answer] = finding.answers.get(answer, 0) + 1
    call_attempts = [attempt for attempt in attempts if attempt["what"] not in ("attestation", "blob")]
    attestation_count = sum(attempt["what"] == "attestation" for attempt in attempts)
    finding.tried = len(call_attempts) + attestation_count
    finding.refused = (
        sum(attempt["answer"] != ACCEPTED_ANSWER for attempt in call_attempts)
        + attestation_count
        - min(attestation_count, repeated_count)
    )


def _course_failures(scene: CheatScene, trace: EventTrace, task_sums: TaskSums) -> Iterator[str]:
    ended_slots = [(name_of_account(event.provider), event.outcome) for _, event in trace.all(SlotSettled)]
    if ended_slots != list(scene.slots):
        ended_texts = [f"{name} {outcome.name}" for name, outcome in ended_slots]
        required_texts = [f"{name} {required_outcome.name}" for name, required_outcome in scene.slots]
        yield (f"its slots ended as {ended_texts}, and {required_texts} was to come")
    taken_reasons = tuple(dict.fromkeys(loss.what for loss in task_sums.losses if loss.taken))
    if taken_reasons != scene.taken:
        yield f"money was taken for {taken_reasons}, and {scene.taken} was expected"


def _loss_failures(scene: CheatScene, task_sums: TaskSums) -> Iterator[str]:
    yield from task_sums.wrong
    for loss in task_sums.losses:
        name = name_of_account(loss.account)
        if name not in scene.cheats:
            yield (f"block {loss.height}: {name} is honest and lost {loss.taken} grains: {loss.what}")
        if loss.taken != loss.expected:
            yield f"{loss.what}: {loss.taken} taken, {loss.expected} expected"


def _attempt_failures(scene: CheatScene, finding: CheatFinding) -> Iterator[str]:
    if finding.refused != finding.tried:
        yield f"{finding.refused} of {finding.tried} attempts were refused: {finding.answers}"
    if not finding.tried and scene.is_refused:
        yield "nothing was tried: nothing was tested"


def _gain_failures(scene: CheatScene, task_sums: TaskSums) -> Iterator[str]:
    """Yield a failure for each cheat that gained by the task. Its pay as a checker or voter does not count.

    A provider that died keeps the pay for milestones that the customer has signed, because it computed them.
    """
    outcomes_by_name: Mapping[str, TaskOutcome] = dict(scene.slots)
    for cheat_name in scene.cheats:
        cheat = dev_accounts.stash(cheat_name)
        gained_grains = sum(move.grains for move in task_sums.moves if move.account == cheat and move.why != CHECK_PAY)
        # A cheat that breaks even loses nothing by trying, so any gain is a failure.
        if gained_grains > 0 and outcomes_by_name.get(cheat_name) is not TaskOutcome.DIED:
            yield f"{cheat_name} gained {gained_grains} grains of the task"
