"""A unit of continuous inference: the customer's terms, the racers and the outcome.

Invariants:

* A unit holds `escrow + bond` grains of its customer from its post until it is settled or refunded. It holds `deposit`
  as long as its record exists.
* Its racers have distinct owners.
* It is in exactly one `UnitState`.
* A racer holds its collateral until its race ends: the winner until its claim ends, a party of a dispute until that
  ends. A decliner holds it until voters have looked at the input, or the unit is claimed or ends.
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
    "UnitMoney",
    "The most that a unit may cost its customer: price, witness, fees of checks, and bond. One for each unit.",
)
UNIT_DEPOSIT = HoldReason(
    "UnitDeposit",
    "The deposit for a unit's record, until the chain drops the record. One for each unit.",
    is_deposit=True,
)
UNITS_OPEN_MAX = 4_096
"""The most open units. Each holds a deposit, so to shut others out costs this many times `unit_deposit`."""
RACERS_MAX = 8
DECLINES_TO_VOTE = 2
"""The number of declining owners, without any answer, after which voters look at the input."""
DECLINERS_MAX = RACERS_MAX + DECLINES_TO_VOTE
RACE_DECLINES_MAX = RACERS_MAX + 1
"""The most owners that can decline in one race: its racers, and the replacement of one."""
DECLINES_MAX = 24
"""The most owners that decline or pass a unit. If one more race could exceed this, the unit is refunded."""


# The value that racers commit to before any of them reveals.
#
# A commitment binds its maker, unit and attempt, so a copied one cannot be opened. The salt is 32 random bytes of the
# maker. The salt of the customer's input never goes on chain.
@struct
class _ResultBody:
    unit: Hash
    attempt: U32
    provider: AccountId
    output_root: Hash
    salt: Hash


_RESULT = codec(_ResultBody)


def result_commitment(
    genesis_hash: bytes, unit_id: bytes, attempt: int, provider: bytes, output_root: bytes, salt: bytes
) -> bytes:
    """Return the 32 bytes that racer `provider` (its stash) commits for an output root."""
    body = _RESULT.encode(_ResultBody(unit_id, attempt, provider, output_root, salt))
    return blake2_256(domain(b"result", genesis_hash, body))


class UnitState(IntEnum):
    """The state of a unit. The last two are terminal."""

    QUEUED = 0
    RACING = 1
    DISPUTED = 2
    """Voters decide between differing results, or about the input."""
    CLAIMED = 3
    """The customer can read the result. Its claim is not over."""
    SETTLED = 4
    REFUNDED = 5


class Refund(IntEnum):
    """The reason of a refund."""

    CANCELLED = 0
    EXPIRED = 1
    INPUT_BAD = 2
    INCONCLUSIVE = 3
    REFUTED = 4
    """The claimed result is wrong."""


@struct
class UnitTerms:
    """The customer's terms for one unit."""

    price_max: Balance
    """The most grains that the customer pays to the winner, for all the tokens that the unit allows."""
    racers: U8
    """The number of racing providers: 1 to 8, usually 2."""
    input_root: Hash
    """The address of the sealed input blob."""
    input_commitment: Hash
    """The hash of salt and plain input. The salt is in the sealed input."""
    sealed_at: BlockNumber
    """A recent final height. Only keys registered by then can open the input."""
    tokens_max: U32
    """The most output tokens, of all its requests together."""
    requests: U32 = 1
    """The number of requests in its input, 1 to `REQUESTS_MAX`. Two or more are a batch."""
    tokens_in: U32 = 0
    """The most input tokens, of all its requests together."""
    device_class: DeviceClass | None = None
    """The class of devices that may race until the price has risen, or None for all classes (`classes.py`)."""


@struct
class Reveal:
    """The result that opened a racer's commitment."""

    output_root: Hash
    output_blob: Hash
    output_tokens: U64
    revealed_at: BlockNumber
    input_tokens: U64 = 0
    """The input tokens to pay for. The output root commits to them and to `output_tokens`."""


@struct
class Racer:
    """One drawn device, and its owner's actions so far."""

    owner: AccountId
    device: DeviceId
    collateral: Balance
    """The grains that the device holds for the unit now: 0 once it is released, or after a conviction."""
    commitment: Hash | None = None
    committed_at: BlockNumber = 0
    reveal: Reveal | None = None
    has_declined: bool = False
    started_at: BlockNumber = 0
    """The block in which its device finished its earlier units and began this one, or 0 before that."""
    is_out: bool = False
    """True if its time to commit ran out."""


@struct
class Unit:
    """One unit, from its post to its end."""

    service: ServiceId
    customer: AccountId
    terms: UnitTerms
    escrow: Balance
    bond: Balance
    deposit: Balance
    """The grains held for the record. All of them return when it is dropped, for any outcome."""
    posted_at: BlockNumber
    recorded_at: BlockNumber
    """The block from which the unit waits for a draw of its racers, or of one place. The draw uses the beacon of two
    blocks later."""
    state: UnitState = UnitState.QUEUED
    attempt: U32 = 0
    """The number of races drawn for the unit. Results of earlier attempts do not count."""
    price: Balance = 0
    """The price of the current race, in grains."""
    round: Round | None = None
    racers: Annotated[tuple[Racer, ...], Bounded(RACERS_MAX)] = ()
    decliners: Annotated[tuple[Racer, ...], Bounded(DECLINERS_MAX)] = ()
    """Racers that declined in earlier races, or declined in this one and were replaced. Voters may still find the
    input good."""
    declined_by: Annotated[tuple[AccountId, ...], Bounded(DECLINES_MAX)] = ()
    """Owners that declined the unit, or passed it. They are not drawn for it again."""
    output_root: Hash | None = None
    """The claimed result. It is accepted once the unit is settled."""
    paid: Balance = 0
    """All grains that the customer paid, once the unit ended: to racers, checkers, voters and fees, or burned."""
    ended_at: BlockNumber = 0
    asleep_since: BlockNumber = 0
    """The block in which no match was found, while the unit waits for a slot to change, else 0."""
    input_share: U32 = 0
    """The count of an input token, in millionths of an output token, copied from the service."""
    rules: UnitRules = DEFAULT_RULES
    """The unit's own rules, which later parameters do not change."""
    is_refilling: bool = False
    """True if a declined place of its race waits for a draw."""
    refund: Refund | None = None
    """The reason of the refund, once there is one."""
    race_recorded_at: BlockNumber = 0
    """The `recorded_at` of the draw of its race. The current `recorded_at` is newer if a place was drawn again."""


@dataclass(frozen=True, slots=True)
class OpenUnit:
    """An open unit: its id, and its current record."""

    id: UnitId
    record: Unit


@struct
class _UnitBody:
    customer: AccountId
    number: U32


_UNIT_BODY = codec(_UnitBody)


def unit_id_of(genesis_hash: bytes, customer: bytes, unit_number: int) -> UnitId:
    """Return the id of the unit that `customer` posts as its number `unit_number`, counted from 0."""
    return blake2_256(domain(b"unit", genesis_hash, _UNIT_BODY.encode(_UnitBody(customer, unit_number))))


def is_open(record: Unit) -> bool:
    """Return True if the unit still holds money and may change."""
    return record.state not in (UnitState.SETTLED, UnitState.REFUNDED)


def holds_collateral(record: Unit) -> tuple[Racer, ...]:
    """Return the racers and decliners that hold collateral for the unit."""
    return (*record.racers, *record.decliners) if is_open(record) else ()


def declines_of(record: Unit) -> int:
    """Return the number of owners that are liable for a decline of the unit."""
    return sum(racer.has_declined for racer in record.racers) + len(record.decliners)


def racer_of(record: Unit, owner: bytes) -> Racer | None:
    """Return the owner's place in the current race, or None."""
    return next((racer for racer in record.racers if racer.owner == owner), None)


def dispute_id_of(unit_id: bytes, attempt: int) -> bytes:
    """Return the id of the dispute about a race's results, or about the input."""
    return blake2_256(b"ogpu/unit-dispute" + unit_id + attempt.to_bytes(4, "little"))


def revealed_root(racer: Racer) -> bytes | None:
    """Return the root that a racer revealed, or None."""
    return None if racer.reveal is None else racer.reveal.output_root


def round_of(record: Unit) -> Round:
    """Return the round of a unit in a race."""
    assert record.round is not None, "a unit in a race has a round"
    return record.round
