"""Courts: judges for any case of any pallet, and audits of what was believed.

A handler (see `handlers`) opens a case with its terms; the beacon draws judges among the validators in office; they
commit, then open; a verdict waits for appeals; a court has the last word. This module is the pallet: calls, hook, and
the verbs that handlers use.

Always: a case is keyed by an id of its handler's and is open once; its parameters are frozen when it opens; the hook is
bounded by work; a case pays from what it holds itself, and nothing is held for one that is over.
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
from gpu_tasks.market.courts.due import case_of, due_case
from gpu_tasks.market.courts.money import audit_premium, case_collateral, judge_fee, seat_hold
from gpu_tasks.market.courts.numbers import PromisedNumbers
from gpu_tasks.market.courts.opinions import Statement
from gpu_tasks.market.courts.storage import CourtsStorage
from gpu_tasks.market.weights import WEIGHTS
from runtime.encoding.types import Hash, Weight
from runtime.frame.pallet import FREE, PostDispatch, Signed, call, known
from runtime.frame.weights import work

HEIGHT_BUDGET = work(microseconds=8_000)
FINAL_BUDGET = work(microseconds=8_000)
"""For seeing which cases are due."""
CASES_BUDGET = work(microseconds=48_000)
"""For looking at them, the dearest first."""
DUE_WEIGHT = work(reads=1, writes=1, microseconds=12)
"""A case that is due from now on."""


class Courts(CourtsStorage, index=14):
    """Judges of cases, keyed by case, for every pallet that has some."""

    events = (
        ev.CaseOpened, ev.BenchDrawn, ev.OpinionCommitted, ev.OpinionOpened, ev.CaseDecided, ev.CaseAppealed,
        ev.CourtCalled, ev.CaseEnded, ev.JudgeCharged,
    )  # fmt: skip
    errors = (ev.UnknownCase, ev.NotSeated, ev.OutOfTurn, ev.SaidAlready, ev.OpensNothing, ev.NotAppealable)
    hold_reasons = (JUDGE_SEAT, APPEAL_BOND)

    # ------------------------------------------------- duty calls: signed by the provider key, free when they succeed

    @call(index=0, weight=WEIGHTS["Courts.commit_opinion"])
    def commit_opinion(self, origin: Signed, case_id: Hash, commitment: Hash) -> PostDispatch:
        """Commit to an opinion as a judge of the bench that sits (opinions.opinion_commitment)."""
        hearing.commit(self, case_id, self.open_case(case_id), self.devices.operator(origin.account), commitment)
        return FREE

    @call(index=1, weight=WEIGHTS["Courts.open_opinion"])
    def open_opinion(self, origin: Signed, case_id: Hash, statement: Statement, salt: Hash) -> PostDispatch:
        """Open what was committed to: the opinion, and the probe at the place that the seat was given."""
        judge = self.devices.operator(origin.account)
        hearing.open_opinion(self, case_id, self.open_case(case_id), judge, statement, salt)
        return FREE

    @call(index=2, weight=WEIGHTS["Courts.appeal"])
    def appeal(self, origin: Signed, case_id: Hash) -> None:
        """Put a bond against a verdict: a court decides. Won, it returns with twice the price; lost, it pays the court.

        The stash signs, or its provider key; the bond is the stash's. The case's customer appeals for itself, whoever
        may call its account a provider key.
        """
        found, who = self.open_case(case_id), origin.account
        appellant = who if who == found.terms.customer else self.devices.operator(who)
        hearing.appeal(self, case_id, found, appellant)

    # ----------------------------------------------------------------------------------------------- verbs for handlers

    def open(
        self, handler: int, case: bytes, terms: CaseTerms, promised: PromisedNumbers, settled: bytes | None = None
    ) -> None:
        """Bring a dispute: a committee of three is drawn. `settled`: what stands, where that is what it is about."""
        hearing.begin(self, case, self._new(handler, CaseStage.COMMITTEE, terms, promised, settled))

    def confirm(self, handler: int, case: bytes, terms: CaseTerms, promised: PromisedNumbers, given: bytes) -> None:
        """Have a lone answer looked at by an audit's pair before it is believed."""
        hearing.begin(self, case, self._new(handler, CaseStage.PAIR, terms, promised, given))

    def watch(self, handler: int, case: bytes, terms: CaseTerms, promised: PromisedNumbers, settled: bytes) -> None:
        """Have an answer that was believed audited, if the beacon of one of the next blocks says so."""
        hearing.begin(self, case, self._new(handler, CaseStage.CHANCE, terms, promised, settled))

    def open_late(self, case: bytes, party: bytes, root: bytes) -> None:
        """Note what a party committed to and did not open in time; OutOfTurn if it may not any more."""
        hearing.open_late(self, case, self.open_case(case), party, root)

    def open_case(self, case: bytes) -> CourtCase:
        """A case that is not over; UnknownCase if there is none."""
        return known(self.cases[case], ev.UnknownCase)

    def promise(self, price: int) -> PromisedNumbers:
        """What a handler may promise now of a case of this price."""
        return PromisedNumbers(self.fee_of(price), self.audit_rate_ppm)

    def fee_of(self, price: int) -> int:
        """What a judge of a case of this price is paid, now."""
        return judge_fee(price, self.judge_fee_ppm, self.judge_fee_min)

    def collateral_of(self, price: int) -> int:
        """What who answers for this price must stand for, now."""
        return case_collateral(price, self.audit_rate_ppm, self.fee_of(price))

    def premium_of(self, price: int) -> int:
        """What a settlement of this price pays into the audit pot, now."""
        return audit_premium(self.audit_rate_ppm, self.fee_of(price))

    def pay_premium(self, payer: bytes, amount: int) -> None:
        """Move free grains of a settlement into the audit pot."""
        self.balances.debit(payer, amount)
        self.balances.credit(AUDIT_POT, amount)

    # ------------------------------------------------------------------------------------------------------------ hook

    def on_initialize(self) -> Weight:
        """See which cases are due, by height and by finality; then look at them, who is about most first.

        Where an era turns and many stand for election, cases wait a block.
        """
        room = BlockRoom(self.context.mandatory_left - KEPT_FOR_UNITS.ref_time)
        reached, final, cases = (room.budget(kind) for kind in (HEIGHT_BUDGET, FINAL_BUDGET, CASES_BUDGET))
        for case_id in self.agenda.take(self.system.number.get(), reached, DUE_WEIGHT):
            self.due[due_case(self.prices[case_id], case_id)] = True
        for case_id in self.final_agenda.take(self.beacon.final_height(), final, DUE_WEIGHT):
            self.due[due_case(self.prices[case_id], case_id)] = True
        # in line by their heights, cases about dust kept every other waiting: 68 blocks for 2 oGPU a block
        for due in self.due.keys():  # noqa: SIM118 - a storage item, not a dictionary
            if cases.is_spent:
                break
            del self.due[due]
            cases.spend(hearing.step(self, case_of(due), self._on_agenda(case_of(due))))
        return reached.spent + final.spent + cases.spent

    def _on_agenda(self, case_id: bytes) -> CourtCase:
        found = self.cases[case_id]
        assert found is not None, "a case that is over is on no agenda"
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
