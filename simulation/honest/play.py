"""One case: a machine states a result, and other machines check it, with kills in between. Or a bit flips on the way.

The provider's process computes with one backend and dies at random points. Its next process may have another backend,
as after a change of the device, and a file of its folder may be lost. A checker with any backend fetches the delivery.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any

import numpy as np

from gpu_tasks.batches.leaf_draws import total_weight, weight_floor
from gpu_tasks.batches.requests import TOKEN, encode_requests
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.data.sealing import seal
from gpu_tasks.data.unit_input import commitment_of, encode_input
from gpu_tasks.market.claims.claims import ClaimStage, ClaimTerms
from gpu_tasks.market.claims.convictions import compared_checks, convicted, disputed_place
from gpu_tasks.market.claims.disputes import (
    SEATS,
    Dispute,
    DisputeQuestion,
    DisputeStage,
    DisputeTerms,
    DisputeWindows,
)
from gpu_tasks.market.claims.draws import ITEM_WEIGHT
from gpu_tasks.market.claims.findings import ItemVote, Verdict
from gpu_tasks.market.claims.voting import decision_of_seats, is_well_formed
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import work_allowed
from gpu_tasks.market.inference.units import Racer, Unit, UnitState, UnitTerms
from gpu_tasks.market.rounds import Round
from gpu_tasks.market.training.bids import BidOffer
from gpu_tasks.market.training.items import items_of
from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.market.training.rules import DEFAULT_RULES
from gpu_tasks.market.training.tasks import Slot, Task, TaskState, TaskWindows, slot_case
from gpu_tasks.market.training.terms import TaskTerms
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.chain.port import View
from gpu_tasks.provider.journal.task_records import BidBasis, TaskEntry, TaskStep
from gpu_tasks.tasks.canonical import CanonicalTask, task_hash_of
from gpu_tasks.workloads.workload import Workload, none_for_none
from runtime.cryptography.hashing import blake2_256
from simulation.honest.bit_flips import Flipping
from simulation.honest.ledger import CUSTOMER, FAR, REPLY, Ledger, LedgerBlobs, LedgerPort
from simulation.honest.machines import DEVICE, KILL_AFTER_MAX, Machine, Process, lose_a_file, spared
from simulation.honest.work import Kind, kinds, requests

STEPS_MAX = 30
"""Views after which a party that has not acted counts as silent."""
KILLS_MAX = 3
"""The most kills of one step. A process that dies at each point would never end."""
SECOND_SHARE = 0.25
"""The share of claims with a second check, as on the chain."""
FALSE_DISPUTE_SHARE = 0.1
"""The share of claims that a stranger disputes falsely."""
OTHER_BACKEND_SHARE = 0.25
"""The share of kills after which the machine has a random backend, as after a change of its device."""
AWAY_SHARE = 0.2
"""The share of checks in which the provider has no process when the checker asks first."""
LOSS_SHARE = 0.3
"""The share of kills after which a file is lost."""
VOTERS = 3
"""The voters that compute. Each fills three of nine seats."""
PROVIDER, CHECKER, SAMPLES = "provider computes", "checker computes", "provider shows samples"
FLIP_TARGETS = (PROVIDER, CHECKER, SAMPLES)


class SilentError(Exception):
    """A party did not act."""


@dataclass
class Tally:
    """The figures of some cases."""

    cases: Counter[str] = field(default_factory=Counter)
    """By workload and kind of work."""
    pairs: Counter[str] = field(default_factory=Counter)
    """Checks by the backends of provider and checker."""
    events: Counter[str] = field(default_factory=Counter)
    """Checks, points, votes, kills, and lost files."""
    flips: Counter[str] = field(default_factory=Counter)
    """Flipped bits, by their place and the outcome."""
    failures: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Add other figures."""
        for name in ("cases", "pairs", "events", "flips"):
            getattr(self, name).update(getattr(other, name))
        self.failures += other.failures


class InlineThreads(ThreadPoolExecutor):
    """Threads of an event loop whose work runs at once: to wake one takes longer than to hash a small delivery."""

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        """Return the finished work."""
        done: Future[Any] = Future()
        try:
            done.set_result(work(*given, **named))
        except Exception as error:  # noqa: BLE001 # the caller raises it
            done.set_exception(error)
        return done


class Workshop:
    """The workloads on all backends, opened once, the machines with their keys, and an event loop."""

    def __init__(self, folder: Path, backends: Sequence[str]) -> None:
        """Model files and the machines' folders are in `folder`."""
        self.folder = folder
        self.kinds = kinds(folder, backends)
        self.planted: dict[tuple[str, str], Workload] = {}
        """Workloads in place of right ones, by name and backend."""
        self._opened: dict[tuple[str, str], Workload] = {}
        self.runner = asyncio.Runner()
        self.runner.get_loop().set_default_executor(InlineThreads(1))
        forms = [kind.form for kind in self.kinds]
        self.provider = Machine("provider", forms)
        self.others = [Machine(f"validator {number}".replace(" ", "-"), forms) for number in range(2 + VOTERS)]

    def workload(self, kind: Kind, backend: str) -> Workload:
        """Return a workload on a backend."""
        key = kind.form.name, backend
        if key in self.planted:
            return self.planted[key]
        if key not in self._opened:
            # With the published vectors, as a worker opens it.
            self._opened[key] = kind.form.open(backend)
        return self._opened[key]


@dataclass
class Case(ABC):
    """A case in progress."""

    shop: Workshop
    kind: Kind
    chance: Random
    tally: Tally
    has_kills: bool = True
    flip: str = ""
    """The computation in which a bit flips, or nothing."""
    flipping: Flipping | None = None
    problems: list[str] = field(default_factory=list)
    backends: dict[str, str] = field(default_factory=dict)
    """The backend of each machine's present process, by the machine's endpoint."""

    def __post_init__(self) -> None:
        """The chain knows all machines."""
        self.ledger = Ledger((self.shop.provider, *self.shop.others), self.kind.form)
        self.blobs = LedgerBlobs(self.ledger)

    # ------------------------------------------------------------------------------------------------------- processes

    def start(self, machine: Machine, target: str = "") -> Process:
        """Start a process of a machine, which may be killed later. In the computation `target` a bit may flip.

        A machine has the backend of its last process, or a random one.
        """
        form, backend = (
            self.kind.form,
            self.backends.setdefault(machine.endpoint, self.chance.choice(self.kind.backends)),
        )
        workload = self.shop.workload(self.kind, backend)
        if self.flipping is not None and self.flip == target:
            workload = self.kind.make(backend, self.flipping.wrap)
        port = LedgerPort(self.ledger, machine)
        process = machine.start(self._folder(machine), port, self.blobs, {form.workload_id: workload})
        if self.has_kills and self.chance.random() < 0.5:
            process.kill.left = self.chance.randint(1, KILL_AFTER_MAX)
        self._prepare(process)
        return process

    def _prepare(self, process: Process) -> None:  # noqa: B027 - a unit has no bid
        """Note an earlier bid in the books of a new process, if the case has one."""

    def _folder(self, machine: Machine) -> Path:
        return self.shop.folder / machine.endpoint.partition("//")[2].partition(".")[0]

    async def restart(self, machine: Machine) -> Process:
        """Start a killed machine again from its disk, from which a file may be lost, perhaps with another backend."""
        assert machine.process is not None
        self.problems += machine.process.problems.told
        await machine.end()
        self.tally.events["kills"] += 1
        if self.chance.random() < LOSS_SHARE:
            lost = lose_a_file(self._folder(machine), self.chance)
            self.tally.events[f"lost {lost}" if lost else "nothing to lose"] += 1
        if self.chance.random() < OTHER_BACKEND_SHARE:
            del self.backends[machine.endpoint]
        return self.start(machine)

    async def drive(self, machine: Machine, view: Callable[[], View], is_done: Callable[[], bool], who: str) -> None:
        """Give a machine's duties views until it has acted, over all kills. Raise SilentError."""
        kills = 0
        for _ in range(STEPS_MAX):
            process = machine.process
            assert process is not None
            process.kill.left = process.kill.left if kills < KILLS_MAX else 0
            if not await spared(process.step(view(), *process.duties)):
                kills += 1
                await self.restart(machine)
            if is_done():
                return
        assert machine.process is not None
        self.problems += machine.process.problems.told
        raise SilentError(f"{who} is silent: {'; '.join(dict.fromkeys(self.problems[-3:]))}")

    async def close(self) -> None:
        """End all processes, and delete their folders."""
        for machine in (self.shop.provider, *self.shop.others):
            if machine.process is not None:
                await machine.end()
                rmtree(self._folder(machine))
        for machine in (self.shop.provider, *self.shop.others):
            rmtree(self._folder(machine), ignore_errors=True)

    # ------------------------------------------------------------------------------------------------------- the claim

    @abstractmethod
    async def state_result(self) -> None:
        """Let the provider state a result, and open its claim."""

    async def run(self) -> str:
        """Play the case to its end, and return its outcome: `passed`, or the loss of a party."""
        try:
            self.start(self.shop.provider, PROVIDER)
            await self.state_result()
            await self._between()
            checks = 2 if self.chance.random() < SECOND_SHARE else 1
            for number in range(checks):
                if not await self._check(self.shop.others[number]):
                    return await self._disputed(self.shop.others[-VOTERS:])
            if self.chance.random() < FALSE_DISPUTE_SHARE:
                await self._false_dispute()
            return "passed"
        finally:
            await self.close()

    async def _between(self) -> None:
        """Kill the provider between its claim and the check, as far as kills are part of the case."""
        if self.has_kills and self.chance.random() < 0.5:
            await self.restart(self.shop.provider)
        elif self.flip == SAMPLES:
            await self.shop.provider.end()
            self.start(self.shop.provider, SAMPLES)

    async def _check(self, checker: Machine) -> bool:
        """Return True if a check passes."""
        ledger, provider = self.ledger, self.shop.provider
        ledger.call_checker(checker.identity.stash, self.chance.randbytes(32))
        claim = ledger.claim
        assert claim is not None
        self.start(checker, CHECKER)
        self.tally.pairs[f"{self.backends[provider.endpoint]} by {self.backends[checker.endpoint]}"] += 1
        self.tally.events["checks"] += 1
        self.tally.events["points"] += len(claim.points)
        if self.has_kills and self.chance.random() < AWAY_SHARE:
            await self._ask_in_vain(checker)
        await self._with_provider(checker, partial(self._is_past, ClaimStage.COMMITTING), "the checker")
        await self._with_provider(provider, partial(self._is_past, ClaimStage.SHOWING), "the provider")
        await self._with_provider(checker, self._is_open, "the checker")
        await checker.end()
        return ledger.agrees()

    async def _ask_in_vain(self, checker: Machine) -> None:
        """Let the checker ask a provider without a process. It must state nothing."""
        provider, process = self.shop.provider, checker.process
        assert process is not None
        await provider.end()
        if not await spared(process.step(self.ledger.claim_view(), process.checking)):
            await self.restart(checker)
        self.tally.events["asked in vain"] += 1
        if self._is_past(ClaimStage.COMMITTING):
            raise SilentError("a checker stated something without a delivery")
        self.start(provider)

    async def _with_provider(self, machine: Machine, is_done: Callable[[], bool], who: str) -> None:
        """Drive a machine. The provider's process may read its run from the disk first, and may die meanwhile."""
        provider = self.shop.provider
        if machine is not provider:
            process = provider.process
            assert process is not None
            if not await spared(process.step(self.ledger.claim_view(), process.work)):
                await self.restart(provider)
                assert provider.process is not None
                provider.process.kill.left = 0
                await provider.process.step(self.ledger.claim_view(), provider.process.work)
        await self.drive(machine, self.ledger.claim_view, is_done, who)

    def _is_past(self, stage: ClaimStage) -> bool:
        assert self.ledger.claim is not None
        return self.ledger.claim.stage > stage

    def _is_open(self) -> bool:
        assert self.ledger.claim is not None
        return self.ledger.claim.checks[-1].finding is not None

    # ------------------------------------------------------------------------------------------------------- the votes

    async def _disputed(self, voters: Sequence[Machine]) -> str:
        """Let voters decide about the first difference, and return the parties that lose their collateral."""
        claim = self.ledger.claim
        assert claim is not None
        point = claim.points[disputed_place(claim)]
        seeds = tuple(check.seed for check in compared_checks(claim))
        votes = await self._votes(voters, point, seeds)
        decision = decision_of_seats([vote for vote in votes for _ in range(SEATS // VOTERS)])
        if decision is None:
            return "no decision"
        found = convicted(claim, decision)
        losers = [*(["provider"] if found.is_provider else []), *("checker" for _ in found.checkers)]
        return " and ".join(losers) + " convicted" if losers else "nobody convicted"

    async def _false_dispute(self) -> None:
        """Let voters look at a random point of a right result. Raise SilentError unless all find it right."""
        claim = self.ledger.claim
        assert claim is not None
        # The beacons may have drawn no point of a claim, and a dispute may be about any item.
        if not claim.terms.weight:
            return
        point = self.chance.randrange(claim.terms.weight)
        votes = await self._votes(self.shop.others[-VOTERS:], point, ())
        if any(vote != votes[0] or vote.verdict is not Verdict.RIGHT or not is_well_formed(vote, 1) for vote in votes):
            raise SilentError(f"votes about a right item: {[vote.verdict.name for vote in votes]}")

    async def _votes(self, voters: Sequence[Machine], point: int, seeds: tuple[bytes, ...]) -> list[ItemVote]:
        ledger = self.ledger
        claim = ledger.claim
        assert claim is not None
        parties = (claim.terms.provider,)
        terms = DisputeTerms(
            claim.terms.handler, DisputeQuestion.ITEM, ledger.claim_id, 0, point, seeds, parties, (), 1, 0, 1
        )
        stashes = tuple(voter.identity.stash for voter in voters)
        ledger.dispute_id = blake2_256(b"dispute" + ledger.claim_id)
        ledger.dispute = Dispute(
            terms, DisputeWindows(30, 12, 20), DisputeStage.VOTING, ledger.height, self.chance.randbytes(32),
            Round(1, 2), stashes,
        )  # fmt: skip
        found = []
        for voter in voters:
            self.start(voter)
            key = ledger.dispute_id, 0

            def has_voted(voter: Machine = voter, key: tuple[bytes, int] = key) -> bool:
                return voter.process is not None and key in voter.process.parts.journal.votes

            provider = self.shop.provider.process
            assert provider is not None
            provider.kill.left = 0
            await self.drive(voter, ledger.ballot_view, has_voted, "a voter")
            assert voter.process is not None
            found.append(voter.process.parts.journal.votes[key].statement)
            await voter.end()
        self.tally.events["votes"] += len(found)
        return found


class UnitCase(Case):
    """A unit: one request, or a batch."""

    async def state_result(self) -> None:
        """See `Case`. The race is drawn, and its clocks never end."""
        ledger, form = self.ledger, self.kind.form
        asked = requests(self.kind, self.chance)
        content = encode_input(
            self.chance.randbytes(32), REPLY.public, asked[0] if len(asked) == 1 else encode_requests(asked)
        )
        blob = ledger.put(seal(content, [REPLY.public, *(each.identity.seal_key.public for each in ledger.machines)]))
        tokens_in = sum(none_for_none(form.cost_in, request) or 0 for request in asked)
        tokens_out = sum(none_for_none(form.cost_asked, request) or 0 for request in asked)
        terms = UnitTerms(1_000, 1, blob, commitment_of(content), 1, tokens_out, len(asked), tokens_in)
        ledger.unit_id = self.chance.randbytes(32)
        ledger.unit = Unit(
            0, CUSTOMER, terms, 1, 1, 1, 1, 1, UnitState.RACING, price=1_000, round=Round(1, commits_from=2),
            racers=(Racer(self.shop.provider.identity.stash, DEVICE, 1),),
            input_share=self.chance.choice((0, 100_000, TOKEN)),
        )  # fmt: skip
        await self.drive(self.shop.provider, ledger.race_view, lambda: ledger.stated is not None, "the provider")
        ledger.unit = replace(ledger.unit, state=UnitState.CLAIMED, output_root=ledger.stated.output_root)
        ledger.open_claim(ledger.unit_id, self._terms(ledger.unit, ledger.stated.totals), self.chance)

    def _terms(self, unit: Unit, totals: Totals) -> ClaimTerms:
        """Return the terms of the claim, with the weight that the market gives it."""
        floor = weight_floor(-(-work_allowed(unit) // TOKEN), totals.requests)
        weight = total_weight(totals, floor, input_share=unit.input_share)
        return _claim_terms(
            InferenceMarket.index, self.shop.provider, self.ledger.stated.output_root, totals.requests, weight
        )


class TaskCase(Case):
    """A task: a run in steps, of one leg."""

    entry: TaskEntry | None = None

    async def state_result(self) -> None:
        """See `Case`. The bid has won, and the task has started."""
        ledger, form, chance = self.ledger, self.kind.form, self.chance
        request = self.kind.request(chance)
        content = encode_input(chance.randbytes(32), REPLY.public, request)
        blob = ledger.put(seal(content, [REPLY.public, *(each.identity.seal_key.public for each in ledger.machines)]))
        segments = form.segments(request)
        milestones = chance.randint(1, min(3, segments))
        canonical = CanonicalTask(
            form.workload_id, form.model_id, blake2_256(request), len(request), form.cost_asked(request), milestones, 1,
            classes=tuple(DeviceClass),
        )  # fmt: skip
        order = TaskOrder(
            task_hash_of(canonical), form.workload_id, commitment_of(content), blob, 1,
            sum(1 << kind for kind in DeviceClass), milestones, segments, 1, 1, None, None, 100, 0, 1,
            auctions=1,
        )  # fmt: skip
        slot = Slot(self.shop.provider.identity.stash, DEVICE, 1, FAR, 1, started_at=5)
        ledger.task_id = chance.randbytes(32)
        ledger.task = Task(
            CUSTOMER, order, DEFAULT_RULES, TaskWindows(12, 12, 10, 10, 8, 7_200), TaskState.RUNNING, 1, FAR,
            TaskTerms(1, 1, 1, 100, 1), milestones, slots=(slot,), started_at=5, reported_at=5,
        )  # fmt: skip
        basis = BidBasis(order.task_hash, order.input_root, order.input_blob)
        sent = (TaskStep.COMMIT, TaskStep.REVEAL, TaskStep.START)
        self.entry = TaskEntry(DEVICE, basis, BidOffer(1, FAR, 1), bytes(32), sent)
        assert self.shop.provider.process is not None
        self._prepare(self.shop.provider.process)
        await self.drive(self.shop.provider, self._view, lambda: ledger.stated is not None, "the provider")
        items = items_of(order, 0)
        terms = _claim_terms(TrainingMarket.index, self.shop.provider, ledger.stated.root, items, items * ITEM_WEIGHT)
        ledger.open_claim(slot_case(ledger.task_id, 0), terms, chance)

    def _prepare(self, process: Process) -> None:
        """Write the won bid into the provider's journal."""
        key = self.ledger.task_id, 1
        is_provider = process.parts.identity.stash == self.shop.provider.identity.stash
        if self.entry is not None and is_provider and key not in process.parts.journal.tasks:
            process.parts.journal.tasks.put(key, self.entry)

    def _view(self) -> View:
        return View(self.ledger.next_block(), ())


def _claim_terms(handler: int, provider: Machine, root: bytes, items: int, weight: int) -> ClaimTerms:
    """Return the terms of a claim. Its money is no part of a case."""
    return ClaimTerms(
        handler, provider.identity.stash, CUSTOMER, root, items, weight, weight, 1, 1, 0, 1, 1, 1, 1, 1, ()
    )  # fmt: skip


def new_case(shop: Workshop, chance: Random, tally: Tally, *, is_task: bool) -> Case:
    """Return a random case with kills."""
    suited = [kind for kind in shop.kinds if kind.form.is_stepwise or not is_task]
    make = TaskCase if is_task else UnitCase
    return make(shop, chance.choice(suited), chance, tally)


def play_honest(shop: Workshop, name: str, tally: Tally, *, is_task: bool) -> None:
    """Play a case of honest parties. A loss of any of them, or its silence, is a failure."""
    case = new_case(shop, Random(name), tally, is_task=is_task)
    tally.cases[f"{case.kind.form.name}, {'tasks' if is_task else 'units'}"] += 1
    outcome = played(case)
    if outcome != "passed":
        tally.failures.append(f"case {name}, {case.kind.form.name}: {outcome}")


def play_flip(shop: Workshop, name: str, tally: Tally, *, is_task: bool) -> None:
    """Play a case without kills in which one bit flips, and count its outcome. No other party may lose by it."""
    chance = Random(name)
    target = chance.choice(FLIP_TARGETS)

    def with_flip(flipping: Flipping) -> tuple[Case, str]:
        case = new_case(shop, Random(f"{name}/case"), Tally(), is_task=is_task)
        case.has_kills, case.flip, case.flipping = False, target, flipping
        # A flipped exponent of a float makes it infinite, or no number.
        with np.errstate(all="ignore"):
            return case, played(case)

    clean, outcome = with_flip(watched := Flipping())
    if outcome != "passed" or not watched.seen:
        tally.flips[f"{target}: nothing to flip"] += 1
        return
    case, outcome = with_flip(Flipping(chance.randint(1, watched.seen), chance))
    honest = "provider" if target == CHECKER else "checker"
    if outcome.endswith("convicted") and honest in outcome:
        tally.failures.append(f"case {name}: {target} with a flipped bit, and the outcome is: {outcome}")
    if outcome == "passed" and target == PROVIDER and _root(case) != _root(clean):
        outcome = "a wrong result passed"
    tally.flips[f"{target}: {outcome.partition(':')[0]}"] += 1


def _root(case: Case) -> bytes:
    stated = case.ledger.stated
    root: bytes = stated.root if hasattr(stated, "root") else stated.output_root
    return root


def played(case: Case) -> str:
    """Return the outcome of a case, also of one with a silent party."""
    try:
        return case.shop.runner.run(case.run(), context=copy_context())
    except SilentError as error:
        return str(error)
