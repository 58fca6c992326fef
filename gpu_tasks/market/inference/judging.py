"""A dispute from its opening to its verdict.

Always: judges come from the validators in office that could open the input when it was sealed; the
customer, the racers and earlier judges of the unit are none of them; a verdict moves money only
after `committees.decision`; a dispute that nobody can decide costs nobody anything.
"""

from dataclasses import dataclass, replace

from gpu_tasks.market import rounds
from gpu_tasks.market.draws import BEACON_DELAY
from gpu_tasks.market.ids import UnitId
from gpu_tasks.market.inference import committees, races
from gpu_tasks.market.inference.commitments import InputBad, Recomputed, verdict_commitment
from gpu_tasks.market.inference.committees import Committee, Judge
from gpu_tasks.market.inference.ending import Ending
from gpu_tasks.market.inference.events import (
    AlreadyDone,
    CommitteeDecided,
    CommitteeDrawn,
    NotAssigned,
    UnitDisputed,
    VerdictCommitted,
    VerdictRevealed,
    WindowClosed,
    WrongOpening,
)
from gpu_tasks.market.inference.queueing import Queueing
from gpu_tasks.market.inference.state import MarketState
from gpu_tasks.market.inference.units import Duty, OpenUnit, Refund, Unit, UnitState
from gpu_tasks.market.rounds import Round
from runtime.cryptography.draw import lottery
from runtime.frame.pallet import StorageMap, ensure, known
from runtime.pallets.staking.trust_stake import TrustStake

JUDGES_MIN = 2
"""One judge alone decides nothing."""


@dataclass(frozen=True, slots=True)
class Judging:
    """Draws committees for units in dispute, hears their verdicts, and carries them out."""

    state: MarketState
    queueing: Queueing
    ending: Ending
    stake: TrustStake
    committees: StorageMap[UnitId, Committee | None]

    def open_dispute(self, unit: OpenUnit) -> None:
        """Hand a unit over to a committee, which is drawn once its beacon is final."""
        self.state.units[unit.id] = replace(unit.record, state=UnitState.JUDGING)
        self.state.emit(UnitDisputed(unit.id))
        self._record(unit.id, committees.first_committee(self.state.system.number.get()))

    def step(self, unit: OpenUnit) -> None:
        """Do what is due in a dispute: draw the committee, open reveals, read the verdicts."""
        committee, final_height = self.committees[unit.id], self.state.beacon.final_height()
        assert committee is not None, "a unit in dispute has a committee"
        if committee.round is None:
            if final_height >= committee.recorded_at + BEACON_DELAY:
                self._draw(unit, committee)
            return
        height = self.state.system.number.get()
        windows = unit.record.rules.committee_windows()
        current = rounds.advanced(committee.round, windows, height, final_height)
        if rounds.is_void(current) or rounds.is_over(current, windows, height):
            self._read_verdicts(unit, committee)
        else:
            self._go_on(unit, committee, current)

    def commit_verdict(self, unit: OpenUnit, account: bytes, number: int, commitment: bytes) -> None:
        """A judge commits to a verdict."""
        committee, judge, current = self._acting(unit.id, account, number)
        height = self.state.system.number.get()
        ensure(judge.commitment is None, AlreadyDone)
        ensure(rounds.can_commit(current, unit.record.rules.committee_windows(), height), WindowClosed)
        committee = committees.with_member(committee, replace(judge, commitment=commitment))
        current = rounds.committed(current, height, is_last=committees.is_all_committed(committee))
        self.state.emit(VerdictCommitted(unit.id, number, account))
        self._go_on(unit, committee, current)

    def reveal_verdict(
        self, unit: OpenUnit, account: bytes, number: int, verdict: Recomputed | InputBad, salt: bytes
    ) -> None:
        """A judge opens its verdict; the last one to do so decides at once."""
        committee, judge, current = self._acting(unit.id, account, number)
        ensure(judge.commitment is not None, NotAssigned)
        ensure(judge.verdict is None, AlreadyDone)
        windows = unit.record.rules.committee_windows()
        ensure(rounds.can_reveal(current, windows, self.state.system.number.get()), WindowClosed)
        expected = verdict_commitment(self.state.system.block_hash[0], unit.id, number, account, verdict, salt)
        # bound to its maker: a commitment that was copied from another judge opens nothing
        ensure(expected == judge.commitment, WrongOpening)
        committee = committees.with_member(committee, replace(judge, verdict=verdict))
        self.state.emit(VerdictRevealed(unit.id, number, account, verdict))
        if committees.is_all_revealed(committee):
            self._read_verdicts(unit, committee)
        else:
            self.committees[unit.id] = committee

    def _acting(self, unit_id: bytes, account: bytes, number: int) -> tuple[Committee, Judge, Round]:
        """The committee number `number` of the unit, the account's seat in it, and its round."""
        committee = known(self.committees[unit_id], NotAssigned)
        ensure(committee.number == number, NotAssigned)
        judge = known(committees.member_of(committee, account), NotAssigned)
        return committee, judge, known(committee.round, NotAssigned)

    def _record(self, unit_id: bytes, committee: Committee) -> None:
        self.committees[unit_id] = committee
        self.state.agenda.once_final(committee.recorded_at + BEACON_DELAY, unit_id)

    def _go_on(self, unit: OpenUnit, committee: Committee, current: Round) -> None:
        """Write a committee whose round goes on, and have the unit called when it can next change by itself."""
        self.committees[unit.id] = replace(committee, round=current)
        self.state.agenda.follow(unit.id, current, unit.record.rules.committee_windows())

    def _draw(self, unit: OpenUnit, committee: Committee) -> None:
        height = self.state.system.number.get()
        seed = self.state.beacon.value_at(committee.recorded_at + BEACON_DELAY)
        if seed is None:  # finality stood still for longer than the beacon remembers
            self._record(unit.id, replace(committee, recorded_at=height))
            return
        eligible = self._eligible(unit.record, committee)
        drawn = lottery(seed, b"judges" + unit.id + bytes((committee.number,)), eligible, committee.size)
        if len(drawn) < JUDGES_MIN:
            self._give_up(unit, committee)
            return
        members = tuple(Judge(eligible[place][0]) for place in drawn)
        for judge in members:
            self.state.duties[judge.account, unit.id] = Duty.JUDGE
        self._go_on(unit, replace(committee, members=members), Round(drawn_at=height))
        self.state.emit(CommitteeDrawn(unit.id, committee.number, tuple(judge.account for judge in members)))

    def _eligible(self, record: Unit, committee: Committee) -> list[tuple[bytes, int]]:
        """Who may judge, with its weight: in office, without offence, a reader of the input, and no party."""
        parties = self._parties(record, committee)
        chosen = []
        for seat in self.stake.validators(self.state.beacon.epoch()):
            provider = self.state.devices.providers[seat.stash]
            if (
                provider is not None
                and provider.key_since <= record.terms.sealed_at
                and self.stake.is_candidate(seat.stash)
                and seat.stash not in parties
            ):
                chosen.append((seat.stash, seat.weight))
        return chosen

    def _parties(self, record: Unit, committee: Committee) -> tuple[bytes, ...]:
        """Who may not judge, because it has a part in the unit or had its say."""
        operator = self.state.devices.operator(record.customer)  # a stash may post with its provider key
        racers = (racer.owner for racer in record.racers)
        return (record.customer, operator, *record.declined_by, *racers, *committee.served)

    def _read_verdicts(self, unit: OpenUnit, committee: Committee) -> None:
        verdict = committees.decision(committee)
        if verdict is None:
            self._escalate(unit, committee)
            return
        self.state.emit(CommitteeDecided(unit.id, committee.number, verdict))
        judges = committees.majority(committee, verdict)
        self._dissolve(unit.id, committee)
        if isinstance(verdict, InputBad):
            self.ending.refund(unit, Refund.INPUT_BAD, judges)
        else:
            self._enforce(unit, verdict.output_root, judges)

    def _enforce(self, unit: OpenUnit, output_root: bytes, judges: tuple[bytes, ...]) -> None:
        """Slash who revealed another root; pay who revealed this one, or draw the unit again."""
        for liar in races.liars(unit.record.racers, output_root):
            self.ending.slash_liar(unit, liar, judges)
        result = races.result(unit.record.racers, output_root)
        if result is None:
            self.queueing.requeue(unit)
        else:
            self.ending.settle(unit, result, judges)

    def _escalate(self, unit: OpenUnit, committee: Committee) -> None:
        """Ask the committee that follows one that did not decide."""
        following = committees.next_committee(committee, self.state.system.number.get())
        if following is None:
            self._give_up(unit, committee)
            return
        self._dissolve(unit.id, committee)
        self._record(unit.id, following)

    def _give_up(self, unit: OpenUnit, committee: Committee) -> None:
        """Nobody is left to ask: everything comes back, and nobody is slashed."""
        self._dissolve(unit.id, committee)
        self.ending.refund(unit, Refund.INCONCLUSIVE)

    def _dissolve(self, unit_id: bytes, committee: Committee) -> None:
        for judge in committee.members:
            del self.state.duties[judge.account, unit_id]
        del self.committees[unit_id]
