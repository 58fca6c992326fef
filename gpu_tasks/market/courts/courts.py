"""The pallet Courts: judges for any case of any pallet, and audits of accepted results.

A handler (see `handlers`) opens a case with its terms. The beacon draws judges from the active set. They commit, then
open. A verdict waits for appeals, and a court decides last. This module has the calls, the hook, and the methods for
handlers.

Invariants: a case is keyed by an id of its handler and is open once. Its parameters are frozen when it opens. The work
of the hook is bounded. A case pays only from its own holds, and nothing is held for a case that is over.
"""

from gpu_tasks.market.block_room import KEPT_FOR_UNITS, BlockRoom
from gpu_tasks.market.courts import events as ev
from gpu_tasks.market.courts import hearing
from gpu_tasks.market.courts.cases import (
    APPEAL_BOND,
    AUDIT_POT,
    JUDGE_SEAT,
    CaseKind,
    CaseStage,
    CaseTerms,
    CourtCase,
)
from gpu_tasks.market.courts.money import case_collateral, judge_fee, seat_hold
from gpu_tasks.market.courts.numbers import PromisedNumbers
from gpu_tasks.market.courts.opinions import Statement
from gpu_tasks.market.courts.storage import CourtsStorage
from gpu_tasks.market.due import case_of, due_case
from gpu_tasks.market.weights import WEIGHTS
from runtime.encoding.types import Hash, Weight
from runtime.frame.pallet import FREE, PostDispatch, Signed, call, known
from runtime.frame.weights import work

HEIGHT_BUDGET = work(microseconds=4_000)
FINAL_BUDGET = work(microseconds=4_000)
"""The weight for finding due cases."""
CASES_BUDGET = work(microseconds=16_000)
"""The weight for handling them, highest price first."""
DUE_WEIGHT = work(reads=1, writes=1, microseconds=12)
"""The weight of noting a due case."""


class Courts(CourtsStorage, index=14):
    """Judges of cases, keyed by case, for every pallet."""

    events = (
        ev.CaseOpened, ev.BenchDrawn, ev.OpinionCommitted, ev.OpinionOpened, ev.CaseDecided, ev.CaseAppealed,
        ev.CourtCalled, ev.CaseEnded, ev.JudgeCharged,
    )  # fmt: skip
    errors = (ev.UnknownCase, ev.NotSeated, ev.OutOfTurn, ev.SaidAlready, ev.OpensNothing, ev.NotAppealable)
    hold_reasons = (JUDGE_SEAT, APPEAL_BOND)

    # ----------------------------------------------------- duty calls: signed by the provider key, free if they succeed

    @call(index=0, weight=WEIGHTS["Courts.commit_opinion"])
    def commit_opinion(self, origin: Signed, case_id: Hash, commitment: Hash) -> PostDispatch:
        """Commit to an opinion as a judge of the sitting bench (`opinions.opinion_commitment`). Free if it succeeds."""
        hearing.commit(self, case_id, self.open_case(case_id), self.devices.operator(origin.account), commitment)
        return FREE

    @call(index=1, weight=WEIGHTS["Courts.open_opinion"])
    def open_opinion(self, origin: Signed, case_id: Hash, statement: Statement, salt: Hash) -> PostDispatch:
        """Open your committed opinion, with the probe at your seat's place. Free if it succeeds."""
        judge = self.devices.operator(origin.account)
        hearing.open_opinion(self, case_id, self.open_case(case_id), judge, statement, salt)
        return FREE

    @call(index=2, weight=WEIGHTS["Courts.appeal"])
    def appeal(self, origin: Signed, case_id: Hash) -> None:
        """Appeal a verdict with a bond: a court decides.

        A won appeal returns the bond with twice the price, a lost one pays the court. The signer is the stash or its
        provider key, and the stash holds the bond. The case's customer appeals for itself, even if a stash names its
        account as provider key.
        """
        found, who = self.open_case(case_id), origin.account
        appellant = who if who == found.terms.customer else self.devices.operator(who)
        hearing.appeal(self, case_id, found, appellant)

    # --------------------------------------------------------------------------------------------- methods for handlers

    def open(
        self, handler: int, case: bytes, terms: CaseTerms, promised: PromisedNumbers, settled: bytes | None = None
    ) -> None:
        """Open a dispute: a committee of three is drawn. `settled` is the settled root, if the dispute is about one."""
        hearing.begin(self, case, self._new(handler, CaseStage.COMMITTEE, terms, promised, settled))

    def confirm(self, handler: int, case: bytes, terms: CaseTerms, promised: PromisedNumbers, given: bytes) -> None:
        """Have a lone answer checked by an audit's pair before it is paid."""
        hearing.begin(self, case, self._new(handler, CaseStage.PAIR, terms, promised, given))

    def watch(self, handler: int, case: bytes, terms: CaseTerms, promised: PromisedNumbers, settled: bytes) -> None:
        """Have an accepted answer audited, if the beacon of one of the next blocks orders it."""
        hearing.begin(self, case, self._new(handler, CaseStage.CHANCE, terms, promised, settled))

    def open_late(self, case: bytes, party: bytes, root: bytes) -> None:
        """Record a party's late opening. Raise OutOfTurn if it is too late."""
        hearing.open_late(self, case, self.open_case(case), party, root)

    def open_case(self, case: bytes) -> CourtCase:
        """Return a case that is not over. Raise UnknownCase if there is none."""
        return known(self.cases[case], ev.UnknownCase)

    def promise(self, price: int) -> PromisedNumbers:
        """Return the numbers that a handler may promise now for a case of this price."""
        return PromisedNumbers(self.fee_of(price), self.audit_rate_ppm)

    def fee_of(self, price: int) -> int:
        """Return the current fee of a judge of a case of this price."""
        return judge_fee(price, self.judge_fee_ppm, self.judge_fee_min)

    def collateral_of(self, price: int) -> int:
        """Return the current collateral of an answer at this price."""
        return case_collateral(price, self.audit_rate_ppm, self.fee_of(price))

    def pay_premium(self, payer: bytes, amount: int) -> None:
        """Move free grains of a settlement into the audit pot."""
        self.balances.debit(payer, amount)
        self.balances.credit(AUDIT_POT, amount)

    # ------------------------------------------------------------------------------------------------------------ hook

    def on_initialize(self) -> Weight:
        """Find the due cases, by height and by finality. Then handle them, highest price first.

        At an era's turn with many candidates, cases may wait a block.
        """
        room = BlockRoom(self.context.mandatory_left - KEPT_FOR_UNITS.ref_time)
        reached, final, cases = (room.budget(kind) for kind in (HEIGHT_BUDGET, FINAL_BUDGET, CASES_BUDGET))
        for case_id in self.agenda.take(self.system.number.get(), reached, DUE_WEIGHT):
            self.due[due_case(self.prices[case_id], case_id)] = True
        for case_id in self.final_agenda.take(self.beacon.final_height(), final, DUE_WEIGHT):
            self.due[due_case(self.prices[case_id], case_id)] = True
        # Ordered by height, cheap cases delayed all others: 68 blocks at a cost of 2 oGPU a block.
        for due in self.due.keys():  # noqa: SIM118 - a storage item, not a dictionary
            if cases.is_spent:
                break
            del self.due[due]
            cases.spend(hearing.step(self, case_of(due), self._on_agenda(case_of(due))))
        return reached.spent + final.spent + cases.spent

    def _on_agenda(self, case_id: bytes) -> CourtCase:
        found = self.cases[case_id]
        assert found is not None, "every case on an agenda has a record"
        return found

    def _new(
        self,
        handler: int,
        stage: CaseStage,
        terms: CaseTerms,
        promised: PromisedNumbers,
        settled: bytes | None = None,
    ) -> CourtCase:
        return CourtCase(
            handler=handler,
            kind=CaseKind.DISPUTE if stage is CaseStage.COMMITTEE else CaseKind.AUDIT,
            terms=terms,
            fee=promised.fee,
            seat=seat_hold(terms.collateral, promised.fee, terms.price),
            rules=self.rules(promised.rate_ppm),
            settled=settled,
            stage=stage,
            recorded_at=self.system.number.get(),
        )
