"""One unit over the real market: posted, drawn, raced, judged and appealed, until no hold remains.

Invariant: the pallets decide all outcomes. Accounts here only act, as daemons or as the coalition do.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gpu_tasks.market import rounds
from gpu_tasks.market.courts.cases import CaseStage, CourtCase, fault_of
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.courts_api import CaseStatus, SeatStatus
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.events import DevicePaused
from gpu_tasks.market.inference import race_clocks
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Racer, Unit, UnitState, is_open, unit_id_of
from gpu_tasks.provider.duties.appeals import is_outvoted
from gpu_tasks.provider.duties.race_steps import Race, must_give_back
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from simulation.chains.court_chain import RIGHT, WRONG, Says, statement_of
from simulation.chains.market_chain import (
    CUSTOMER,
    GENESIS_HASH,
    Step,
    attach,
    attestation,
    commit,
    due_of,
    signed,
    terms,
    tolerant,
)
from simulation.courts.chances import ChosenOutputs, Coin, Outputs
from simulation.courts.habits import (
    Against,
    Habit,
    Input,
    Racing,
    coalition_opinion,
    honest_opinion,
    honest_party_appeals,
    honest_racing,
)
from simulation.courts.network import PRICE, SERVICE, network

BLOCKS_MAX = 1_000


@dataclass(frozen=True)
class Setting:
    """A network, a coalition and its habit."""

    size: int
    share_percent: int
    habit: Habit
    has_appeals: bool
    units: int
    seed: int = 1


class Season:
    """The life of one unit."""

    def __init__(self, setting: Setting, number: int, *, is_audited: bool) -> None:
        """Copy the network. `is_audited` is the played side of the audit's coin."""
        self.setting, self.habit = setting, setting.habit
        has_sybil = self.habit.party is Against.SYBIL
        self.network = network(setting.size, setting.share_percent, has_sybil=has_sybil)
        self.chain = self.network.copy()
        self.keys = {keys.stash: keys for keys in (*self.chain.validators, self.network.sybil, CUSTOMER)}
        self.coalition = frozenset(
            keys.stash for keys in (*self.network.members, *([self.network.sybil] if has_sybil else []))
        )
        self.unit_id = bytes(32)
        self.case: CourtCase | None = None
        """The case after the newest block."""
        self.last_case: CourtCase | None = None
        """The case before it ended."""
        self.worked: Counter[bytes] = Counter()
        """Computations, by account."""
        self.raced: dict[bytes, None] = {}
        self.was_watched = False
        self.chain.chance = self._outputs(f"{setting.seed}/{number}", is_audited=is_audited)

    def play(self) -> None:
        """Play from the post to the end."""
        market = self.chain.now()[InferenceMarket]
        self.unit_id = unit_id_of(GENESIS_HASH, CUSTOMER.stash, market.post_counts[CUSTOMER.stash])
        asked = terms(PRICE, self.habit.racers, sealed_at=self.chain.height - 1)
        self.chain.block(signed(CUSTOMER.stash, InferenceMarket.post(service=SERVICE, units=(asked,))))
        for _ in range(BLOCKS_MAX):
            bound = self.chain.now()
            unit, self.case = bound[InferenceMarket].units[self.unit_id], bound[Courts].cases[self.unit_id]
            assert unit is not None, "the record of an ended unit is kept for longer"
            self.last_case = self.case or self.last_case
            self.was_watched |= unit.is_watched
            if not is_open(unit) and not unit.is_watched:
                return
            self.chain.block(*self._steps(bound, unit))
        raise AssertionError("a unit without end")

    def owned(self) -> dict[bytes, int]:
        """Return the grains of each account, held and free."""
        balances = self.chain.now()[Balances]
        return {who: balances.free_balance(who) + balances.reserved_balance(who) for who in self.keys}

    def _outputs(self, seed: str, *, is_audited: bool) -> Outputs:
        def about() -> tuple[bytes, CourtCase | None]:
            return self.unit_id, self.case

        coin = Coin(self.chain, about, is_audited)
        if self.habit.grinds:
            return ChosenOutputs(seed, coin, self.coalition, self.setting.share_percent)
        return Outputs(seed, coin)

    # ------------------------------------------------------------------------------------------- the accounts' actions

    def _steps(self, bound: Bound, unit: Unit) -> Iterator[Step]:
        for event in self.chain.events:
            if isinstance(event, DevicePaused):  # its owner repairs the machine and resumes it
                yield from self._resume(bound, event.device)
        if unit.state is UnitState.RACING:
            yield from self._race(bound[InferenceMarket], unit)
        if self.case is not None and self.case.stage is CaseStage.APPEALABLE:
            yield from self._appeal(bound[Courts], self.case)
        elif self.case is not None and self.case.round is not None:
            yield from self._judge(bound[Courts], self.case)

    def _resume(self, bound: Bound, device: bytes) -> Iterator[Step]:
        found = bound[Devices].devices[device]
        if found is not None:
            yield tolerant(signed(found.owner, Devices.resume(device=device)))

    def _race(self, market: InferenceMarket, unit: Unit) -> Iterator[Step]:
        assert unit.round is not None, "a race has a round"
        height, windows = self.chain.height + 1, market.windows_of(unit)
        now = race_clocks.as_found(unit.round, unit.racers, windows, height, height - self.chain.final_lag)
        opened = []
        for racer in unit.racers:
            self.raced[racer.owner] = None
            does = self.habit.racing if racer.owner in self.coalition else honest_racing(self.habit)
            if self._looks_on(racer, unit, race_clocks.commit_deadline(racer, now, windows) or 0):
                continue
            if race_clocks.can_commit(racer, now, windows, height):
                yield from self._answer(racer, unit, does)
            elif not racer.commitment or racer.reveal or does is Racing.WITHHOLDS:
                continue
            elif rounds.can_reveal(now, windows, height):
                root = RIGHT if does is Racing.RIGHT else WRONG
                opened.append(attestation(self.keys[racer.owner], self.unit_id, unit, root))
        if opened:
            yield attach(*opened)

    def _looks_on(self, racer: Racer, unit: Unit, commits_until: int) -> bool:
        """Return whether a racer waits: it gives a missing input back late (`duties.races`).

        A coalition that hides the input until then answers after all other racers have declined.
        """
        if self.habit.input not in (Input.HIDDEN, Input.LATE, Input.LAST):
            return False
        if racer.owner not in self.coalition:
            race = Race(self.unit_id, unit, unit.racers.index(racer), 0, commits_until, 0, 0)
            return not must_give_back(race, self.chain.height)
        others = [other for other in unit.racers if other.owner not in self.coalition]
        return self.habit.input is Input.LATE and not all(other.has_declined for other in others)

    def _answer(self, racer: Racer, unit: Unit, does: Racing) -> Iterator[Step]:
        keys = self.keys[racer.owner]
        if does is Racing.DECLINES:
            call = InferenceMarket.decline(unit=self.unit_id, attempt=unit.attempt)
            yield signed(keys.provider, call)
        elif does is not Racing.ABSENT:
            self.worked[keys.stash] += does is Racing.RIGHT
            yield commit(keys, self.unit_id, unit, RIGHT if does is Racing.RIGHT else WRONG)

    def _judge(self, courts: Courts, case: CourtCase) -> Iterator[Step]:
        height = self.chain.height + 1
        for judge in case.benches[-1].members:
            keys, says = self.keys[judge], self._opinion(judge, case)
            if says.opinion is None:
                continue
            due = due_of(
                courts, self.unit_id, keys, statement_of(keys, says), height=height, final=height - self.chain.final_lag
            )
            for step in due:
                seat = courts.seats[judge, self.unit_id]
                is_first = seat is not None and seat.commitment is None
                # A judge computes once, before its commitment.
                if is_first and says.opinion == Answered(RIGHT) and not self._knows(judge, case):
                    self.worked[judge] += 1
                yield step

    def _opinion(self, judge: bytes, case: CourtCase) -> Says:
        if judge in self.coalition:
            return coalition_opinion(self.habit, case, has_stake=self.has_stake(case))
        return honest_opinion(self.habit, case)

    def _knows(self, judge: bytes, case: CourtCase) -> bool:
        """Return whether a judge repeats its coalition's opinion without computing."""
        return judge in self.coalition and self.habit.judges_lie and self.has_stake(case)

    def has_stake(self, case: CourtCase) -> bool:
        """Return whether a member of the coalition is a party."""
        return any(claim.account in self.coalition for claim in case.terms.claims)

    def _appeal(self, courts: Courts, case: CourtCase) -> Iterator[Step]:
        """Yield appeals: of honest parties as their daemons do, and of the coalition against costly verdicts."""
        appellants = [claim.account for claim in case.terms.claims if self._party_appeals(case, claim.account)]
        if self.setting.has_appeals:
            for judge in (member for bench in case.benches for member in bench.members):
                seat = courts.seats[judge, self.unit_id]
                if judge in self.coalition or seat is None:
                    continue
                if is_outvoted(SeatStatus(self.unit_id, seat, CaseStatus(case, 0, 0, 0)), self.chain.height):
                    appellants.append(judge)
        for account in appellants:  # the first appeal succeeds, and then there is no verdict to appeal against
            yield tolerant(signed(account, Courts.appeal(case_id=self.unit_id)))

    def _party_appeals(self, case: CourtCase, party: bytes) -> bool:
        if party not in self.coalition:
            return self.setting.has_appeals and honest_party_appeals(self.habit, case, party)
        if self.habit.input is Input.LAST:
            return isinstance(case.verdict, Unanswerable)
        own = [claim for claim in case.terms.claims if claim.account == party]
        return self.habit.appeals and any(fault_of(claim, case.verdict) is not None for claim in own)
