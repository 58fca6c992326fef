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

from devnet.proofs.cheats.findings import AmountCheck, CheatFinding
from devnet.proofs.cheats.task_strangers import PROVER, Attempt
from devnet.stage.actors.purchase import name_of_account
from devnet.stage.actors.task_sale import EXAMPLES, People
from devnet.stage.cheating.races import ACCEPTED_ANSWER
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


CHEAT_SCENES = (
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
        "The provider skips a tenth of the steps; an account computes the run, and proves it",
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
    CheatScene(
        "stolen-proof",
        "A stranger copies a fraud proof from the pool, and pays to come first in the block",
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
        "The provider shows no checkpoints, result and states; the customer disputes",
        (("Eve", TaskOutcome.LIED),),
        mode="withheld-checkpoint",
        customer=TaskCustomer.DISPUTES,
        taken=("LIED",),
        size=TaskSize(steps=200),
    ),
)


JUDGES_REASON = "its judges"
"""The ledger's reason for the payment of a judge that computed."""
LIE_REASONS = ("LIED", "a fraud proof")
PARTY_NAMES = ("Alice", "Bob", "Charlie", "Dave", "Eve", "Ferdie", "Node7")


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
    finding.fined = sum(loss.what not in LIE_REASONS for loss in task_sums.losses)
    finding.grains = people.gains
    finding.gained = sum(finding.grains[cheat] for cheat in scene.cheats)
    _count_attempts(finding, attempts, trace)
    finding.failures = [
        *_course_failures(scene, trace, task_sums),
        *honest_failures(scene, task_id, ledger, people),
        *_attempt_failures(scene, finding, trace),
        *_lazy_failures(scene, ledger, task_id),
        *_gain_failures(scene, task_sums),
    ]
    return finding


def honest_failures(scene: CheatScene, task_id: bytes, ledger: TaskLedger, people: People) -> list[str]:
    """Return failures of the requirements on honest parties, which hold for every course of a scene."""
    task_sums = ledger.sums.get(task_id, TaskSums())
    return [*_loss_failures(scene, task_sums), *people.wrong(ledger), *_judge_failures(scene, ledger, task_id)]


def is_forestalled(trace: EventTrace) -> bool:
    """Return whether the beacon itself ordered an audit, which prevents the scene's attack."""
    return any(event.why is JudgedFor.AUDIT for _, event in trace.all(TaskJudged))


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
    taken_reasons = tuple(loss.what for loss in task_sums.losses if loss.taken)
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


def _attempt_failures(scene: CheatScene, finding: CheatFinding, trace: EventTrace) -> Iterator[str]:
    if finding.refused != finding.tried - _accepted_claims(finding):
        yield f"{finding.refused} of {finding.tried} attempts were refused: {finding.answers}"
    if not finding.tried and scene.is_refused:
        yield "nothing was tried: nothing was tested"
    if scene.stranger in (Stranger.PROVES, Stranger.STEALS_PROOF):
        proof_earners = [name_of_account(event.challenger) for _, event in trace.all(FraudProven)]
        if proof_earners != [PROVER]:
            yield f"{proof_earners} were paid for the fraud proof of {PROVER}"


def _accepted_claims(finding: CheatFinding) -> int:
    """Return the accepted claims.

    The chain accepts a bonded claim of any account: it proves nothing, and the bond returns.
    """
    return sum(
        answer_count
        for answer, answer_count in finding.answers.items()
        if answer == f"TrainingMarket.claim_fraud: {ACCEPTED_ANSWER}"
    )


def _judge_failures(scene: CheatScene, ledger: TaskLedger, task_id: bytes) -> Iterator[str]:
    """Yield failures of judges: honest ones must answer and agree, and a lazy one must be outvoted."""
    cases = [slot for slot in ledger.audits.slots.values() if slot.task == task_id]
    for task_case in cases:
        silent_judges = {
            name_of_account(judge) for judge in task_case.judges if judge not in task_case.opinions_by_judge
        } - set(scene.cheats)
        if silent_judges:
            yield f"the judges {sorted(silent_judges)} said nothing"
        wrong_answer = Answered(task_case.root if task_case.lost else refuted(task_case.root))
        wrong_finding = "a lie right" if task_case.lost else "a right result wrong"
        erring_judges = {
            name_of_account(judge) for judge, answer in task_case.opinions_by_judge.items() if answer == wrong_answer
        } - {scene.lazy_judge}
        if erring_judges:
            yield f"the judges {sorted(erring_judges)} found {wrong_finding}"


def _lazy_failures(scene: CheatScene, ledger: TaskLedger, task_id: bytes) -> Iterator[str]:
    cases = [slot for slot in ledger.audits.slots.values() if slot.task == task_id]
    if scene.lazy_judge and dev_accounts.stash(scene.lazy_judge) not in {
        account for case in cases for account in case.opinions_by_judge
    }:
        yield f"{scene.lazy_judge} sat in no case: nothing was tested"


def _gain_failures(scene: CheatScene, task_sums: TaskSums) -> Iterator[str]:
    """Yield a failure for each cheat that gained by the task. A cheat's pay as a judge counts only for the lazy judge.

    A provider that died keeps the pay for milestones that the customer has signed, because it computed them.
    """
    outcomes_by_name: Mapping[str, TaskOutcome] = dict(scene.slots)
    for cheat_name in scene.cheats:
        cheat, counts_no_judging = dev_accounts.stash(cheat_name), cheat_name != scene.lazy_judge
        gained_grains = sum(
            move.grains
            for move in task_sums.moves
            if move.account == cheat and not (counts_no_judging and move.why == JUDGES_REASON)
        )
        # A cheat that breaks even loses nothing by trying, so any gain is a failure.
        if gained_grains > 0 and outcomes_by_name.get(cheat_name) is not TaskOutcome.DIED:
            yield f"{cheat_name} gained {gained_grains} grains of the task"
