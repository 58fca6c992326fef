"""A chain of batches with unequal stakes and prices, and a gang on it. All others act as daemons do.

Invariant: the pallets decide all outcomes. Grains are counted after every block, and the books after each batch.
"""

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import cache
from random import Random

from gpu_tasks.market.courts.cases import CaseStage, CourtCase
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.courts_api import CaseStatus, SeatStatus
from gpu_tasks.market.courts.opinions import Answered
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.judges import in_office
from gpu_tasks.market.leaf_checks.checks import LeafCheck, LeafStage
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.provider.duties.appeals import is_found_lying, is_outvoted
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from simulation.catalogue import check_books
from simulation.chains.batch_chain import DisputeChain, Opinion, leaves_for
from simulation.chains.market_chain import CUSTOMER, OGPU, Keys, Step, signed, tolerant
from simulation.courts.chances import Coin, Outputs

STAKES = (1_500, 1_400, 1_300, 1_200, 1_100, 1_000, 900, 800, 700, 600, 500, 400, 300, 200)
"""In whole oGPU. Any two of them have less than a third of the total."""
SIZES = (16, 33, 66, 100)
MADE_UP = b"made up".ljust(32)
"""The proof of an auditor that computed nothing."""
BLOCKS_MAX = 500


@dataclass
class PartsChain(DisputeChain):
    """One batch after its race, and the behaviour of its parties."""

    gang: frozenset[bytes] = frozenset()
    """A gang: its auditors pass without computing, and its judges confirm its parties' answers."""
    hides_leaves: bool = False
    """True if the answerers show no drawn leaves."""
    false_leaf: int | None = None
    """The right leaf that the customer disputes when it may."""

    def gather(self, members: Iterable[bytes], others: Iterable[bytes], chance: Random) -> None:
        """Form a gang of the members, and of randomly ordered others that fit into a third of the stake."""
        weights = self.weights()
        gang, candidates = set(members), sorted(others)
        for stash in chance.sample(candidates, len(candidates)):
            if 3 * sum(weights.get(each, 0) for each in (*gang, stash)) <= sum(weights.values()):
                gang.add(stash)
        self.gang = frozenset(gang)

    def weights(self) -> dict[bytes, int]:
        """Return the stake of each validator in the active set."""
        return dict(in_office(self.chain.now()[Devices]))

    def play_out(self, unit: bytes) -> None:
        """Make blocks until the check of the batch ends."""
        self._play(unit, lambda _: False)
        assert self.is_over(unit)
        check_books(self.chain.now(), self.chain.issued)

    def play_passing(self, unit: bytes, *, is_looked_at: bool) -> None:
        """Make blocks until the first auditor's proof is inspected, or not. No later auditor's proof is."""
        self._toss(unit, is_looked_at=is_looked_at)
        self._play(unit, lambda check: check.cases > 0 and check.case is None)
        self._toss(unit, is_looked_at=False)

    def opinion(self, case: bytes, keys: Keys) -> Opinion:
        """Return a judge's opinion: the gang's for its members, else the truth."""
        record = self.chain.case(case)
        said = [claim.root for claim in record.terms.claims if claim.account in self.gang and claim.root is not None]
        return Answered(said[0]) if said and keys.stash in self.gang else super().opinion(case, keys)

    def purses(self) -> dict[bytes, int]:
        """Return the grains of every validator, free and held."""
        return {keys.stash: self.owned(keys.stash) for keys in self.chain.validators}

    def _play(self, unit: bytes, is_done: Callable[[LeafCheck], bool]) -> None:
        for _ in range(BLOCKS_MAX):
            check = self.chain.now()[LeafChecks].checks[unit]
            if check is None or is_done(check):
                return
            self.chain.block(*self._acts(unit, check), *self.judge_steps(), *self._appeals())
        raise AssertionError("a check without end")

    def _toss(self, unit: bytes, *, is_looked_at: bool) -> None:
        """From now on, make the beacons random except for the inspection of the auditor's proof."""

        def about() -> tuple[bytes, CourtCase | None]:
            check = self.chain.now()[LeafChecks].checks[unit]
            case = check.case if check is not None else None
            return (bytes(32), None) if case is None else (case, self.chain.case(case))

        seed = f"{self.chain.chance.random()}"
        self.chain.chance = Outputs(seed, Coin(self.chain, about, is_looked_at))

    def _acts(self, unit: bytes, check: LeafCheck) -> Iterator[Step]:
        if check.stage is LeafStage.SHOWING and not check.shown and not self.hides_leaves:
            yield signed(self.answerers(unit)[0].provider, self.show_call(unit))
        elif check.stage is LeafStage.CHECKING and check.auditor is not None:
            yield self._audits(unit, check, self.chain.keys_of(check.auditor))
        elif check.stage is LeafStage.OPEN and self.false_leaf is not None:
            found = self.claim(unit, self.false_leaf, is_right=False)
            yield signed(CUSTOMER.stash, self.dispute_call(unit, self.false_leaf, found))

    def _audits(self, unit: bytes, check: LeafCheck, auditor: Keys) -> Step:
        if auditor.stash in self.gang:
            return self.passes(unit, auditor, MADE_UP)
        right, given = leaves_for(unit, self.requests), self.leaves[unit]
        wrong = [leaf.index for leaf in check.shown if right[leaf.index] != given[leaf.index]]
        return self.doubts(unit, auditor, wrong[0], self.claim(unit, wrong[0])) if wrong else self.passes(unit, auditor)

    def _appeals(self) -> Iterator[Step]:
        """Yield the appeals of honest daemons."""
        courts = self.chain.now()[Courts]
        for case_id, case in courts.cases.items():
            if case is None or case.stage is not CaseStage.APPEALABLE:
                continue
            parties = [claim.account for claim in case.terms.claims]
            wronged = [who for who in parties if who not in self.gang and is_found_lying(case, who)]
            judges = [who for bench in case.benches for who in bench.members if who not in self.gang]
            seats = [(who, courts.seats[who, case_id]) for who in judges]
            status = CaseStatus(case, 0, 0, 0)
            wronged += [
                who for who, seat in seats if seat and is_outvoted(SeatStatus(case_id, seat, status), self.chain.height)
            ]
            for who in wronged:  # the first appeal succeeds, and then there is no verdict to appeal against
                yield tolerant(signed(who, Courts.appeal(case_id=case_id)))


def fresh(seed: str) -> tuple[PartsChain, Random]:
    """Return a chain for one batch of random size and price, and the random source for other choices."""
    chance, stage = Random(seed), copy(_ground())
    stage.chain = copy(stage.chain)
    stage.chain.events, stage.chain.all_events, stage.chain.chance = [], [], Random(f"beacons of {seed}")
    stage.said, stage.leaves, stage.answers = {}, {}, {}
    stage.requests, stage.price = chance.choice(SIZES), chance.randint(OGPU // 2, 5 * OGPU)
    return stage, chance


@cache
def _ground() -> PartsChain:
    """Return the chain before any batch, made once."""
    bonds = tuple(OGPU * stake for stake in STAKES)
    stage = PartsChain(
        size=len(STAKES), bonds=bonds, numbers={"LeafChecks.check_from": 16, "LeafChecks.dispute_blocks": 4}
    )
    stage.chain.check = _count_grains
    return stage


def _count_grains(bound: Bound, issued: int) -> None:
    """Check that all grains, owned and burned, equal the issuance."""
    accounts = [account.data for _, account in bound[System].account.items()]
    assert sum(data.free + data.reserved for data in accounts) + bound[Balances].burned.get() == issued
