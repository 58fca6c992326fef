"""A unit of continuous inference: what the customer asked, who races for it, how it ended.

Always: a unit holds `escrow + bond` grains of its customer from posting until it is settled or refunded, and `deposit`
for as long as there is a record of it; its racers have distinct owners; it is in exactly one `UnitState`; who stands
for an answer or a decline holds its collateral until no case about it can come any more.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.ids import DeviceId, ServiceId, UnitId
from gpu_tasks.market.inference.rules import DEFAULT_RULES, UnitRules
from gpu_tasks.market.rounds import Round
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U8, U32, U64, Bounded, codec, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.holds import HoldReason

UNIT_MONEY = HoldReason(
    "UnitMoney", "What a unit may cost its customer: price, witness or judges, premium and bond; the case is the unit."
)
UNIT_DEPOSIT = HoldReason(
    "UnitDeposit", "For the record of a unit, which is the case, until that is dropped.", is_deposit=True
)
UNITS_OPEN_MAX = 4_096
"""Each locks a deposit, so to shut others out costs the use of `unit_deposit` times this."""
RACERS_MAX = 8
DECLINES_TO_JUDGE = 2
"""When so many owners have declined and nobody has answered, a committee looks at the input."""
DECLINERS_MAX = RACERS_MAX + DECLINES_TO_JUDGE
RACE_DECLINES_MAX = RACERS_MAX + 1
"""Owners that one race can bring to decline: its racers, and who fills the place of one."""
DECLINES_MAX = 24
"""Owners that are not drawn for a unit again; where one more race could bring more of them, it is refunded."""


# What racers commit to before anybody reveals.
#
# A commitment is bound to its maker, unit and attempt, so copying one opens nothing. The salt is 32 random bytes of the
# maker; the salt of the customer's input never goes on chain.
@struct
class _ResultBody:
    unit: Hash
    attempt: U32
    provider: AccountId
    output_root: Hash
    salt: Hash


_RESULT = codec(_ResultBody)


def result_commitment(
    genesis: bytes, unit: bytes, attempt: int, provider: bytes, output_root: bytes, salt: bytes
) -> bytes:
    """The 32 bytes that racer `provider` (its stash) commits for an output root."""
    body = _RESULT.encode(_ResultBody(unit, attempt, provider, output_root, salt))
    return blake2_256(domain(b"result", genesis, body))


class UnitState(IntEnum):
    """Where a unit stands; the last two are terminal."""

    QUEUED = 0
    RACING = 1
    JUDGING = 2
    SETTLED = 3
    REFUNDED = 4


class Refund(IntEnum):
    """Why a customer got the price back."""

    CANCELLED = 0
    EXPIRED = 1
    INPUT_BAD = 2
    INCONCLUSIVE = 3


@struct
class UnitTerms:
    """What the customer asks of one unit."""

    price_max: Balance
    """Grains that the customer pays at most to the winner: for all the tokens that it allows."""
    racers: U8
    """How many providers race: 1 to 8, 2 is usual."""
    input_root: Hash
    """Address of the sealed input blob."""
    input_commitment: Hash
    """Hash of salt and plain input; the salt lies in the sealed input."""
    sealed_at: BlockNumber
    """A recent final height: only keys registered by then can open the input."""
    tokens_max: U32
    """Most output tokens, of all its requests together."""
    requests: U32 = 1
    """How many requests its input has: 1 to `REQUESTS_MAX`; two or more are a batch."""
    tokens_in: U32 = 0
    """Most input tokens, of all its requests together."""
    device_class: DeviceClass | None = None
    """Which devices race, until its price has risen; None where any may. `classes.py`"""


@struct
class Reveal:
    """The result that a racer opened its commitment to."""

    output_root: Hash
    output_blob: Hash
    output_tokens: U64
    revealed_at: BlockNumber
    input_tokens: U64 = 0
    """What is paid for: the totals that the root commits to."""


@struct
class Racer:
    """One drawn device and what its owner has done so far."""

    owner: AccountId
    device: DeviceId
    collateral: Balance
    """What it holds for the unit now."""
    commitment: Hash | None = None
    committed_at: BlockNumber = 0
    reveal: Reveal | None = None
    has_declined: bool = False
    is_late: bool = False
    """Whether it revealed when a case was open already: that is paid no more."""
    started_at: BlockNumber = 0
    """The block in which its device was done with what it was drawn for before; 0 while it is not."""
    is_out: bool = False
    """Whether its time to commit ran out."""


@struct
class Unit:
    """One unit, from posting to its end."""

    service: ServiceId
    customer: AccountId
    terms: UnitTerms
    escrow: Balance
    bond: Balance
    deposit: Balance
    """Held for the record: returned whole when that is dropped, however the unit ended."""
    posted_at: BlockNumber
    recorded_at: BlockNumber
    """The draw, of the race or of a place in it, uses the beacon of two blocks after this one."""
    state: UnitState = UnitState.QUEUED
    attempt: U32 = 0
    """How often the unit was drawn; results of earlier attempts do not count."""
    price: Balance = 0
    """Grains that the current race is about."""
    round: Round | None = None
    racers: Annotated[tuple[Racer, ...], Bounded(RACERS_MAX)] = ()
    decliners: Annotated[tuple[Racer, ...], Bounded(DECLINERS_MAX)] = ()
    """Who declined in earlier races, or in this one and was replaced: a committee may yet find the input good."""
    declined_by: Annotated[tuple[AccountId, ...], Bounded(DECLINES_MAX)] = ()
    """Owners who could not open the input; they are not drawn for it again."""
    output_root: Hash | None = None
    """The result, once settled."""
    paid: Balance = 0
    """All that the customer paid for it, once it ended: to racers, judges, pot and fees, or to the fire."""
    ended_at: BlockNumber = 0
    is_watched: bool = False
    """Whether it is settled and may yet be audited: its racers stand for it until that is over."""
    is_refuted: bool = False
    """Whether an audit found its result wrong; the customer has the price back."""
    asleep_since: BlockNumber = 0
    """The block in which it could not be matched, while it waits for a slot to change; 0 while it does not."""
    input_share: U32 = 0
    """What an input token counts, in millionths of an output token: as its service has it."""
    rules: UnitRules = DEFAULT_RULES
    """What it goes by, whatever the parameters become."""
    is_refilling: bool = False
    """Whether a place of its race that was declined waits for a draw."""
    refund: Refund | None = None
    """Why the price went back, once it did."""
    leaf_audit_ppm: U32 = 0
    """Of a batch that is checked by its leaves: the chance that what its auditor passes with is looked at."""
    race_recorded_at: BlockNumber = 0
    """The recording that its race was drawn for: `recorded_at` is newer once a place of the race is drawn again."""


@dataclass(frozen=True, slots=True)
class OpenUnit:
    """An open unit in hand: its id, and its record as it stands."""

    id: UnitId
    record: Unit


@struct
class _UnitBody:
    customer: AccountId
    number: U32


_UNIT_BODY = codec(_UnitBody)


def unit_id_of(genesis: bytes, customer: bytes, number: int) -> UnitId:
    """The id of the unit that `customer` posts as its number `number`, counted from 0."""
    return blake2_256(domain(b"unit", genesis, _UNIT_BODY.encode(_UnitBody(customer, number))))


def is_open(unit: Unit) -> bool:
    """Whether the unit still holds money and may change."""
    return unit.state not in (UnitState.SETTLED, UnitState.REFUNDED)


def holds_collateral(unit: Unit) -> tuple[Racer, ...]:
    """All who stand for something that they said or may say of the unit."""
    return (*unit.racers, *unit.decliners) if is_open(unit) or unit.is_watched else ()


def declines_of(unit: Unit) -> int:
    """How many owners stand for having declined it."""
    return sum(racer.has_declined for racer in unit.racers) + len(unit.decliners)


def racer_of(unit: Unit, owner: bytes) -> Racer | None:
    """The owner's place in the current race."""
    return next((racer for racer in unit.racers if racer.owner == owner), None)


def round_of(unit: Unit) -> Round:
    """The round of a unit that is raced for."""
    assert unit.round is not None, "a unit in a race has a round"
    return unit.round
