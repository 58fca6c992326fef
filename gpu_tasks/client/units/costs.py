"""The cost of units: estimates before a post and sums after it, with the same names.

Invariants:

* Locked money is paid, returned, or still locked.
* Sums of the past hold only facts that the chain proves. A fee is unknown if no node serves its block any more.
* An estimate names its conditions: the earliest possible draw, and all allowed tokens. Unknown values are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_tasks.batches.requests import PRICED, TOKEN, price_of, work_of
from gpu_tasks.client.offers.listing import asks_of, drawable, unit_rules
from gpu_tasks.client.offers.outlook import grains_of, lock_facts, slot_ms
from gpu_tasks.client.units.lines import LineError
from gpu_tasks.client.units.posting import AskedUnit, PostingCost, Wish
from gpu_tasks.data import market_reads
from gpu_tasks.market.claims.claims import SECOND_PPM
from gpu_tasks.market.claims.collateral import PPM, item_rate
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.draws import BEACON_DELAY
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.events import UnitPosted
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.rules import UnitRules
from gpu_tasks.market.inference.services import ServiceTerms, pace_of
from gpu_tasks.market.inference.units import Unit, is_open
from gpu_tasks.market.training.rules import TaskRules
from runtime.encoding.types import ApplyExtrinsic
from runtime.pallets.transaction_payment import TransactionFeePaid
from wallet.amounts import Grains, format_amount
from wallet.client import ChainClient
from wallet.rpc import OddAnswerError, RpcError


@dataclass(frozen=True, slots=True)
class UnitSums:
    """The sums of one or more units, in grains."""

    locked: int = 0
    """The money locked by the post: price, witness, checks, bond and deposit."""
    prepaid: int = 0
    """The money spent at once, on duty calls."""
    fees: int | None = 0
    """The transaction fees. None if no node serves their blocks any more."""
    paid: int = 0
    """The payments of ended units: to providers, checkers and voters, or burned."""
    returned: int = 0
    """The money returned at the end."""

    @property
    def still_locked(self) -> int:
        """The money still locked: all of open units.

        Of ended ones it is the deposit, until their records are dropped.
        """
        return self.locked - self.paid - self.returned

    @property
    def cost(self) -> int | None:
        """All money spent so far."""
        return None if self.fees is None else self.prepaid + self.fees + self.paid

    def __add__(self, other: UnitSums) -> UnitSums:
        """Return the sums of both."""
        return UnitSums(
            self.locked + other.locked,
            self.prepaid + other.prepaid,
            None if self.fees is None or other.fees is None else self.fees + other.fees,
            self.paid + other.paid,
            self.returned + other.returned,
        )

    def facts(self) -> dict[str, Grains | None]:
        """Return the sums by the names that every command shows."""
        return {
            "locked": Grains(self.locked),
            "prepaid": Grains(self.prepaid),
            "fees": grains_of(self.fees),
            "paid": Grains(self.paid),
            "returned": Grains(self.returned),
            "still_locked": Grains(self.still_locked),
            "cost": grains_of(self.cost),
        }


NOTHING = UnitSums()


@dataclass(slots=True)
class SpentMoney:
    """Computes the sums of units. It reads each block and parameter once."""

    client: ChainClient
    _fees: dict[int, dict[bytes, int]] = field(default_factory=dict)
    """The fees, by block and by unit posted in it."""
    _duty_fee: int | None = None

    async def of(self, unit_id: bytes, unit: Unit) -> UnitSums:
        """Return the sums of a unit in a final block: the money locked for it, and its use so far."""
        paid, returned = paid_and_returned(unit)
        return UnitSums(
            locked=unit.escrow + unit.bond + unit.deposit,
            prepaid=await self.prepaid(unit),
            fees=await self._fee(unit_id, unit.posted_at),
            paid=paid,
            returned=returned,
        )

    async def prepaid(self, unit: Unit) -> int:
        """Return the prepaid cost of duty calls at a call's current price. Root may have changed it since the post."""
        if self._duty_fee is None:
            self._duty_fee = await self.client.read(InferenceMarket.duty_fee.item)
        return self._duty_fee * money.duty_calls(unit.terms.racers)

    async def _fee(self, unit_id: bytes, height: int) -> int | None:
        """Return the unit's share of its extrinsic's fee."""
        if height not in self._fees:
            self._fees[height] = await _fees_of_block(self.client, height)
        return self._fees[height].get(unit_id)


def paid_and_returned(unit: Unit) -> tuple[int, int]:
    """Return how the money locked for a unit's outcome was split.

    The deposit is apart: it returns when the record is dropped.
    """
    if is_open(unit):
        return 0, 0
    return unit.paid, unit.escrow + unit.bond - unit.paid


async def _fees_of_block(client: ChainClient, height: int) -> dict[bytes, int]:
    """Return the fee shares of all units that a block posted. The shares of one extrinsic add up to its fee."""
    try:
        event_records = await client.events(await client.block_id(height))
    except (RpcError, OddAnswerError):  # Nodes keep only the states of the newest final blocks.
        return {}
    units: dict[int, list[bytes]] = {}
    fees: dict[int, int] = {}
    for event_record in event_records:
        if isinstance(event_record.phase, ApplyExtrinsic) and isinstance(event_record.event, UnitPosted):
            units.setdefault(event_record.phase.index, []).append(event_record.event.unit)
        elif isinstance(event_record.phase, ApplyExtrinsic) and isinstance(event_record.event, TransactionFeePaid):
            fees[event_record.phase.index] = event_record.event.actual_fee
    return {
        # Differences of rounded prefix sums: each share is within a grain of the average, and no grain is lost.
        unit: fees[index] * (unit_place + 1) // len(posted) - fees[index] * unit_place // len(posted)
        for index, posted in units.items()
        for unit_place, unit in enumerate(posted)
    }


DRAWN_AFTER = BEACON_DELAY + 1
"""Blocks from a unit's post to its earliest draw."""
ANSWERED_AFTER = 4
"""Blocks from the last commit to the answer, usually: its block becomes final, results are revealed and one is claimed.
"""
REFUSED_SHOWN = 3
TOO_FEW_OWNERS = "too few owners could race for it at this price now"


@dataclass(frozen=True, slots=True)
class RisingPrice:
    """The price of a unit at its earliest draw and at its latest, in grains per thousand output tokens."""

    drawn_after: int
    """Blocks from the post."""
    at_draw: int
    at_last: int
    last_after: int
    """Blocks from the post."""

    def sentence(self, unit: str) -> str:
        """Return a sentence about the price per thousand units of cost, which the workload names."""
        first = f"drawn after {self.drawn_after} blocks you pay {format_amount(self.at_draw)} oGPU per thousand {unit}s"
        if self.at_draw == self.at_last:
            return f"{first}, the most"
        return f"{first}; that rises to {format_amount(self.at_last)} after {self.last_after} blocks without a draw"


@dataclass(frozen=True, slots=True)
class Estimate:
    """The expected cost and duration of some units."""

    requests: int
    tokens_in: int
    tokens_out: int
    """The most that they may be."""
    work: int
    """The work of all these tokens."""
    cost: PostingCost
    price: RisingPrice | None
    """None if too few owners could race at this price now."""
    expected: int | None
    """Grains spent in the end, including fees."""
    devices: int
    """The devices that could be drawn now if they are free."""
    blocks: int | None
    """Blocks until all are answered, if these devices have no other work and compute at the lowest allowed pace."""
    slot_ms: int
    cost_unit: str
    """The workload's unit of cost: token, step, product."""

    @property
    def seconds(self) -> int | None:
        """The duration of these blocks, rounded up."""
        return None if self.blocks is None else -(-self.blocks * self.slot_ms // 1_000)

    def facts(self, *, is_for_programs: bool) -> dict[str, Any]:
        """Return the facts in display order. The sentences are for people."""
        cost, price = self.cost, self.price
        shown_facts: dict[str, Any] = {
            "requests": self.requests,
            "units": cost.units,
            "tokens_in": self.tokens_in,
            "tokens_out_at_most": self.tokens_out,
            "locked": Grains(cost.locked),
            **lock_facts(cost.locks, is_for_programs=is_for_programs),
            "prepaid": Grains(cost.prepaid),
            "fees": Grains(cost.fees),
            "expected": grains_of(self.expected),
            "most": Grains(cost.most),
            "expected_per_thousand": grains_of(self._per_thousand(self.expected)),
            "most_per_thousand": grains_of(self._per_thousand(cost.most)),
        }
        if not is_for_programs:
            return shown_facts | {
                "price": TOO_FEW_OWNERS if price is None else price.sentence(self.cost_unit),
                "expected_end": self._end(),
            }
        return shown_facts | {
            "drawn_after_blocks": price and price.drawn_after,
            "price_at_draw": price and Grains(price.at_draw),
            "price_at_last": price and Grains(price.at_last),
            "price_at_last_after_blocks": price and price.last_after,
            "devices": self.devices,
            "ends_after_blocks": self.blocks,
            "ends_after_seconds": self.seconds,
        }

    def _per_thousand(self, amount: int | None) -> int | None:
        """Return an amount per thousand tokens as the service prices them, rounded up."""
        return None if amount is None or not self.work else -(-amount * PRICED // self.work)

    def _end(self) -> str:
        if self.price is None:
            return f"not known: {TOO_FEW_OWNERS}"
        if self.blocks is None:
            return "not known: nobody says how fast this is computed"
        devices = (
            "the 1 device that offers it is" if self.devices == 1 else f"the {self.devices} devices that offer it are"
        )
        return f"within about {self.blocks:,} blocks ({self.seconds:,} s), if {devices} free"


def refused_facts(refused: Sequence[LineError], *, is_for_programs: bool) -> dict[str, Any]:
    """Return the number of lines that are no valid request, with the reasons for the first of them."""
    first_refused = [
        {"line": error.number, "code": error.code, "message": error.message} for error in refused[:REFUSED_SHOWN]
    ]
    if is_for_programs:
        return {"refused": len(refused), "refused_first": first_refused}
    reason = "; ".join(f"line {error['line']}: {error['message']}" for error in first_refused)
    rest_text = f"; and {len(refused) - len(first_refused):,} more" if len(refused) > len(first_refused) else ""
    return {"refused": f"{len(refused):,}: {reason}{rest_text}" if refused else "0"}


async def estimate_of(
    client: ChainClient, account: bytes, wish: Wish, units: Sequence[AskedUnit], cost: PostingCost, cost_unit: str
) -> Estimate | None:
    """Return the estimate for posting these units, by the current offers for their service.

    Return None if there are no units or no such service.
    """
    block_hash = await client.finalized()
    service = await market_reads.service(client, wish.service, block_hash)
    if service is None or not units:
        return None
    terms = service.terms
    kind = wish.named_class
    drawable_devices = await drawable(
        client, wish.service, account, racers=wish.racers, rate_max=wish.rate_max, block_hash=block_hash
    )
    devices = [status for status in drawable_devices if kind is None or status.device.kind is kind]
    price = rising_price(terms, wish, asks_of(devices, wish.service).values())
    works = [work_of(terms.input_share, unit.tokens_in, unit.tokens_max) for unit in units]
    return Estimate(
        requests=sum(unit.count for unit in units),
        tokens_in=sum(unit.tokens_in for unit in units),
        tokens_out=sum(unit.tokens_max for unit in units),
        work=sum(works),
        cost=cost,
        price=price,
        expected=None if price is None else await _expected_cost(client, terms, wish, units, works, price, cost),
        devices=len(devices),
        # Without a named class, any device may be drawn, and the slowest class sets the time.
        blocks=blocks_of(pace_of(terms, kind or DeviceClass.CPU), works, wish.racers, len(devices), price),
        slot_ms=slot_ms(client),
        cost_unit=cost_unit,
    )


def rising_price(terms: ServiceTerms, wish: Wish, asks: Iterable[int]) -> RisingPrice | None:
    """Return the price of a unit that meets the lowest asks of enough owners, or None if none can."""
    # Racers have different owners, so the price must meet the asks of as many owners.
    binding_asks = sorted(asks)[wish.racers - 1 : wish.racers]
    if not binding_asks or binding_asks[0] > wish.rate_max:
        return None
    age = max(DRAWN_AFTER, money.age_of_price(terms.price_min, wish.rate_max, binding_asks[0], terms.ramp))
    at_draw = money.ramped_price(terms.price_min, wish.rate_max, age, terms.ramp)
    return RisingPrice(age, at_draw, wish.rate_max, terms.ramp)


def blocks_of(pace: int, works: Sequence[int], racers: int, devices: int, price: RisingPrice | None) -> int | None:
    """Return the blocks until these units are answered, shared by `devices` of a pace; None if a value is missing."""
    if price is None or not pace or not devices:
        return None
    # A unit is not divided, so the heaviest one alone bounds the time from below.
    longest = max(-(-sum(works) * racers // devices), *works)
    return price.drawn_after + -(-longest // (pace * TOKEN)) + ANSWERED_AFTER


async def _expected_cost(
    client: ChainClient, terms: ServiceTerms, wish: Wish, units: Sequence[AskedUnit], works: Sequence[int],
    price: RisingPrice, cost: PostingCost,
) -> int:  # fmt: skip
    """Return the expected cost: price at the draw, checks, a witness if there is one, and the money spent at once."""
    counts: Counter[tuple[int, int]] = Counter()
    for unit, work in zip(units, works, strict=True):
        floor = price_of(terms.price_min, work)
        counts[money.ramped_price(floor, unit.price_max, price.drawn_after, terms.ramp), unit.count] += 1
    rules = await unit_rules(client, terms.check_ppm)
    total = cost.prepaid + cost.fees
    for (paid, requests), count in counts.items():
        witness = money.witness_pay(rules, paid) if wish.racers > 1 else 0
        total += count * (paid + expected_check_fees(rules, paid, requests) + witness)
    return total


def expected_check_fees(rules: UnitRules | TaskRules, price_grains: int, items: int) -> int:
    """Return the mean fee of the checks of a result: one for the drawn items, and in one of four cases a second."""
    if not rules.check_rate_ppm:
        return 0
    rate = item_rate(items, rules.check_rate_ppm) / PPM
    is_checked = 1 - (1 - rate) ** items
    share = rate / is_checked
    """The mean part of the items that a check covers, if there is one."""
    fee = max(rules.check_fee_min, price_grains * rules.check_ppm / PPM * share)
    return round(fee * is_checked * (PPM + SECOND_PPM) / PPM)
