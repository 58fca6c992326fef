"""How a unit ends: one payment of all that was locked, and everything that it held set free.

Always: a unit ends once; then nothing is held for it, it is on no agenda, its devices are bound to it no more, and its
record stays readable for `keep_blocks` of its rules before it is dropped and its deposit returns to its customer.
"""

from dataclasses import dataclass, replace

from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.events import ProviderRebated, ProviderSlashed, RaceMissed, UnitRefunded, UnitSettled
from gpu_tasks.market.inference.races import RaceResult
from gpu_tasks.market.inference.state import MarketState
from gpu_tasks.market.inference.units import UNIT_DEPOSIT, UNIT_MONEY, OpenUnit, Racer, Refund, Unit, UnitState, is_open
from runtime.frame.holds import Hold
from runtime.pallets.balances import Balances
from runtime.pallets.pots import PROVIDER_REWARDS, TREASURY
from runtime.pallets.staking.slashing import Share
from runtime.pallets.staking.trust_lock import TrustLock


@dataclass(frozen=True, slots=True)
class Ending:
    """Pays for results, gives prices back, and sets devices free."""

    state: MarketState
    lock: TrustLock
    balances: Balances

    def settle(self, unit: OpenUnit, result: RaceResult, judges: tuple[bytes, ...] = ()) -> None:
        """Pay for a right result: the winner, and the agreeing runner-up or else the judges as witness."""
        winner = result.winner.owner
        witnesses = (result.witness.owner,) if result.witness else judges
        shares = money.settlement(unit.record, winner=winner, witnesses=witnesses, treasury=TREASURY)
        self._end(unit, shares, UnitState.SETTLED, result.output_root)
        self._rebate(winner, unit.record)
        self.state.emit(_settled(unit, result, shares))

    def refund(self, unit: OpenUnit, reason: Refund, judges: tuple[bytes, ...] = ()) -> None:
        """Give the price back; what happens to the bond depends on the reason."""
        shares = money.refund(unit.record, reason, judges)
        self._end(unit, shares, UnitState.REFUNDED)
        burned = sum(share.amount for share in shares if share.payee is None)
        self.state.emit(UnitRefunded(unit.id, reason, burned))

    def forget(self, unit_id: bytes) -> None:
        """Drop the record of an ended unit, and return what was deposited for it."""
        record = self.state.units[unit_id]
        assert record is not None, "a record is dropped once"
        assert not is_open(record), "no open unit is forgotten"
        self.lock.unlock(record.customer, Hold(UNIT_DEPOSIT, unit_id), record.deposit)
        self.lock.end(Hold(UNIT_DEPOSIT, unit_id))
        del self.state.units[unit_id]

    def release_racers(self, unit: OpenUnit) -> None:
        """Set every device of the race free, with its collateral."""
        for racer in unit.record.racers:
            self.state.devices.unsecure(racer.device, unit.id)
            del self.state.duties[racer.owner, unit.id]
        self.state.devices.end_collateral(unit.id)

    def miss(self, unit: OpenUnit, racer: Racer, *, is_customers_loss: bool) -> None:
        """A racer let the race down: a part of its device's bond, and a pause."""
        victim = unit.record.customer if is_customers_loss else None
        taken = self.state.devices.fail(racer.device, unit.id, unit.record.rules.miss_penalty, victim=victim)
        self.state.emit(RaceMissed(unit.id, racer.owner, taken))

    def slash_liar(self, unit: OpenUnit, liar: Racer, judges: tuple[bytes, ...]) -> None:
        """A racer revealed a wrong result: the unit's collateral, a part of its bond, and a pause."""
        devices, victim, ppm = self.state.devices, unit.record.customer, unit.record.rules.wrong_result_penalty
        collateral = devices.slash(liar.device, unit.id, liar.collateral, victim=victim, rewarded=judges)
        bond = self.lock.slash_wrong_result(liar.owner, ppm, victim=victim, rewarded=judges)
        devices.halt(liar.device, unit.id)
        self.state.emit(ProviderSlashed(unit.id, liar.owner, liar.device, collateral, bond))

    def _end(
        self, unit: OpenUnit, shares: tuple[Share, ...], state: UnitState, output_root: bytes | None = None
    ) -> None:
        record, height = unit.record, self.state.system.number.get()
        assert is_open(record), "a unit ends once"
        self._pay_out(unit, shares)
        self.release_racers(unit)
        self.state.agenda.drop(unit.id)
        if record.asleep_since:
            self.state.sleepers.rouse(record.service, record.asleep_since, unit.id)
        ended = replace(record, state=state, output_root=output_root, ended_at=height, asleep_since=0)
        self.state.units[unit.id] = ended
        self.state.catalogue.count_units(record.service, -1)
        self.state.agenda.expiring.put(height + record.rules.keep_blocks, unit.id)

    def _pay_out(self, unit: OpenUnit, shares: tuple[Share, ...]) -> None:
        """Pay the unit's lock as the shares say; its deposit stays with its record."""
        held, hold = unit.record.escrow + unit.record.bond, Hold(UNIT_MONEY, unit.id)
        assert sum(share.amount for share in shares) == held, "the shares of an outcome add up to what was locked"
        self.lock.pay_out(unit.record.customer, hold, shares)
        self.lock.end(hold)

    def _rebate(self, provider: bytes, record: Unit) -> None:
        """Return most of a winner's fee out of the era's emission to providers, while that lasts."""
        # less than the fee, so that buying from oneself never pays
        amount = min(money.rebate(record.rules, record.price), self.balances.free_balance(PROVIDER_REWARDS))
        if amount:
            self.balances.debit(PROVIDER_REWARDS, amount)
            self.balances.credit(provider, amount)
            self.state.emit(ProviderRebated(provider, amount))


def _settled(unit: OpenUnit, result: RaceResult, shares: tuple[Share, ...]) -> UnitSettled:
    record, reveal = unit.record, result.winner.reveal
    assert reveal is not None, "a winner has revealed"
    returned = sum(share.amount for share in shares if share.payee == record.customer)
    return UnitSettled(
        unit=unit.id,
        output_root=result.output_root,
        output_blob=reveal.output_blob,
        winner=result.winner.owner,
        price=record.price,
        witness=result.witness.owner if result.witness else None,
        paid=record.escrow + record.bond - returned,
    )
