"""How a unit ends: one payment of all that was locked, and everything that it held set free.

Always: a unit ends once; then nothing of its customer's is held for it but the deposit, and it is on no agenda. Its
devices are bound to it until no audit can come any more; from then on its record stays readable for `keep_blocks` of
its rules, before it is dropped and its deposit returns to its customer.
"""

from dataclasses import dataclass, replace

from gpu_tasks.market.inference import money, race_results
from gpu_tasks.market.inference.events import ProviderRebated, RaceMissed, UnitRefunded, UnitSettled
from gpu_tasks.market.inference.race_results import RaceResult
from gpu_tasks.market.inference.state import MarketState
from gpu_tasks.market.inference.turns import DeviceTurns
from gpu_tasks.market.inference.units import (
    UNIT_DEPOSIT,
    UNIT_MONEY,
    OpenUnit,
    Racer,
    Refund,
    Unit,
    UnitState,
    is_open,
)
from runtime.frame.holds import Hold
from runtime.pallets.balances import Balances
from runtime.pallets.pots import PROVIDER_REWARDS, TREASURY
from runtime.pallets.staking.slashing import Share, part
from runtime.pallets.staking.trust_lock import TrustLock


@dataclass(frozen=True, slots=True)
class Ending:
    """Pays for results, gives prices back, and sets devices free."""

    state: MarketState
    turns: DeviceTurns
    lock: TrustLock
    balances: Balances

    def settle(
        self, unit: OpenUnit, result: RaceResult, *, is_watched: bool = False, aside: tuple[Hold, int] | None = None
    ) -> None:
        """Pay for a right result: the winner, and the agreeing runner-up as witness.

        `is_watched`: a case about it may come, for which its racers stand until `let_go`. `aside` is what stays held of
        the customer for who looks at it.
        """
        held, price = self.held(unit), money.due(unit.record, result.winner)
        if aside is not None:
            target, amount = aside
            self.lock.rededicate(unit.record.customer, Hold(UNIT_MONEY, unit.id), target, amount)
            held -= amount
        shares = money.settlement(
            unit.record,
            held,
            winner=result.winner,
            witness=result.witness,
            treasury=TREASURY,
        )
        back = sum(share.amount for share in shares if share.payee == unit.record.customer)
        paid = unit.record.escrow + unit.record.bond - back
        ended = replace(
            unit.record, state=UnitState.SETTLED, output_root=result.output_root, paid=paid, is_watched=is_watched
        )
        self._end(unit, shares, ended)
        self._rebate(result.winner.owner, unit.record, price)
        self.state.emit(_settled(unit, result, price, paid))

    def refund(self, unit: OpenUnit, reason: Refund) -> None:
        """Give back what is held: all, but a part of the bond where the customer changed its mind."""
        shares = money.refund(unit.record, self.held(unit), reason)
        kept = sum(share.amount for share in shares if share.payee == unit.record.customer)
        lost = unit.record.escrow + unit.record.bond - kept
        self._end(unit, shares, replace(unit.record, state=UnitState.REFUNDED, refund=reason, paid=lost))
        self.state.emit(UnitRefunded(unit.id, reason, lost))

    def let_go(self, unit: OpenUnit) -> None:
        """No case about the unit can come any more: its racers are free, and its record waits for its end."""
        record, height = unit.record, self.state.system.number.get()
        self._release(unit, (*record.racers, *record.decliners))
        self.state.devices.end_collateral(unit.id)
        self.state.units[unit.id] = replace(record, is_watched=False)
        self.state.catalogue.count_units(record.service, -1)
        self.state.agenda.expiring.put(height + record.rules.keep_blocks, unit.id)

    def forget(self, unit_id: bytes) -> None:
        """Drop the record of an ended unit, and return what was deposited for it."""
        record = self.state.units[unit_id]
        assert record is not None, "a record is dropped once"
        assert not is_open(record), "no open unit is forgotten"
        assert not record.is_watched, "no unit is forgotten for which somebody stands"
        self.lock.unlock(record.customer, Hold(UNIT_DEPOSIT, unit_id), record.deposit)
        self.lock.end(Hold(UNIT_DEPOSIT, unit_id))
        del self.state.units[unit_id]

    def release_racers(self, unit: OpenUnit) -> Unit:
        """Set the devices of a race free that gave no result; the record as it goes on.

        Who declined stands for that until a committee has looked at the input, or the unit ends.
        """
        record = unit.record
        decliners = (*record.decliners, *(racer for racer in record.racers if racer.has_declined))
        self._release(unit, tuple(racer for racer in record.racers if not racer.has_declined))
        self._end_duties(unit)
        if not decliners:
            self.state.devices.end_collateral(unit.id)
        return replace(record, racers=(), decliners=decliners)

    def release_all(self, unit: OpenUnit) -> Unit:
        """Set everybody free who stands for something, after a case about the unit; the record as it goes on."""
        self._release(unit, (*unit.record.racers, *unit.record.decliners))
        self._end_duties(unit)
        self.state.devices.end_collateral(unit.id)
        return replace(unit.record, racers=(), decliners=())

    def idle(self, unit: OpenUnit, racer: Racer) -> OpenUnit:
        """A racer did not commit in a whole lease: a part of its collateral, and a pause."""
        return self._miss(unit, racer, part(racer.collateral, unit.record.rules.idle_penalty))

    def withheld(self, unit: OpenUnit, racer: Racer) -> OpenUnit:
        """A racer did not open its commitment, and no case comes of it: a part of the price, and a pause."""
        return self._miss(unit, racer, part(unit.record.price, unit.record.rules.withheld_penalty))

    def held(self, unit: OpenUnit) -> int:
        """What the customer has locked for the unit's outcome, less what a case took of it."""
        record, held = unit.record, self.lock.locked(unit.record.customer, Hold(UNIT_MONEY, unit.id))
        assert is_open(record), "a unit ends once"
        is_whole = held == record.escrow + record.bond
        assert is_whole or record.state is UnitState.JUDGING, "only a case takes anything before a unit ends"
        return held

    def _miss(self, unit: OpenUnit, racer: Racer, amount: int) -> OpenUnit:
        """Burned: neither a customer nor a rival shall live on making others miss."""
        taken = min(amount, racer.collateral)
        self.state.devices.charge(racer.device, unit.id, (Share(None, taken),))
        self.state.devices.halt(racer.device, unit.id)
        self.state.emit(RaceMissed(unit.id, racer.owner, taken))
        racers = race_results.with_racer(unit.record.racers, replace(racer, collateral=racer.collateral - taken))
        return OpenUnit(unit.id, replace(unit.record, racers=racers))

    def _end(self, unit: OpenUnit, shares: tuple[Share, ...], ended: Unit) -> None:
        record, height = unit.record, self.state.system.number.get()
        self._pay_out(unit, shares)
        self._end_duties(unit)
        self.state.agenda.drop(record.posted_at, unit.id)
        if record.asleep_since:
            self.state.sleepers.rouse(record.service, record.asleep_since, unit.id)
        ended = replace(ended, ended_at=height, asleep_since=0)
        self.state.units[unit.id] = ended
        if ended.is_watched:
            for racer in record.racers:
                self.turns.free(racer.device, unit.id)
        else:
            self.let_go(OpenUnit(unit.id, ended))

    def _release(self, unit: OpenUnit, racers: tuple[Racer, ...]) -> None:
        for racer in racers:
            self.turns.unsecure(racer.device, unit.id)

    def _end_duties(self, unit: OpenUnit) -> None:
        for racer in unit.record.racers:
            del self.state.duties[racer.owner, unit.id]

    def _pay_out(self, unit: OpenUnit, shares: tuple[Share, ...]) -> None:
        """Pay the unit's lock as the shares say; its deposit stays with its record."""
        hold = Hold(UNIT_MONEY, unit.id)
        held = self.lock.locked(unit.record.customer, hold)
        assert sum(share.amount for share in shares) == held, "the shares add up to what is held"
        self.lock.pay_out(unit.record.customer, hold, shares)
        self.lock.end(hold)

    def _rebate(self, provider: bytes, record: Unit, price: int) -> None:
        """Return most of a winner's fee on its price out of the era's emission to providers, while that lasts."""
        # less than the fee, so that buying from oneself never pays
        amount = min(money.rebate(record.rules, price), self.balances.free_balance(PROVIDER_REWARDS))
        if amount:
            self.balances.debit(PROVIDER_REWARDS, amount)
            self.balances.credit(provider, amount)
            self.state.emit(ProviderRebated(provider, amount))


def _settled(unit: OpenUnit, result: RaceResult, price: int, paid: int) -> UnitSettled:
    reveal = result.winner.reveal
    assert reveal is not None, "a winner has revealed"
    return UnitSettled(
        unit=unit.id,
        output_root=result.output_root,
        output_blob=reveal.output_blob,
        winner=result.winner.owner,
        price=price,
        witness=result.witness.owner if result.witness else None,
        paid=paid,
    )
