"""What each entry of the state says to the books: whose grains, held for which case, and how many of what.

Always: a reason to hold money that a pallet declares has an entry here that says what its cases hold, and `unknown`
names those that have none. An entry speaks for itself alone: what it said is taken back with the same function.
"""

from collections.abc import Callable, Iterator
from typing import Any

from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import ROLL_CALL_BOND, roll_call_hold
from gpu_tasks.market.courts.cases import APPEAL_BOND, JUDGE_SEAT
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import COLLATERAL, FREE_BOND, PROVIDER_DEPOSIT, provider_hold
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import OFFER_DEPOSIT, SERVICE_DEPOSIT, offer_hold, service_hold
from gpu_tasks.market.inference.units import UNIT_DEPOSIT, UNIT_MONEY, holds_collateral, is_open
from gpu_tasks.market.leaf_checks.checks import LEAF_BOND, LEAF_FEE, LEAF_SEAT
from gpu_tasks.market.leaf_checks.fees import dispute_bond
from gpu_tasks.market.leaf_checks.ground import seat_of
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.encoding.types import CAP_GRAINS
from runtime.frame.holds import Hold, HoldReason
from runtime.frame.runtime import Runtime
from runtime.frame.storage import StorageItem
from runtime.pallets.balances import Balances
from runtime.pallets.pots import STAKES
from runtime.pallets.staking.stakers import PROFILE, STAKE
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from runtime.pallets.transaction_payment import TransactionPayment
from simulation.economy.pairs import Pair, at_most
from simulation.economy.task_entries import OPEN, TASK_REASONS, TaskPairs

KNOWN_REASONS = (
    STAKE, FREE_BOND, COLLATERAL, UNIT_MONEY, UNIT_DEPOSIT, SERVICE_DEPOSIT, OFFER_DEPOSIT, JUDGE_SEAT, APPEAL_BOND,
    PROFILE,
    *TASK_REASONS,
    PROVIDER_DEPOSIT, ROLL_CALL_BOND,
    LEAF_SEAT, LEAF_FEE, LEAF_BOND,
)  # fmt: skip
EVERYBODY = "everybody"


class Grains:
    """The books of money: all grains, what is reserved and held, and what the cases of each reason hold."""

    def __init__(self, cap: int = CAP_GRAINS) -> None:
        """Begin with nothing counted."""
        self.owners: dict[bytes, bytes] = {}
        """Whose a device is, or was: an offer does not say."""
        self.supply = Pair("issuance, and what accounts own")
        self.cap = Pair("the cap, and what is owned or burned")
        self.reserved = Pair("reserved, and held")
        self.shown = Pair("held as shown by reason, and by case")
        self.totals = Pair("total of a case, and what is held for it")
        self.cases = Pair("what a case holds, and what is held for it")
        self.limits = Pair("collateral of a racer, and what is held as such", at_most)
        self.tasks = TaskPairs()
        self.secured = Pair("what devices secure, and collateral held")
        self.shares = Pair("shares of a pool, and of its positions")
        self.delegators = Pair("delegators, and positions")
        self.leaving = Pair("leaving a validator, and delegations on their way out")
        self.sustained = Pair("reasons to live, and positions and lists of what leaves")
        self.frozen = Pair("slashes of a validator that wait, and those held")
        self.units = Pair("open units, and units that are open")
        self.offers = Pair("offers of a service, and offers for it")
        self.devices = Pair("devices of an owner, and devices")
        self.listed = Pair("devices, and those listed by owner")
        self.sleepers = Pair("sleepers of a service, and units in its list")
        self.candidates = Pair("candidates, and those listed")
        self.cap.claim(EVERYBODY, cap)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All of them."""
        own = (value for value in vars(self).values() if isinstance(value, Pair))
        return *own, *self.tasks.pairs

    def case(self, who: bytes, hold: Hold, amount: int) -> None:
        """A case holds so much more of an account."""
        self.cases.claim((who, hold), amount)


Entry = Callable[[Grains, tuple[Any, ...], Any, int], None]
"""Books, keys of the entry, its value, and +1 for what it says or -1 for what it no longer does."""


def unknown(runtime: Runtime) -> list[str]:
    """Reasons to hold money of which the books would know nothing."""
    declared: Iterator[HoldReason] = (reason for pallet in runtime.pallets for reason in pallet.hold_reasons)
    return [repr(reason) for reason in declared if reason not in KNOWN_REASONS]


def _account(book: Grains, keys: tuple[Any, ...], info: Any, sign: int) -> None:
    owned = sign * (info.data.free + info.data.reserved)
    book.supply.count(EVERYBODY, owned)
    book.cap.count(EVERYBODY, owned)
    book.reserved.claim(keys[0], sign * info.data.reserved)
    book.sustained.claim(keys[0], sign * info.sufficients)


def _held(book: Grains, keys: tuple[Any, ...], amount: int, sign: int) -> None:
    who, hold = keys
    signed = sign * amount
    book.reserved.count(who, signed)
    book.shown.count((who, hold.reason), signed)
    book.totals.count(hold, signed)
    if hold.reason is COLLATERAL:
        book.limits.count((who, hold.case), signed)
        book.secured.count(who, signed)
    elif hold.reason in TASK_REASONS:
        book.tasks.held(who, hold, signed)
    else:
        book.cases.count((who, hold), signed)


def _shown(book: Grains, keys: tuple[Any, ...], entries: Any, sign: int) -> None:
    for entry in entries:
        book.shown.claim((keys[0], entry.id), sign * entry.amount)


def _issued(book: Grains, _: tuple[Any, ...], amount: int, sign: int) -> None:
    book.supply.claim(EVERYBODY, sign * amount)


def _burned(book: Grains, _: tuple[Any, ...], amount: int, sign: int) -> None:
    book.cap.count(EVERYBODY, sign * amount)


def _collected(book: Grains, _: tuple[Any, ...], amount: int, sign: int) -> None:
    """Fees of the block under execution: in nobody's account, and burned at its end."""
    book.supply.count(EVERYBODY, sign * amount)
    book.cap.count(EVERYBODY, sign * amount)


def _bond(book: Grains, keys: tuple[Any, ...], value: int, sign: int) -> None:
    book.case(keys[0], Hold(STAKE, keys[0]), sign * value)


def _pool(book: Grains, keys: tuple[Any, ...], pool: Any, sign: int) -> None:
    book.case(STAKES, Hold(STAKE, keys[0]), sign * pool.stake.value)
    book.shares.claim(keys[0], sign * pool.stake.shares)
    book.delegators.claim(keys[0], sign * pool.delegators)


def _position(book: Grains, keys: tuple[Any, ...], position: Any, sign: int) -> None:
    delegator, validator = keys
    book.shares.count(validator, sign * position.shares)
    book.delegators.count(validator, sign)
    book.sustained.count(delegator, sign)


def _unlocking(book: Grains, keys: tuple[Any, ...], chunks: Any, sign: int) -> None:
    book.sustained.count(keys[0], sign)
    for chunk in chunks:
        is_own = chunk.validator == keys[0]
        book.case(keys[0] if is_own else STAKES, Hold(STAKE, chunk.validator), sign * chunk.value)
        if not is_own:
            book.leaving.count(chunk.validator, sign * chunk.value)


def _profile(book: Grains, keys: tuple[Any, ...], profile: Any, sign: int) -> None:
    book.case(keys[0], Hold(PROFILE, keys[0]), sign * profile.deposit)


def _provider(book: Grains, keys: tuple[Any, ...], provider: Any, sign: int) -> None:
    book.case(keys[0], provider_hold(keys[0]), sign * provider.deposit)


def _device(book: Grains, keys: tuple[Any, ...], device: Any, sign: int) -> None:
    book.owners[keys[0]] = device.owner
    book.case(device.owner, Hold(FREE_BOND, keys[0]), sign * (device.bond - device.secured))
    book.secured.claim(device.owner, sign * device.secured)
    book.devices.count(device.owner, sign)
    book.listed.claim((device.owner, keys[0]), sign)


def _enrolment(book: Grains, keys: tuple[Any, ...], enrolled: Any, sign: int) -> None:
    book.case(enrolled.owner, roll_call_hold(keys[0]), sign * enrolled.bond)


def _unit(book: Grains, keys: tuple[Any, ...], unit: Any, sign: int) -> None:
    unit_id = keys[0]
    book.case(unit.customer, Hold(UNIT_DEPOSIT, unit_id), sign * unit.deposit)
    for racer in holds_collateral(unit):
        book.limits.claim((racer.owner, unit_id), sign * racer.collateral)
    if is_open(unit):
        book.case(unit.customer, Hold(UNIT_MONEY, unit_id), sign * (unit.escrow + unit.bond))
    if is_open(unit) or unit.is_watched:
        book.units.count(EVERYBODY, sign)
        book.units.count(unit.service, sign)


def _service(book: Grains, keys: tuple[Any, ...], service: Any, sign: int) -> None:
    book.units.claim(keys[0], sign * service.open_units)
    if service.is_open:
        book.case(service.owner, service_hold(keys[0]), sign * service.deposit)


def _offer(book: Grains, keys: tuple[Any, ...], offer: Any, sign: int) -> None:
    number, device = keys
    book.offers.count(number, sign)
    book.case(book.owners[device], offer_hold(number, device), sign * offer.deposit)


def _case(book: Grains, keys: tuple[Any, ...], case: Any, sign: int) -> None:
    if case.appeal:
        book.case(case.appeal.appellant, Hold(APPEAL_BOND, keys[0]), sign * case.appeal.bond)


def _seat(book: Grains, keys: tuple[Any, ...], seat: Any, sign: int) -> None:
    book.case(keys[0], Hold(JUDGE_SEAT, keys[1]), sign * seat.held)


def _check(book: Grains, keys: tuple[Any, ...], check: Any, sign: int) -> None:
    unit, terms = keys[0], check.terms
    book.case(terms.customer, Hold(LEAF_FEE, unit), sign * terms.fee)
    for who in check.silent:
        book.case(who, Hold(LEAF_SEAT, unit), sign * terms.fee)
    if check.auditor is not None:
        book.case(check.auditor, Hold(LEAF_SEAT, unit), sign * seat_of(terms))
    if check.doubt is not None and check.doubt.doubter == terms.customer:
        book.case(terms.customer, Hold(LEAF_BOND, unit), sign * dispute_bond(terms.judge_fee))


def _claims(name: str) -> Entry:
    """An entry that is a number: what it claims, by its key or for everybody."""

    def entry(book: Grains, keys: tuple[Any, ...], number: int, sign: int) -> None:
        getattr(book, name).claim(keys[0] if keys else EVERYBODY, sign * number)

    return entry


def _counts(name: str, *, by_first: bool) -> Entry:
    """An entry that counts as one, by its first key or for everybody."""

    def entry(book: Grains, keys: tuple[Any, ...], _: Any, sign: int) -> None:
        getattr(book, name).count(keys[0] if by_first else EVERYBODY, sign)

    return entry


ENTRIES: tuple[tuple[StorageItem, Entry], ...] = (
    (System.account, _account),
    (Balances.total_issuance, _issued),
    (Balances.burned, _burned),
    (TransactionPayment.collected, _collected),
    (Balances.holds, _shown),
    (Balances.held_cases, _held),
    (Balances.case_totals, _claims("totals")),
    (TrustStake.bonds, _bond),
    (TrustStake.pools, _pool),
    (TrustStake.positions, _position),
    (TrustStake.unlocking, _unlocking),
    (TrustStake.leaving, _claims("leaving")),
    (TrustStake.profiles, _profile),
    (TrustStake.held_slashes, _counts("frozen", by_first=True)),
    (TrustStake.frozen, _claims("frozen")),
    (TrustStake.candidate_count, _claims("candidates")),
    (TrustStake.candidates, _counts("candidates", by_first=False)),
    (Devices.providers, _provider),
    (Devices.devices, _device),
    (Devices.device_count, _claims("devices")),
    (Devices.devices_of, lambda book, keys, _, sign: book.listed.count(keys, sign)),
    (Capacity.enrolments, _enrolment),
    (InferenceMarket.units, _unit),
    (InferenceMarket.open_units, _claims("units")),
    (InferenceMarket.services, _service),
    (InferenceMarket.offers, _offer),
    (InferenceMarket.offer_count, _claims("offers")),
    (InferenceMarket.sleeping, _counts("sleepers", by_first=True)),
    (InferenceMarket.sleepers_count, _claims("sleepers")),
    (Courts.cases, _case),
    (Courts.seats, _seat),
    (LeafChecks.checks, _check),
    (TrainingMarket.tasks, lambda book, keys, task, sign: book.tasks.task(keys[0], task, sign)),
    (TrainingMarket.bids, lambda book, keys, bid, sign: book.tasks.bid(keys[0], keys[1], bid, sign)),
    (TrainingMarket.claims, lambda book, keys, _, sign: book.tasks.claim(keys[0], keys[1], sign)),
    (TrainingMarket.open_tasks, lambda book, _, number, sign: book.tasks.counted.claim(OPEN, sign * number)),
    (TrainingMarket.on_sale, lambda book, keys, _, sign: book.tasks.counted.claim(keys[0], sign)),
)
"""In an order in which a whole state can be read: devices before their offers."""
