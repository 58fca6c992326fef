"""One case over the real courts: brought, judged and appealed, until no hold remains.

Invariant: the pallets decide all outcomes. Accounts here only act, as daemons or as the coalition do.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from gpu_tasks.market.courts.cases import CaseStage, ClaimKind, CourtCase, PartyFault
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.courts_api import CaseStatus, SeatStatus
from gpu_tasks.market.courts.money import FIRST_JUDGES
from gpu_tasks.market.courts.opinions import Answered
from gpu_tasks.provider.duties.appeals import is_found_lying, is_outvoted
from runtime.pallets.balances import Balances
from simulation.chains.court_chain import PRICE, RIGHT, WRONG, Says, Step, Toys, statement_of
from simulation.chains.market_chain import CUSTOMER, due_of, signed, tolerant
from simulation.courts.chances import ChosenOutputs
from simulation.courts.habits import Brought, Habit, is_found_at_fault, opinion_of_coalition
from simulation.courts.network import members_of, network, provider_of

BLOCKS_MAX = 1_000


@dataclass(frozen=True)
class Setting:
    """A network, a coalition and its habit."""

    size: int
    share_percent: int
    habit: Habit
    has_appeals: bool
    """True if honest parties and outvoted judges appeal."""
    cases: int
    seed: int = 1


class Season:
    """The life of one case."""

    def __init__(self, setting: Setting, number: int) -> None:
        """Copy the network."""
        self.setting, self.habit = setting, setting.habit
        self.stage = network(setting.size, setting.share_percent)
        self.chain, self.provider = self.stage.chain, provider_of(self.stage)
        self.keys = {keys.stash: keys for keys in (*self.chain.validators, self.provider, CUSTOMER)}
        members = self.chain.validators[: members_of(setting.size, setting.share_percent)]
        own = (
            *members,
            *([self.provider] if self.habit.has_provider else []),
            *([CUSTOMER] if self.habit.has_customer else []),
        )
        self.coalition = frozenset(keys.stash for keys in own)
        self.case_id = bytes(32)
        self.case: CourtCase | None = None
        """The case after the newest block."""
        self.last_case: CourtCase | None = None
        """The case before it ended."""
        self.worked: Counter[bytes] = Counter()
        """Computations, by account."""
        seed = f"{setting.seed}/{number}"
        self.chain.chance = Random(seed)
        if self.habit.grinds:
            self.chain.chance = ChosenOutputs(seed, self.chain, self._about, self.coalition, setting.share_percent)

    def play(self) -> None:
        """Play from the opening to the end."""
        self._bring()
        for _ in range(BLOCKS_MAX):
            self.case = self.stage.case(self.case_id)
            if self.case is None:
                return
            self.last_case = self.case
            self.chain.block(*self._steps(self.case))
        raise AssertionError("a case without end")

    @property
    def fault(self) -> PartyFault | None:
        """The provider's fault, once the case is over."""
        found = self.chain.now()[Toys].faults[self.case_id, self.provider.stash]
        return None if found is None else PartyFault(found)

    def owned(self) -> dict[bytes, int]:
        """Return the grains of each account, held and free."""
        balances = self.chain.now()[Balances]
        return {who: balances.free_balance(who) + balances.reserved_balance(who) for who in self.keys}

    def _about(self) -> tuple[bytes, CourtCase | None]:
        return self.case_id, self.case

    # ------------------------------------------------------------------------------------------- the accounts' actions

    def _bring(self) -> None:
        """Open the case with the terms of a training task's slot."""
        brought, fee = self.habit.brought, self.chain.now()[Courts].fee_of(PRICE)
        money: dict[str, Any] = {
            "customer_bond": 0,
            "customer_price": FIRST_JUDGES * fee,
            "pot_max": FIRST_JUDGES * fee,
        }
        if brought.is_result:
            root = RIGHT if brought is Brought.RIGHT else WRONG
            self.worked[self.provider.stash] += brought is Brought.RIGHT
            claims = [(self.provider.stash, ClaimKind.ANSWERED, root)]
            self.case_id = self.stage.bring(claims, settled=root, is_confirmed=True, **money)
        else:
            self.case_id = self.stage.bring([(self.provider.stash, ClaimKind.DECLINED, None)], **money)

    def _steps(self, case: CourtCase) -> Iterator[Step]:
        courts = self.chain.now()[Courts]
        if case.stage is CaseStage.APPEALABLE:
            yield from self._appeals(courts, case)
        elif case.round is not None:
            yield from self._judge(courts, case)

    def _judge(self, courts: Courts, case: CourtCase) -> Iterator[Step]:
        height = self.chain.height + 1
        for judge in case.benches[-1].members:
            is_own, truth = judge in self.coalition, self.habit.brought.truth
            opinion = opinion_of_coalition(self.habit) if is_own else truth
            if opinion is None:
                continue
            said = statement_of(self.keys[judge], Says(opinion))
            seat = courts.seats[judge, self.case_id]
            for step in due_of(courts, self.case_id, self.keys[judge], said, height=height, final=height - 1):
                # A judge computes a result once, before its commitment.
                is_first = seat is not None and seat.commitment is None
                self.worked[judge] += is_first and opinion == truth and isinstance(truth, Answered)
                yield step

    def _appeals(self, courts: Courts, case: CourtCase) -> Iterator[Step]:
        """Yield appeals: of honest parties and judges as their daemons do, and of the coalition's provider."""
        appellants = [self.provider.stash] if self._provider_appeals(case) else []
        for judge in (member for bench in case.benches for member in bench.members):
            seat = courts.seats[judge, self.case_id]
            if judge in self.coalition or seat is None or not self.setting.has_appeals:
                continue
            if is_outvoted(SeatStatus(self.case_id, seat, CaseStatus(case, 0, 0, 0)), self.chain.height):
                appellants.append(judge)
        for account in appellants:  # the first appeal succeeds, and then there is no verdict to appeal against
            yield tolerant(signed(account, Courts.appeal(case_id=self.case_id)))

    def _provider_appeals(self, case: CourtCase) -> bool:
        """Return whether the provider appeals: against "a lie", or with the proof that an input is bad."""
        fault = is_found_at_fault(case, self.provider.stash)
        if self.habit.has_provider:
            return self.habit.appeals and fault is not None
        is_proven = fault is PartyFault.DECLINED and self.habit.brought is Brought.UNREADABLE
        return self.setting.has_appeals and (is_proven or is_found_lying(case, self.provider.stash))
