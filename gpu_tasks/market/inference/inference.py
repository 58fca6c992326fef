"""The pallet InferenceMarket: continuous inference, mined in matched races.

A customer posts units. The beacon draws bonded devices of distinct owners for each. They commit, then reveal, and the
earliest result becomes a claim: the customer reads it, validators may check it, and then it is paid. This module has
the calls and the hook. Other modules carry them out on the storage: the catalogue of services, and the life of a unit
from intake through queue, race, dispute and claim to settlement.

Invariants:

* `units[u]` and the holds agree: for the case `u`, an open unit holds `escrow + bond` of its customer as UNIT_MONEY.
  Its record holds `deposit` as UNIT_DEPOSIT while it exists.
* Every open unit is on a schedule, or has an open claim or dispute, so every state ends by itself.
* The work of the hook is bounded, however much there is.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from gpu_tasks.market.attestations.kinds import ATTESTATIONS_MAX
from gpu_tasks.market.attestations.statement import SignedAttestation
from gpu_tasks.market.attestations.work_source import OpenWork
from gpu_tasks.market.block_room import KEPT_FOR_SESSIONS
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.claims.handlers import Ruling
from gpu_tasks.market.ids import DeviceId, ServiceId, UnitId
from gpu_tasks.market.inference import (
    attested_units,
    catalogue,
    intake,
    queue,
    race,
    schedules,
    settlement,
    turns,
    unit_claims,
    unit_disputes,
)
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.intake import post_weight
from gpu_tasks.market.inference.schedules import (
    EXPIRY_BUDGET,
    EXPIRY_WEIGHT,
    FINAL_BUDGET,
    HEIGHT_BUDGET,
    RACE_END_WEIGHT,
)
from gpu_tasks.market.inference.services import OFFER_DEPOSIT, SERVICE_DEPOSIT, ServiceTerms, terms_from_json
from gpu_tasks.market.inference.slots import DRAW_WEIGHT
from gpu_tasks.market.inference.storage import InferenceStorage
from gpu_tasks.market.inference.turns import BEGIN_WEIGHT
from gpu_tasks.market.inference.units import UNIT_DEPOSIT, UNIT_MONEY, OpenUnit, Refund, UnitState, UnitTerms
from gpu_tasks.market.weights import WEIGHTS
from runtime.cryptography.ss58 import account_from_text
from runtime.encoding.codec import U32, Bounded
from runtime.encoding.types import CompactBalance, Hash, Weight
from runtime.frame.measured import times
from runtime.frame.pallet import FREE, Hold, HoldEnd, PostDispatch, Signed, call, ensure, genesis_entry
from runtime.frame.schedule import WeightMeter
from runtime.frame.weights import work
from runtime.pallets.staking.slashing import Share
from runtime.pallets.staking.stakers import VALIDATORS_MAX

UNITS_PER_POST_MAX = 32
DRAW_BUDGET = work(microseconds=160_000)
"""The weight for draws in one block. Half of it is for newly posted units (`intake.ADMITTED_MAX`)."""
WAKE_BUDGET = work(microseconds=40_000)
"""The most weight of the draws of all units that one block wakes: a quarter of `DRAW_BUDGET`."""
TENDING_BUDGET = work(microseconds=8_000)
"""The weight for each of: changed slots, slots of returning owners, offers of dropped services, recalls."""
RESERVED_BUDGETS = (
    HEIGHT_BUDGET, FINAL_BUDGET, WAKE_BUDGET, *(TENDING_BUDGET,) * 4, EXPIRY_BUDGET, KEPT_FOR_SESSIONS,
    ATTESTATIONS_MAX,
)  # fmt: skip
"""The most weight of a block besides draws. Deadlines come first, and attestations open commitments."""

NewUnits = Annotated[tuple[UnitTerms, ...], Bounded(UNITS_PER_POST_MAX)]


def _post_weight(service: int, units: tuple[UnitTerms, ...]) -> Weight:  # noqa: ARG001 - the call's arguments
    return post_weight(units, VALIDATORS_MAX)


class InferenceMarket(InferenceStorage, index=10):
    """Services, offers, units, races and disputes."""

    storage_version = 3
    variants = (SignedAttestation,)
    open_work = OpenWork(InferenceStorage.open_unit_count, "ogpu_open_units", "Inference units in progress")

    events = (
        ev.ServiceCreated, ev.ServiceClosed, ev.Offered, ev.OfferWithdrawn, ev.UnitPosted, ev.UnitMatched,
        ev.ResultCommitted, ev.ResultRevealed, ev.RaceDeclined, ev.RaceMissed, ev.UnitRequeued, ev.UnitDisputed,
        ev.ResultClaimed, ev.ProviderSlashed, ev.UnitSettled, ev.UnitRefunded, ev.ProviderRebated,
        ev.PlaceRefilled, ev.RacerRecalled, ev.RacePassed,
    )  # fmt: skip
    errors = (
        ev.UnknownService, ev.UnsoundTerms, ev.NotServiceOwner, ev.TooManyOpen, ev.UnknownUnit, ev.NotCustomer,
        ev.NotQueued, ev.NotAssigned, ev.WindowClosed, ev.AlreadyDone, ev.WrongOpening, ev.StaleSealing, ev.MarketBusy,
        ev.TooFewCheckers,
    )  # fmt: skip
    hold_reasons = (UNIT_MONEY, UNIT_DEPOSIT, SERVICE_DEPOSIT, OFFER_DEPOSIT)

    # ------------------------------------------------------------------------------------------- services and offers

    @call(index=0, weight=WEIGHTS["InferenceMarket.create_service"])
    def create_service(self, origin: Signed, terms: ServiceTerms) -> None:
        """Create a service. A deposit is held until you close it."""
        catalogue.create(self, origin.account, terms, self.service_deposit)

    @call(index=1, weight=WEIGHTS["InferenceMarket.close_service"])
    def close_service(self, origin: Signed, service: ServiceId) -> None:
        """Close your service to new units, and take the deposit back. Open units continue."""
        catalogue.close(self, service, origin.account)

    @call(index=2, weight=WEIGHTS["InferenceMarket.offer"])
    def offer(self, origin: Signed, device: DeviceId, service: ServiceId, ask: CompactBalance) -> None:
        """Offer your device for a service, at `ask` grains per 1,000 output tokens or more.

        The call holds a deposit of the device's owner. The signer is the stash or its provider key.
        """
        self.devices.owned(device, self.devices.operator(origin.account))
        catalogue.offer(self, device, service, ask)

    @call(index=3, weight=WEIGHTS["InferenceMarket.withdraw_offer"])
    def withdraw_offer(self, origin: Signed, device: DeviceId, service: ServiceId) -> None:
        """Withdraw your device's offer, and take the deposit back. Assigned units stay. Stash or provider key sign."""
        self.devices.owned(device, self.devices.operator(origin.account))
        catalogue.withdraw_offer(self, device, service)

    # ------------------------------------------------------------------------------------------------ the customer

    @call(index=4, weight=_post_weight)
    def post(self, origin: Signed, service: ServiceId, units: NewUnits) -> PostDispatch:
        """Post units of a service: lock price, fees of checks, bond and deposit of each, and prepay its duty calls.

        With two or more racers, the call also locks the payment of a witness. The declared weight covers a look at 128
        validators. The fee for validators that the call need not look at comes back.
        """
        look_count = intake.post(self, origin.account, service, units)
        return PostDispatch(actual_weight=post_weight(units, look_count))

    @call(index=5, weight=WEIGHTS["InferenceMarket.cancel"])
    def cancel(self, origin: Signed, unit: UnitId) -> None:
        """Cancel a unit that waits for its draw. A part of its bond burns: `cancel_burn`, 10 % by default."""
        open_unit = self.open_unit(unit)
        ensure(open_unit.record.customer == origin.account, ev.NotCustomer)
        ensure(open_unit.record.state is UnitState.QUEUED, ev.NotQueued)
        settlement.refund(self, open_unit, Refund.CANCELLED)

    # ------------------------------------------------ duty calls: signed by the provider key, free if they succeed

    @call(index=6, weight=WEIGHTS["InferenceMarket.commit_result"] + BEGIN_WEIGHT)
    def commit_result(self, origin: Signed, unit: UnitId, attempt: U32, commitment: Hash) -> PostDispatch:
        """Commit to a result of a race (`units.result_commitment`). Free if it succeeds."""
        race.commit(self, self._raced(unit, attempt), self.devices.operator(origin.account), commitment)
        return FREE

    @call(index=7, weight=WEIGHTS["InferenceMarket.decline"] + BEGIN_WEIGHT)
    def decline(self, origin: Signed, unit: UnitId, attempt: U32) -> PostDispatch:
        """Decline a unit whose input cannot be opened. If voters find the input good, you pay a penalty."""
        race.decline(self, self._raced(unit, attempt), self.devices.operator(origin.account))
        return FREE

    @call(index=8, weight=WEIGHTS["InferenceMarket.pass_unit"] + BEGIN_WEIGHT)
    def pass_unit(self, origin: Signed, unit: UnitId, attempt: U32) -> PostDispatch:
        """Leave a race that your device cannot finish: `idle_penalty` of your collateral burns, and no pause follows.

        Another device is drawn for your place if no racer has committed yet.
        """
        race.pass_unit(self, self._raced(unit, attempt), self.devices.operator(origin.account))
        return FREE

    # ------------------------------------------------------------ a handler of claims: the interface to ResultClaims

    def charge_provider(self, claim: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of the winner's collateral for the unit."""
        unit_claims.charge_provider(self, claim, shares)

    def charge_customer(self, claim: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of the customer's money for the unit."""
        unit_claims.charge_customer(self, claim, shares)

    def conclude(self, claim: bytes, outcome: ClaimOutcome) -> None:
        """Pay for the unit's result, or refund its customer."""
        unit_claims.conclude(self, claim, outcome)

    # ------------------------------------------------------------- a handler of disputes: the interface to Disputes

    def rule(self, dispute: bytes, ruling: Ruling) -> None:
        """Carry out the ruling of a unit's dispute."""
        unit_disputes.rule(self, dispute, ruling)

    # ----------------------------------------------------------- a work source: the interface to attestations and nodes

    def attestation_problem(self, signed: SignedAttestation) -> str:
        """Return the reason why an attestation of a unit may not be attached now, or "" if it may."""
        return attested_units.problem(self, signed)

    def lasting_problem(self, signed: SignedAttestation) -> str:
        """Return the reason why this branch will never take an attestation of a unit, or "" if it may."""
        return attested_units.lasting_problem(self, signed)

    def is_overtaken(self, signed: SignedAttestation) -> bool:
        """Return False: the pool drops by age after the race is over, and another branch may still want it."""
        return False

    def attaching_weight(self, signed: SignedAttestation) -> Weight:
        """Return the weight of a reveal. The last one of a race ends it."""
        return attested_units.weight(self, signed)

    def attach_work(self, signed: SignedAttestation) -> None:
        """Reveal the result of an admissible attestation."""
        attested_units.attach(self, signed)

    # ------------------------------------------------------------------------------------------------------- hooks

    def on_initialize(self) -> Weight:
        """Step every due unit: closes, reveals, refunds. Then draw, wake and drop, each within its budget."""
        budgets = (HEIGHT_BUDGET, FINAL_BUDGET, self._for_draws(), EXPIRY_BUDGET, *(TENDING_BUDGET,) * 4)
        meters = tuple(WeightMeter(budget) for budget in budgets)
        height_meter, final_meter, draw_meter, expiry_meter, *tending_meters = meters
        recall_meter, stir_meter, newcomer_meter, offer_end_meter = tending_meters
        # The hook charges only for units that it lets begin: calls pay BEGIN_WEIGHT themselves.
        begun_before = self.begun.count
        # Recalls of earlier blocks: a unit recalled here takes its step in the next block.
        turns.recall(self, recall_meter)
        for unit_id, meter in schedules.due(self, height_meter, final_meter):
            self._step(unit_id, meter)
        # The races above have freed their slots by now.
        queue.draw(self, draw_meter)
        queue.stir(self, stir_meter)
        self.devices.welcome(newcomer_meter, queue.WELCOME_WEIGHT)
        woken_units = queue.wake(self, WeightMeter(WAKE_BUDGET))
        for unit_id in self.expiring.take(self.height, expiry_meter, EXPIRY_WEIGHT):
            settlement.forget(self, unit_id)
        catalogue.end_offers(self, offer_end_meter)
        spent_weight = Weight(woken_units * DRAW_WEIGHT.ref_time, 0) + times(
            self.begun.count - begun_before, BEGIN_WEIGHT
        )
        for meter in meters:
            spent_weight += meter.spent
        return spent_weight

    def _for_draws(self) -> Weight:
        """Return the weight left for draws. At an era's turn with many candidates, draws may wait a block."""
        reserved = sum(reserved_budget.ref_time for reserved_budget in RESERVED_BUDGETS)
        return Weight(min(DRAW_BUDGET.ref_time, max(0, self.context.mandatory_left - reserved)), 0)

    def _step(self, unit_id: bytes, meter: WeightMeter) -> None:
        record = self.units[unit_id]
        assert record is not None, "every unit on an agenda has a record"
        unit = OpenUnit(unit_id, record)
        # Disputed and claimed units are not stepped here: Disputes and ResultClaims have their deadlines.
        if record.state is UnitState.QUEUED:
            queue.step(self, unit)
        elif record.state is UnitState.RACING:
            race.step(self, unit)
            after = self.units[unit_id]
            if after is None or after.state is not UnitState.RACING:
                meter.spend(times(len(record.racers), RACE_END_WEIGHT))

    def hold_end(self, hold: Hold) -> HoldEnd:
        """Return the end of a deposit hold: its scheduled block, or a number of blocks after the racers' release."""
        record = self.units[hold.case] if hold.reason is UNIT_DEPOSIT else None
        if record is None:
            return HoldEnd()
        drop_height = self.expiring.places[hold.case]
        return HoldEnd(block=drop_height) if drop_height else HoldEnd(stays=record.rules.keep_blocks)

    def genesis(self, config: dict[str, Any]) -> None:
        """Create the first services and offers.

        `{"services": [{"owner", "name", "workload", "model", ...}], "offers": [{"service", "device", "ask"}]}`. Raise
        ValueError for an unknown device or service.
        """
        for entry_config in config.get("services", []):
            with genesis_entry(f"genesis service of {entry_config['owner']}"):
                catalogue.create(
                    self, account_from_text(entry_config["owner"]), terms_from_json(entry_config), deposit_grains=0
                )
        for entry_config in config.get("offers", []):
            service_number, device_id = int(entry_config["service"]), account_from_text(entry_config["device"])
            if self.devices.devices[device_id] is None or self.services[service_number] is None:
                raise ValueError(f"genesis offer of {entry_config['device']}: unknown device or service")
            with genesis_entry(f"genesis offer of {entry_config['device']}"):
                catalogue.place_offer(self, device_id, service_number, int(entry_config["ask"]))

    def _raced(self, unit_id: bytes, attempt: int) -> OpenUnit:
        open_unit = self.open_unit(unit_id)
        ensure(open_unit.record.attempt == attempt, ev.NotAssigned)
        return open_unit
