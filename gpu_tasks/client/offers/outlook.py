"""The spendable money of an account, the eligible bidders for its task, and the parameters of its auction.

Invariant: all reads are of one final block. The chain decides. These reads let a program report the numbers behind a
refusal before it sends a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cli.session import CallFailedError
from gpu_tasks.client.offers.listing import own_accounts
from gpu_tasks.data import market_reads
from gpu_tasks.data.proven_rates import proven_rates
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.checkers_left import is_checked_set
from gpu_tasks.market.training.numbers import task_rules
from gpu_tasks.market.training.orders import INTERVALS_MAX, CheckedBy
from gpu_tasks.market.training.terms import TaskTerms
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.tasks.plan import AuctionNumbers, BiddingDevice, TaskPlan
from gpu_tasks.tasks.quantities import written_span
from runtime.frame.runtime import constant_value
from runtime.pallets.staking.stakers import may_be_elected
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import AccountInfo, System
from runtime.pallets.timestamp import Timestamp
from wallet.amounts import SYMBOL, Grains, format_amount
from wallet.client import ChainClient
from wallet.errors import WalletError


class FundsError(WalletError):
    """The account has too little money."""


async def spendable(client: ChainClient, account: bytes) -> int:
    """Return the grains that the account can lock or pay after the final block."""
    return spendable_of(await client.read(System.account, account))


def spendable_of(info: AccountInfo) -> int:
    """Return the grains that such an account can lock or pay. Reserved grains count first towards a freeze."""
    return max(0, info.data.free - max(0, info.data.frozen - info.data.reserved))


def grains_of(amount: int | None) -> Grains | None:
    """Return an amount for display, or None if it is unknown."""
    return None if amount is None else Grains(amount)


def lock_facts(locks: Sequence[tuple[str, int]], *, is_for_programs: bool) -> dict[str, Any]:
    """Return the parts of locked money: amounts by name, or a line for people."""
    if is_for_programs:
        return {"locked_for": {name: Grains(part) for name, part in locks}}
    lock_texts = [f"{name.replace('_', ' ')} {format_amount(part)}" for name, part in locks if part]
    return {"locked_for": f"{', '.join(lock_texts)} {SYMBOL}"} if lock_texts else {}


def require(available: int, needed: int, subject: str) -> None:
    """Raise FundsError, with the available and the needed amount, if the account cannot pay for `subject`."""
    if available < needed:
        raise FundsError(
            f"the account can spend {format_amount(available)} oGPU, and {subject} takes {format_amount(needed)} oGPU. "
            "Send it more with `ogpu-wallet send`, or ask for less"
        )


def slot_ms(client: ChainClient) -> int:
    """Return the length of this chain's slot, from the runtime's constants. No node is asked."""
    period: int = constant_value(Timestamp, Timestamp.minimum_period, client.runtime)
    # The minimum period is half a slot, as in Substrate's timestamp pallet.
    return 2 * period


def standby_of(task_plan: TaskPlan) -> str:
    """Return in words whether the plan has a standby."""
    if task_plan.is_of_replicas:
        return "none: of copies most decide"
    return "yes" if task_plan.has_standby else "perhaps none"


def sells_tasks(client: ChainClient) -> bool:
    """Return True if the chain has a market of tasks."""
    return TrainingMarket in client.runtime.pallets


async def auction_numbers(
    client: ChainClient, block_hash: bytes, checked_by: CheckedBy = CheckedBy.EXECUTED
) -> AuctionNumbers:
    """Return the numbers for a task submitted now, or the defaults of the market if the chain has none yet."""
    is_sold = sells_tasks(client)

    numbers: dict[str, int] = {
        name: await client.read(parameter.item, at=block_hash) if is_sold else parameter.default
        for name, parameter in TrainingMarket.parameters.items()
    }
    fee_min = ResultClaims.check_fee_min
    validators = await client.read(TrustStake.active_set, at=block_hash)
    return AuctionNumbers(
        rules=task_rules(
            numbers.__getitem__,
            check_fee_min=await client.read(fee_min.item, at=block_hash) if is_sold else fee_min.default,
            checked_by=checked_by,
            is_checked=is_checked_set(len(validators)),
        ),
        commit=numbers["commit_blocks"],
        reveal=numbers["reveal_blocks"],
        start=numbers["start_blocks"],
        deposit=numbers["task_deposit"],
        step_fee=numbers["step_fee"],
        interval_max=numbers["interval_blocks_max"],
    )


def require_interval(terms: TaskTerms, intervals: int, numbers: AuctionNumbers, slot_ms: int) -> None:
    """Raise CallFailedError if an interval of payment, or the time in all, exceeds the limits of the chain."""
    interval_blocks = terms.blocks_max // intervals if intervals else 0
    longest = INTERVALS_MAX * numbers.interval_max
    if interval_blocks and terms.blocks_max > longest:
        limit_text = written_span(longest * slot_ms)
        raise CallFailedError(
            f"spec.limits.time: this chain sells a task at most {limit_text}. Give less", code="time_too_long"
        )
    if interval_blocks > numbers.interval_max:
        limit_text = f"{numbers.interval_max} blocks ({numbers.interval_max * slot_ms // 1_000}s)"
        raise CallFailedError(
            f"spec.limits.interval: it is {interval_blocks} blocks, and this chain pays at most {limit_text} at once. "
            "Give less",
            code="interval_too_long",
        )


async def bidding_devices(client: ChainClient, block_hash: bytes) -> list[BiddingDevice]:
    """Return every device, with the values that decide if it could bid."""
    statuses = await market_reads.devices(client, block_hash)
    owners = sorted({status.device.owner for status in statuses})
    providers = await market_reads.providers(client, block_hash)
    candidates = await _candidates(client, owners, block_hash)
    spendable = {
        owner: spendable_of(account)
        for owner, account in zip(owners, await client.read_many(System.account, owners, at=block_hash), strict=True)
    }
    least = {
        DeviceClass.CPU: await client.read(Devices.cpu_bond_min.item, at=block_hash),
        DeviceClass.CONSUMER: await client.read(Devices.consumer_bond_min.item, at=block_hash),
        DeviceClass.DATACENTER: await client.read(Devices.datacenter_bond_min.item, at=block_hash),
    }
    rates = await proven_rates(client, [status.id for status in statuses], block_hash)
    return [
        BiddingDevice(
            device=status.id,
            owner=status.device.owner,
            kind=status.device.kind,
            bond=status.device.bond,
            bond_min=least[status.device.kind],
            is_provider=status.device.owner in providers,
            is_candidate=status.device.owner in candidates,
            is_paused=status.device.is_paused,
            is_busy=status.device.assignment is not None,
            spendable=spendable[status.device.owner],
            has_proven=rates.has_proven(status.id, status.device.kind),
        )
        for status in statuses
    ]


async def own(client: ChainClient, customer: bytes, block_hash: bytes) -> frozenset[bytes]:
    """Return the accounts that a customer acts for."""
    return frozenset(await own_accounts(client, customer, block_hash))


async def _candidates(client: ChainClient, owners: list[bytes], block_hash: bytes) -> set[bytes]:
    """Return the `owners` that may be elected, and so may bid."""
    offered = await client.read_many(TrustStake.candidates, owners, at=block_hash)
    banned = await client.read_many(TrustStake.tombstones, owners, at=block_hash)
    staked = await client.read_many(TrustStake.bonds, owners, at=block_hash)
    least: int = await client.read(TrustStake.validator_bond_min.item, at=block_hash)
    rows = zip(owners, offered, banned, staked, strict=True)
    return {
        owner
        for owner, candidate, tombstone, stake in rows
        if candidate is not None and may_be_elected(is_tombstoned=tombstone is not None, own_stake=stake, least=least)
    }
