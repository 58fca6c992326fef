"""What units cost: estimates before a post, sums after it, always in the same words.

Always: what was locked is paid, returned, or locked still. Of the past only what the chain proves is told: a fee whose
block no node shows any more is not known. What is expected is said under its condition: drawn as soon as can be, and
every token that is allowed comes; what cannot be known now is not said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_tasks.batches.requests import PRICED, TOKEN, price_of, work_of
from gpu_tasks.client.offers.listing import asks_of, drawable
from gpu_tasks.client.offers.outlook import grains_of, slot_ms
from gpu_tasks.client.units.lines import LineError
from gpu_tasks.client.units.posting import AskedUnit, PostingCost, Wish
from gpu_tasks.client.units.results import cost_of
from gpu_tasks.data import market_reads
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.draws import BEACON_DELAY
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.events import UnitPosted
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.rules import UnitRules
from gpu_tasks.market.inference.services import ServiceTerms, pace_of
from gpu_tasks.market.inference.units import Unit, is_open
from runtime.encoding.types import ApplyExtrinsic
from runtime.pallets.transaction_payment import TransactionFeePaid
from wallet.amounts import Grains, format_amount
from wallet.client import ChainClient
from wallet.rpc import OddAnswerError, RpcError


@dataclass(frozen=True, slots=True)
class UnitSums:
    """Of one unit, or of several together, in grains."""

    locked: int = 0
    """When they were posted: price, witness or judges, audits, bond and deposit."""
    prepaid: int = 0
    """Gone at once, for duty calls."""
    fees: int | None = 0
    """Of transactions; None where the chain does not show them any more."""
    paid: int = 0
    """To providers and judges, for audits, or burned, of units that ended; less the price that a liar gave back."""
    returned: int = 0
    """When they ended."""

    @property
    def still_locked(self) -> int:
        """Of open units all, of ended ones the deposit, until their records are dropped."""
        return self.locked - self.paid - self.returned

    @property
    def cost(self) -> int | None:
        """All that is gone so far."""
        return None if self.fees is None else self.prepaid + self.fees + self.paid

    def __add__(self, other: UnitSums) -> UnitSums:
        """Of both together."""
        return UnitSums(
            self.locked + other.locked,
            self.prepaid + other.prepaid,
            None if self.fees is None or other.fees is None else self.fees + other.fees,
            self.paid + other.paid,
            self.returned + other.returned,
        )

    def facts(self) -> dict[str, Grains | None]:
        """As every command shows them."""
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
    """Says it of units; what blocks and parameters say is asked for once."""

    client: ChainClient
    _fees: dict[int, dict[bytes, int]] = field(default_factory=dict)
    """By block, and by unit that it posted."""
    _duty_fee: int | None = None

    async def of(self, unit_id: bytes, unit: Unit) -> UnitSums:
        """What was locked for a unit that is in a final block, and what became of that so far."""
        paid, returned = paid_and_returned(unit)
        return UnitSums(
            locked=unit.escrow + unit.bond + unit.deposit,
            prepaid=await self.prepaid(unit),
            fees=await self._fee(unit_id, unit.posted_at),
            paid=paid,
            returned=returned,
        )

    async def prepaid(self, unit: Unit) -> int:
        """Return the prepaid cost of duty calls, at the current price of a call; Root may have changed it since."""
        if self._duty_fee is None:
            self._duty_fee = await self.client.read(InferenceMarket.duty_fee.item)
        checks = money.CHECK_CALLS if unit.leaf_audit_ppm else 0
        return self._duty_fee * (money.duty_calls(unit.terms.racers) + checks)

    async def _fee(self, unit_id: bytes, height: int) -> int | None:
        """The unit's share of what its extrinsic cost."""
        if height not in self._fees:
            self._fees[height] = await _fees_of(self.client, height)
        return self._fees[height].get(unit_id)


def paid_and_returned(unit: Unit) -> tuple[int, int]:
    """Of what was locked for a unit's outcome; the deposit beside it returns with the record."""
    if is_open(unit):
        return 0, 0
    paid = cost_of(unit)
    return paid, unit.escrow + unit.bond - paid


async def _fees_of(client: ChainClient, height: int) -> dict[bytes, int]:
    """The shares of all units that a block posted: those of one extrinsic add up to its fee."""
    try:
        records = await client.events(await client.block_id(height))
    except (RpcError, OddAnswerError):  # nodes keep the states of the newest final blocks
        return {}
    units: dict[int, list[bytes]] = {}
    fees: dict[int, int] = {}
    for record in records:
        if isinstance(record.phase, ApplyExtrinsic) and isinstance(record.event, UnitPosted):
            units.setdefault(record.phase.index, []).append(record.event.unit)
        elif isinstance(record.phase, ApplyExtrinsic) and isinstance(record.event, TransactionFeePaid):
            fees[record.phase.index] = record.event.actual_fee
    return {
        unit: fees[index] * (at + 1) // len(posted) - fees[index] * at // len(posted)
        for index, posted in units.items()
        for at, unit in enumerate(posted)
    }


DRAWN_AFTER = BEACON_DELAY + 1
"""Blocks from its post to the draw of a unit that somebody can take."""
SETTLED_AFTER = 4
"""Blocks from the last commit to the payment, usually: its block is final, results are opened, and that is settled."""
REFUSED_SHOWN = 3
TOO_FEW_OWNERS = "too few owners could race for it at this price now"


@dataclass(frozen=True, slots=True)
class RisingPrice:
    """Grains per thousand output tokens: what a unit pays that is drawn as soon as can be, and what it pays at last."""

    drawn_after: int
    """Blocks from its post."""
    at_draw: int
    at_last: int
    last_after: int
    """Blocks from its post."""

    def sentence(self, unit: str) -> str:
        """For people, per thousand tokens, or whatever the workload counts."""
        first = f"drawn after {self.drawn_after} blocks you pay {format_amount(self.at_draw)} oGPU per thousand {unit}s"
        if self.at_draw == self.at_last:
            return f"{first}, the most"
        return f"{first}; that rises to {format_amount(self.at_last)} after {self.last_after} blocks without a draw"


@dataclass(frozen=True, slots=True)
class Estimate:
    """What posting some units comes to."""

    requests: int
    tokens_in: int
    tokens_out: int
    """At most."""
    work: int
    """Of all these tokens."""
    cost: PostingCost
    price: RisingPrice | None
    """None where too few owners could race for it at this price now."""
    expected: int | None
    """Grains that are gone in the end, fees among them."""
    devices: int
    """That could be drawn for it now, if they are free."""
    blocks: int | None
    """Until all are paid, if these devices have nothing else to do and are as slow as the service allows for."""
    slot_ms: int
    cost_unit: str
    """What the workload counts: token, step, product."""

    @property
    def seconds(self) -> int | None:
        """As long as these blocks take."""
        return None if self.blocks is None else -(-self.blocks * self.slot_ms // 1_000)

    def facts(self, *, is_for_programs: bool) -> dict[str, Any]:
        """In the order in which they are shown; the sentences are for people."""
        cost, price = self.cost, self.price
        found: dict[str, Any] = {
            "requests": self.requests,
            "units": cost.units,
            "tokens_in": self.tokens_in,
            "tokens_out_at_most": self.tokens_out,
            "locked": Grains(cost.locked),
            "prepaid": Grains(cost.prepaid),
            "fees": Grains(cost.fees),
            "expected": grains_of(self.expected),
            "most": Grains(cost.most),
            "expected_per_thousand": grains_of(self._per_thousand(self.expected)),
            "most_per_thousand": grains_of(self._per_thousand(cost.most)),
        }
        if not is_for_programs:
            return found | {
                "price": TOO_FEW_OWNERS if price is None else price.sentence(self.cost_unit),
                "expected_end": self._end(),
            }
        return found | {
            "drawn_after_blocks": price and price.drawn_after,
            "price_at_draw": price and Grains(price.at_draw),
            "price_at_last": price and Grains(price.at_last),
            "price_at_last_after_blocks": price and price.last_after,
            "devices": self.devices,
            "ends_after_blocks": self.blocks,
            "ends_after_seconds": self.seconds,
        }

    def _per_thousand(self, amount: int | None) -> int | None:
        """What so much is for a thousand tokens, counted as the service prices them; rounded up."""
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
    """How many lines of a file ask for nothing that can be bought, and why the first do."""
    first = [{"line": error.number, "code": error.code, "message": error.message} for error in refused[:REFUSED_SHOWN]]
    if is_for_programs:
        return {"refused": len(refused), "refused_first": first}
    why = "; ".join(f"line {error['line']}: {error['message']}" for error in first)
    more = f"; and {len(refused) - len(first):,} more" if len(refused) > len(first) else ""
    return {"refused": f"{len(refused):,}: {why}{more}" if refused else "0"}


async def estimate_of(
    client: ChainClient, account: bytes, wish: Wish, units: Sequence[AskedUnit], cost: PostingCost, cost_unit: str
) -> Estimate | None:
    """What posting these units comes to, by who offers their service now; None without any, or without its service."""
    at = await client.finalized()
    service = await market_reads.service(client, wish.service, at)
    if service is None or not units:
        return None
    terms = service.terms
    kind = wish.named_class
    found = await drawable(client, wish.service, account, racers=wish.racers, rate_max=wish.rate_max, at=at)
    devices = [status for status in found if kind is None or status.device.kind is kind]
    price = rising_price(terms, wish, asks_of(devices, wish.service).values())
    works = [work_of(terms.input_share, unit.tokens_in, unit.tokens_max) for unit in units]
    return Estimate(
        requests=sum(unit.count for unit in units),
        tokens_in=sum(unit.tokens_in for unit in units),
        tokens_out=sum(unit.tokens_max for unit in units),
        work=sum(works),
        cost=cost,
        price=price,
        expected=None if price is None else await _expected(client, terms, wish, units, works, price, cost),
        devices=len(devices),
        blocks=blocks_of(pace_of(terms, kind or DeviceClass.CPU), works, wish.racers, len(devices), price),
        slot_ms=slot_ms(client),
        cost_unit=cost_unit,
    )


def rising_price(terms: ServiceTerms, wish: Wish, asks: Iterable[int]) -> RisingPrice | None:
    """What a unit pays, if the lowest asks of so many owners as race for it are met; None where they never are."""
    met = sorted(asks)[wish.racers - 1 : wish.racers]
    if not met or met[0] > wish.rate_max:
        return None
    age = max(DRAWN_AFTER, money.age_of_price(terms.price_min, wish.rate_max, met[0], terms.ramp))
    at_draw = money.ramped_price(terms.price_min, wish.rate_max, age, terms.ramp)
    return RisingPrice(age, at_draw, wish.rate_max, terms.ramp)


def blocks_of(pace: int, works: Sequence[int], racers: int, devices: int, price: RisingPrice | None) -> int | None:
    """Until these units are paid, shared by so many devices of such a pace; None without one."""
    if price is None or not pace or not devices:
        return None
    longest = max(-(-sum(works) * racers // devices), *works)
    return price.drawn_after + -(-longest // (pace * TOKEN)) + SETTLED_AFTER


async def _expected(
    client: ChainClient, terms: ServiceTerms, wish: Wish, units: Sequence[AskedUnit], works: Sequence[int],
    price: RisingPrice, cost: PostingCost,
) -> int:  # fmt: skip
    """Price at the draw, audits, and a witness where there is one; beside what is gone at once."""
    counts: Counter[tuple[int, int]] = Counter()
    for unit, work in zip(units, works, strict=True):
        floor = price_of(terms.price_min, work)
        counts[money.ramped_price(floor, unit.price_max, price.drawn_after, terms.ramp), unit.count] += 1
    rules = UnitRules(witness_share=await client.read(InferenceMarket.witness_share.item))
    total = cost.prepaid + cost.fees
    for (paid, requests), count in counts.items():
        quote = await market_reads.quote(client, wish.service, paid, 1, requests)
        assert quote is not None, "of a service that is there"
        witness = money.witness_pay(rules, paid) if wish.racers > 1 else 0
        total += count * (quote.cost_max - quote.prepaid + witness)
    return total
