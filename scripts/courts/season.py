"""One network and one habit for many units: the real pallet decides, and every account is weighed before and after.

Money is in prices of a unit. To compute costs its racer or judge `COST` of a price, which is not on any chain: who lies
saves it. The coalition's gain is what all its accounts own more, less what it spent on computing.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from gpu_tasks.market.courts.benches import draw_bench
from gpu_tasks.market.courts.cases import STAGE_OF, CaseStage, CourtCase, fault_of
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import BenchDrawn, CaseAppealed, CaseEnded, JudgeCharged
from gpu_tasks.market.draws import BEACON_DELAY
from runtime.cryptography.draw import lottery
from runtime.cryptography.hashing import blake2_256
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from scripts.chains.court_chain import PALLETS, RIGHT, CourtChain, Says
from scripts.chains.market_chain import OGPU, Keys, signed, tolerant
from scripts.chains.toy_handler import Toys
from scripts.courts.habits import Against, Habit, coalition_opinion, honest_claim, honest_opinion
from scripts.courts.units import SimulatedUnits

PRICE = OGPU // 10
COST_PERCENT = 40
BATCH = 8
BLOCKS_MAX = 400
_BENCH_OF = {stage: kind for kind, stage in STAGE_OF.items()}
WORLD = tuple(SimulatedUnits if pallet is Toys else pallet for pallet in PALLETS)


@dataclass(frozen=True)
class Setting:
    """A network, a coalition and what it does."""

    size: int
    share_percent: int
    habit: Habit
    has_appeals: bool
    units: int
    seed: int = 1


@dataclass
class Result:
    """What came of a season, in prices a unit."""

    coalition: float
    honest: float
    """All honest validators together, as racers and judges, appeal bonds and computing included."""
    honest_convicted: int
    """Honest parties and judges who were found wrong in the end."""
    convicted_after_appeal: int
    """Of these, after an appeal."""
    cases: int
    appeals: int
    outcomes: dict[str, int] = field(default_factory=dict)


def play(setting: Setting) -> Result:
    """Play all units of a setting."""
    return Season(setting).run()


class Season:
    """One network with a coalition."""

    def __init__(self, setting: Setting) -> None:
        """Seat the validators: the coalition's have its share of the stake between them."""
        self.setting, self.habit = setting, setting.habit
        self.chance = random.Random(setting.seed)
        members = max(1, round(setting.size * setting.share_percent / 100))
        total = 100 * setting.size * OGPU
        mine, others = total * setting.share_percent // 100, total * (100 - setting.share_percent) // 100
        bonds = (*[mine // members] * members, *[others // (setting.size - members)] * (setting.size - members))
        self.stage = CourtChain(
            size=setting.size,
            bonds=bonds,
            policy=self._opinion,
            pallets=WORLD,
            check=lambda _bound, _issued: None,
            seed=setting.seed,
        )
        validators = self.stage.chain.validators
        self.sybil, self.customer = self.stage.racers
        self.weights = [(keys.stash, bond) for keys, bond in zip(validators, bonds, strict=True)]
        self.coalition = {keys.stash: keys for keys in validators[:members]}
        if self.habit.party is Against.SYBIL:
            self.coalition[self.sybil.stash] = self.sybil
        self.keys = {keys.stash: keys for keys in [*validators, *self.stage.chain.others]}
        self.stage.chain.chance = _Proposers(self) if self.habit.grinds else random.Random(setting.seed)
        self.computed: Counter[bytes] = Counter()
        self.terms: dict[bytes, CourtCase] = {}

    # ------------------------------------------------------------------------------------------------------ the units

    def run(self) -> Result:
        """All units, a batch at a time; the books before and after."""
        before = self._owned()
        batch = 1 if self.habit.grinds else BATCH
        for first in range(0, self.setting.units, batch):
            self.stage.chain.block(*(self._race(number) for number in range(first, first + batch)))
            self._hear()
        return self._weigh(before, self._owned())

    def _race(self, number: int) -> Any:
        unit = blake2_256(b"unit" + number.to_bytes(4, "little") + self.setting.seed.to_bytes(4, "little"))
        racers = [self.weights[place][0] for place in lottery(unit, b"racers", self.weights, 2)]
        if self.habit.party is Against.SYBIL:
            racers[1] = self.sybil.stash
        said = []
        for racer in racers:
            kind, root = self.habit.racer if racer in self.coalition else honest_claim(self.habit)
            self.computed[racer] += root == RIGHT
            said.append((racer, kind, root))
        customer = self.customer.stash

        def step(bound: Bound) -> None:
            bound[SimulatedUnits].race(unit, customer, PRICE, said)

        return step

    def _hear(self) -> None:
        for _ in range(BLOCKS_MAX):
            cases = list(self.stage.chain.now()[Courts].cases.items())
            if not cases:
                return
            self.terms |= {case_id: case for case_id, case in cases if case is not None}
            # what cannot be had yet (a full agenda opens a window later) or not at all (no court) is tried again
            self.stage.chain.block(*map(tolerant, self.stage.steps()), *self._appeals(cases))
        raise AssertionError("a case without end")

    def _opinion(self, keys: Keys, case: CourtCase, bench: int) -> Says:
        is_ours = keys.stash in self.coalition
        has_stake = any(claim.account in self.coalition for claim in case.terms.claims)
        return coalition_opinion(self.habit, has_stake=has_stake) if is_ours else honest_opinion(self.habit)

    def _appeals(self, cases: list[tuple[bytes, CourtCase | None]]) -> list[Any]:
        """Honest parties appeal against what they know to be false, if daemons do; the coalition where it pays."""
        steps = []
        for case_id, case in cases:
            if case is None or case.stage is not CaseStage.APPEALABLE:
                continue
            is_false = case.verdict != honest_opinion(self.habit).opinion
            for claim in case.terms.claims:
                if claim.account in self.coalition:
                    appeals = self.habit.appeals and fault_of(claim, case.verdict) is not None
                else:
                    appeals = self.setting.has_appeals and is_false
                if appeals:
                    steps.append(tolerant(signed(claim.account, Courts.appeal(case=case_id))))
        return steps

    # ------------------------------------------------------------------------------------------------------ the books

    def _owned(self) -> dict[bytes, int]:
        balances = self.stage.chain.now()[Balances]
        return {who: balances.free_balance(who) + balances.reserved_balance(who) for who in self.keys}

    def _weigh(self, before: dict[bytes, int], after: dict[bytes, int]) -> Result:
        judged = self._judged()
        cost = PRICE * COST_PERCENT // 100
        gained = {who: after[who] - before[who] for who in self.keys}
        ours = set(self.coalition)
        if self.habit.party is not Against.STRANGERS:
            ours.add(self.customer.stash)
        spent = {who: cost * (self.computed[who] + judged[who]) for who in self.keys}
        honest = [keys.stash for keys in self.stage.chain.validators if keys.stash not in ours]
        share = PRICE * self.setting.units
        ends = self.stage.chain.happened(CaseEnded)
        appealed = {event.case for event in self.stage.chain.happened(CaseAppealed)}
        wrong_judges = [
            event for event in self.stage.chain.happened(JudgeCharged) if event.is_convicted and event.judge not in ours
        ]
        wrong = [event.case for event in wrong_judges]
        for event in ends:
            claims = self.terms[event.case].terms.claims
            wrong += [
                event.case
                for claim in claims
                if claim.account not in ours and fault_of(claim, event.verdict) is not None
            ]
        return Result(
            coalition=sum(gained[who] - spent[who] for who in ours) / share,
            honest=sum(gained[who] - spent[who] for who in honest) / share,
            honest_convicted=len(wrong),
            convicted_after_appeal=sum(case in appealed for case in wrong),
            cases=len(ends),
            appeals=len(appealed),
            outcomes=dict(Counter(event.outcome.name for event in ends)),
        )

    def _judged(self) -> Counter[bytes]:
        """Who computed as a judge: all honest ones, and the coalition's where they said the truth."""
        seats = Counter[bytes]()
        for event in self.stage.chain.happened(BenchDrawn):
            lies = self.habit.judges_lie and self._has_stake(event.case)
            seats.update(judge for judge in event.judges if not lies or judge not in self.coalition)
        return seats

    def _has_stake(self, case_id: bytes) -> bool:
        return any(claim.account in self.coalition for claim in self.terms[case_id].terms.claims)


class _Proposers(random.Random):
    """The beacon's chance: where a slot is the coalition's, it may skip its block, and has the next one's."""

    def __init__(self, season: Season) -> None:
        super().__init__(season.setting.seed)
        self.season = season

    def randbytes(self, n: int) -> bytes:
        """Of two outputs, in the coalition's slots, the one that seats more of its judges."""
        outputs = [super().randbytes(n)]
        if self.random() * 100 < self.season.setting.share_percent:
            outputs.append(super().randbytes(n))
        return max(outputs, key=self._seated)

    def _seated(self, output: bytes) -> int:
        chain = self.season.stage.chain
        bound = chain.now()
        value = blake2_256(bound[Beacon].current.get() + blake2_256(output))
        courts, seated = bound[Courts], 0
        for case_id, case in courts.cases.items():
            kind = _BENCH_OF.get(case.stage) if case is not None else None
            if case is None or kind is None or case.round or case.recorded_at + BEACON_DELAY != chain.height:
                continue
            drawn = draw_bench(value, case_id, kind, courts.entrants(), courts.may_sit(case), case.rules.court_seats)
            seated += sum(judge in self.season.coalition for judge, _ in drawn)
        return seated
