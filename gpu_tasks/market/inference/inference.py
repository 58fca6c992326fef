"""InferenceMarket: continuous inference, mined in matched races.

A customer posts units; the beacon draws bonded devices of distinct owners for each; they commit,
then reveal; the earliest right result is paid. This module is the pallet: calls and hook. The modules that carry them
out work on its storage base: the catalogue of what is sold, and a unit's life, which begins with posting and goes
through queueing, racing and, in a dispute, the courts to its ending.

Always: `units[u]` and the locks agree: for the case `u` an open unit holds `escrow + bond` of its customer's as
UNIT_MONEY, and its record `deposit` as UNIT_DEPOSIT for as long as it is there; every open unit is on the agenda, or
has a case before the courts, so every state ends by itself; the hook is bounded by work, whatever there is.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from gpu_tasks.market.attestations.kinds import ATTESTATIONS_MAX
from gpu_tasks.market.attestations.statement import SignedAttestation
from gpu_tasks.market.attestations.work_source import OpenWork
from gpu_tasks.market.courts.handlers import CaseRuling
from gpu_tasks.market.ids import DeviceId, ServiceId, UnitId
from gpu_tasks.market.inference import (
    attested_units,
    catalogue,
    intake,
    judging,
    queue,
    race,
    schedules,
    settlement,
    turns,
)
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.intake import post_weight
from gpu_tasks.market.inference.schedules import (
    EXPIRY_BUDGET,
    FINAL_BUDGET,
    HEIGHT_BUDGET,
)
from gpu_tasks.market.inference.services import (
    OFFER_DEPOSIT,
    SERVICE_DEPOSIT,
    ServiceTerms,
    terms_from_json,
)
from gpu_tasks.market.inference.sleeping import sleepers
from gpu_tasks.market.inference.slots import DRAW_WEIGHT
from gpu_tasks.market.inference.storage import InferenceStorage
from gpu_tasks.market.inference.turns import BEGIN_WEIGHT
from gpu_tasks.market.inference.units import (
    UNIT_DEPOSIT,
    UNIT_MONEY,
    OpenUnit,
    Refund,
    UnitState,
    UnitTerms,
)
from gpu_tasks.market.weights import WEIGHTS
from runtime.cryptography.ss58 import account_from_text
from runtime.encoding.codec import U32, Bounded
from runtime.encoding.types import CompactBalance, Hash, Weight
from runtime.frame.measured import times
from runtime.frame.pallet import (
    FREE,
    Hold,
    HoldEnd,
    PostDispatch,
    Signed,
    call,
    ensure,
)
from runtime.frame.schedule import WeightMeter
from runtime.frame.weights import work
from runtime.pallets.staking.slashing import Share
from runtime.pallets.staking.stakers import VALIDATORS_MAX

UNITS_PER_POST_MAX = 32

DRAW_BUDGET = work(microseconds=160_000)
"""For draws in one block: half is for units that are posted (`posting.ADMITTED_MAX`)."""
WAKE_BUDGET = work(microseconds=40_000)
"""What the draws of all units that one block wakes may come to: a quarter of `DRAW_BUDGET`."""
TENDING_BUDGET = work(microseconds=8_000)
"""For slots that changed, and as much for those of owners who came back, offers of services that are gone, recalls."""
RESERVED_BUDGETS = (
    HEIGHT_BUDGET,
    FINAL_BUDGET,
    WAKE_BUDGET,
    TENDING_BUDGET,
    TENDING_BUDGET,
    TENDING_BUDGET,
    TENDING_BUDGET,
    EXPIRY_BUDGET,
    ATTESTATIONS_MAX,
)
"""What the block's work may come to besides draws: deadlines come first, and attestations open what was committed."""

NewUnits = Annotated[tuple[UnitTerms, ...], Bounded(UNITS_PER_POST_MAX)]


def _post_weight(service: int, units: tuple[UnitTerms, ...]) -> Weight:  # noqa: ARG001 - the call's arguments
    return post_weight(units, VALIDATORS_MAX)


class InferenceMarket(InferenceStorage, index=10):
    """Services, offers, units, races and disputes."""

    storage_version = 3
    variants = (SignedAttestation,)
    open_work = OpenWork(InferenceStorage.open_unit_count, "ogpu_open_units", "Inference units in work")

    events = (
        ev.ServiceCreated, ev.ServiceClosed, ev.Offered, ev.OfferWithdrawn, ev.UnitPosted, ev.UnitMatched,
        ev.ResultCommitted, ev.ResultRevealed, ev.RaceDeclined, ev.RaceMissed, ev.UnitRequeued, ev.UnitDisputed,
        ev.ProviderSlashed, ev.ResultRefuted, ev.UnitSettled, ev.UnitRefunded, ev.ProviderRebated,
        ev.PlaceRefilled, ev.RacerRecalled,
    )  # fmt: skip
    errors = (
        ev.UnknownService, ev.UnsoundTerms, ev.NotServiceOwner, ev.TooManyOpen, ev.UnknownUnit, ev.NotCustomer,
        ev.NotQueued, ev.NotAssigned, ev.WindowClosed, ev.AlreadyDone, ev.WrongOpening, ev.StaleSealing, ev.MarketBusy,
        ev.TooFewJudges,
    )  # fmt: skip
    hold_reasons = (UNIT_MONEY, UNIT_DEPOSIT, SERVICE_DEPOSIT, OFFER_DEPOSIT)

    # ------------------------------------------------------------------------------------------- services and offers

    @call(index=0, weight=WEIGHTS["InferenceMarket.create_service"])
    def create_service(self, origin: Signed, terms: ServiceTerms) -> None:
        """Offer a new kind of unit; a deposit is locked until the service is closed."""
        catalogue.create(self, origin.account, terms, self.service_deposit)

    @call(index=1, weight=WEIGHTS["InferenceMarket.close_service"])
    def close_service(self, origin: Signed, service: ServiceId) -> None:
        """Let no more units be posted, and take the deposit back; open units go on."""
        catalogue.close(self, service, origin.account)

    @call(index=2, weight=WEIGHTS["InferenceMarket.offer"])
    def offer(self, origin: Signed, device: DeviceId, service: ServiceId, ask: CompactBalance) -> None:
        """Have a device work for a service, for `ask` grains a unit or more; a deposit of its owner's is locked.

        The stash signs, or its provider key.
        """
        self.devices.owned(device, self.devices.operator(origin.account))
        catalogue.offer(self, device, service, ask)

    @call(index=3, weight=WEIGHTS["InferenceMarket.withdraw_offer"])
    def withdraw_offer(self, origin: Signed, device: DeviceId, service: ServiceId) -> None:
        """Have a device work for a service no more, and take the deposit back; what is assigned stays."""
        self.devices.owned(device, self.devices.operator(origin.account))
        catalogue.withdraw_offer(self, device, service)

    # ------------------------------------------------------------------------------------------------ the customer

    @call(index=4, weight=_post_weight)
    def post(self, origin: Signed, service: ServiceId, units: NewUnits) -> PostDispatch:
        """Ask for units: locks price, premium, bond and deposit of each, and prepays the duty calls it causes.

        Where two or more race it also locks what a witness is paid, or the pair of judges that looks at a lone answer.

        Its weight is that of a look at 128 in office; the fee for those that it need not look at comes back.
        """
        looks = intake.post(self, origin.account, service, units)
        return PostDispatch(actual_weight=post_weight(units, looks))

    @call(index=5, weight=WEIGHTS["InferenceMarket.cancel"])
    def cancel(self, origin: Signed, unit: UnitId) -> None:
        """Take back a unit that waits for its draw; 10 % of its bond burns."""
        found = self.open_unit(unit)
        ensure(found.record.customer == origin.account, ev.NotCustomer)
        ensure(found.record.state is UnitState.QUEUED, ev.NotQueued)
        settlement.refund(self, found, Refund.CANCELLED)

    # ------------------------------------------------- duty calls: signed by the provider key, free when they succeed

    @call(index=6, weight=WEIGHTS["InferenceMarket.commit_result"] + BEGIN_WEIGHT)
    def commit_result(self, origin: Signed, unit: UnitId, attempt: U32, commitment: Hash) -> PostDispatch:
        """Commit to a result of a race (commitments.result_commitment)."""
        race.commit(self, self._raced(unit, attempt), self.devices.operator(origin.account), commitment)
        return FREE

    @call(index=7, weight=WEIGHTS["InferenceMarket.decline"] + BEGIN_WEIGHT)
    def decline(self, origin: Signed, unit: UnitId, attempt: U32) -> PostDispatch:
        """Say that the input cannot be opened: it costs as much as a miss if a committee finds it good."""
        race.decline(self, self._raced(unit, attempt), self.devices.operator(origin.account))
        return FREE

    # ------------------------------------------------------ a handler of cases: what the courts ask of who brings them

    def charge_party(self, case: bytes, party: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of what a racer holds for the unit."""
        judging.charge_party(self, case, party, shares)

    def charge_customer(self, case: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of what the customer holds for the unit."""
        judging.charge_customer(self, case, shares)

    def carry_out(self, case: bytes, ruling: CaseRuling) -> None:
        """A case about a unit is over."""
        judging.carry_out(self, case, ruling)

    # ------------------------------------- a handler of disputes about batches: what LeafDisputes tells who brings them

    def judge_leaf(self, unit: bytes, claims: Sequence[tuple[bytes, bytes]]) -> None:
        """The leaf in which answers differ goes before the courts."""
        judging.judge_leaf(self, unit, claims)

    def let_fall(self, unit: bytes, roots: Sequence[bytes]) -> None:
        """The trees of these answers were withheld."""
        judging.let_fall(self, unit, roots)

    def agree(self, unit: bytes, root: bytes | None) -> None:
        """One answer is left, or none."""
        judging.agree(self, unit, root)

    # -------------------------------------------------------- a work source: what attestations and nodes ask of markets

    def attestation_problem(self, signed: SignedAttestation) -> str:
        """Why an attestation of a unit may not be attached now; empty if it may."""
        return attested_units.problem(self, signed)

    def lasting_problem(self, signed: SignedAttestation) -> str:
        """Why this branch will never take an attestation of a unit; empty if it may."""
        return attested_units.lasting_problem(self, signed)

    def is_overtaken(self, signed: SignedAttestation) -> bool:
        """Return False: a race is over before the pool forgets by age, and another branch may want it again."""
        return False

    def attaching_weight(self, signed: SignedAttestation) -> Weight:
        """The weight of a reveal: the last of a race settles it."""
        return attested_units.weight(self, signed)

    def attach_work(self, signed: SignedAttestation) -> None:
        """Reveal what an admissible attestation opens."""
        attested_units.attach(self, signed)

    # ------------------------------------------------------------------------------------------------------- hooks

    def on_initialize(self) -> Weight:
        """Call every unit that is due: closes, reveals, verdicts, refunds; then draw and wake, each in its share."""
        heights, final, draws = WeightMeter(HEIGHT_BUDGET), WeightMeter(FINAL_BUDGET), WeightMeter(self._for_draws())
        stirs, comers, ends = WeightMeter(TENDING_BUDGET), WeightMeter(TENDING_BUDGET), WeightMeter(TENDING_BUDGET)
        expiries, recalls = WeightMeter(EXPIRY_BUDGET), WeightMeter(TENDING_BUDGET)
        begun = self.begun.count
        turns.recall(self, recalls)  # of blocks before: what is recalled here is called in the next one
        for unit_id in schedules.due(self, heights, final):
            self._step(unit_id)
        queue.draw(self, draws)  # after the races above have freed their slots
        queue.stir(self, stirs)
        queue.welcome(self, comers)
        sleepers.step(self, comers)
        woken = queue.wake(self, WeightMeter(WAKE_BUDGET))
        for unit_id in schedules.expired(self, expiries):
            settlement.forget(self, unit_id)
        catalogue.end_offers(self, ends)
        spent = Weight(woken * DRAW_WEIGHT.ref_time, 0) + times(self.begun.count - begun, BEGIN_WEIGHT)
        for budget in (recalls, heights, final, draws, stirs, comers, ends, expiries):
            spent += budget.spent
        return spent

    def _for_draws(self) -> Weight:
        """What is left for draws: where an era turns and many stand for election, they wait a block."""
        reserved = sum(kind.ref_time for kind in RESERVED_BUDGETS)
        return Weight(min(DRAW_BUDGET.ref_time, max(0, self.context.mandatory_left - reserved)), 0)

    def _step(self, unit_id: bytes) -> None:
        record = self.units[unit_id]
        assert record is not None, "a unit that is gone is on no agenda"
        unit = OpenUnit(unit_id, record)
        if record.state is UnitState.QUEUED:
            queue.step(self, unit)
        elif record.state is UnitState.RACING:
            race.step(self, unit)

    def hold_end(self, hold: Hold) -> HoldEnd:
        """The deposit of a record: the agenda knows the block once nobody stands for the unit any more."""
        unit = self.units[hold.case] if hold.reason is UNIT_DEPOSIT else None
        if unit is None:
            return HoldEnd()
        height = self.expiring.places[hold.case]
        return HoldEnd(block=height) if height else HoldEnd(stays=unit.rules.keep_blocks)

    def genesis(self, config: dict[str, Any]) -> None:
        """The first services and offers.

        `{"services": [{"owner", "name", "workload", "model", ...}], "offers": [{"service", "device", "ask"}]}`.
        """
        for given in config.get("services", []):
            catalogue.create(self, account_from_text(given["owner"]), terms_from_json(given), deposit=0)
        for given in config.get("offers", []):
            service, device = int(given["service"]), account_from_text(given["device"])
            if self.devices.devices[device] is None or self.services[service] is None:
                raise ValueError(f"genesis offer of {given['device']}: no such device or service")
            catalogue.place_offer(self, device, service, int(given["ask"]))

    def _raced(self, unit: bytes, attempt: int) -> OpenUnit:
        found = self.open_unit(unit)
        ensure(found.record.attempt == attempt, ev.NotAssigned)
        return found
