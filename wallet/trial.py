"""Dry runs of calls: this program executes the chain's rules over the state that the node returns.

The state is the newest final one if the node has to prove it, else that of its best block. A missing value is fetched
when the rules first read it, and then they run again. Invariant: all values are of one block, and nothing is sent. A
dry run shows the result at present: other extrinsics may come before the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from runtime.encoding.types import Signed
from runtime.frame.call import Call, PostDispatch
from runtime.frame.errors import DispatchError, Frozen, FundsUnavailable, NotExpendable
from runtime.frame.holds import HoldReason
from runtime.frame.runtime import Bound, Runtime
from runtime.frame.storage import StateCorrupted
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from runtime.pallets.transaction_payment import TransactionPayment
from wallet.amounts import SYMBOL, format_amount
from wallet.client import ChainClient
from wallet.errors import WalletError, in_words
from wallet.refusals.sentences import sentence_of

Found = TypeVar("Found")
READS_MAX = 2_000
"""The most values that one trial fetches, and the most keys of one list."""
LISTED_FIRST = 100
"""Keys in the first page of a list. Each further page has twice as many, because most readers need only the first."""
ACCOUNT_BYTES = 32
MONEY_ERRORS = (FundsUnavailable, Frozen, NotExpendable)
"""Errors that more or free money would correct: only with these the refusal names the available amount."""
FEE_UNAFFORDABLE = "fee_unaffordable"


FEE_UNAFFORDABLE = "fee_unaffordable"
MONEY_CODES = frozenset({FEE_UNAFFORDABLE, *(error.__name__ for error in MONEY_ERRORS)})
"""Codes of refusals for lack of money. Sent all the same, such a call costs its fee, or does not reach a block."""


class TrialError(WalletError):
    """The calls read more of the state than a trial fetches, or the node's answer is no state of this chain."""


@dataclass(frozen=True, slots=True)
class HeldChange:
    """The change, in grains, of an account's holds for one reason, summed over their cases."""

    account: bytes
    reason: HoldReason
    grains: int


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a dry run: the grains that left the signer's free balance, and the first refusal."""

    amount: int = 0
    refusal: str | None = None
    code: str = ""
    """The chain's name of the refusal, such as `TrustStake.BondTooSmall`."""
    held: tuple[HeldChange, ...] = ()
    """The changes in holds, of the signer and of others, by account and reason."""
    returned: int = 0
    """The grains of the fee that are returned because the last call used less than its weight."""


class _MissingValueError(Exception):
    """A value is read that was not fetched yet."""

    def __init__(self, storage_key: bytes) -> None:
        super().__init__(storage_key.hex())
        self.key = storage_key


class _MissingKeysError(_MissingValueError):
    """More keys under a prefix are read than were fetched."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """The first keys under a prefix, or all of them."""

    keys: list[bytes]
    is_whole: bool


_NOT_LISTED = _Listed([], is_whole=False)


@dataclass(slots=True)
class _Fetched:
    """A `StateReader` over the values fetched so far."""

    values: dict[bytes, bytes | None] = field(default_factory=dict)
    prefixes: dict[bytes, _Listed] = field(default_factory=dict)

    def get(self, key: bytes, /) -> bytes | None:
        """Return the value under `key`."""
        if key not in self.values:
            raise _MissingValueError(key)
        return self.values[key]

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """Yield the keys that begin with `prefix` and come after `start`, ascending."""
        listed_keys = self.prefixes.get(prefix, _NOT_LISTED)
        yield from (listed_key for listed_key in listed_keys.keys if listed_key > start)
        if not listed_keys.is_whole:
            raise _MissingKeysError(prefix)


async def attempt(client: ChainClient, calls: Sequence[Call], signer: bytes, fee: int = 0, tip: int = 0) -> Trial:
    """Execute the calls in order, as the next block would after fee and tip; the first failure ends it.

    Raise TrialError if the node's answers do not allow that.
    """
    try:
        return await _attempted(client, calls, signer, fee, tip)
    # A dishonest node can return any bytes: values of the wrong type, or a state that breaks an invariant.
    except (StateCorrupted, AssertionError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise TrialError(
            f"the node's state makes no sense: {in_words(error)}. Ask another node", code="node_answer_unusable"
        ) from error


async def _attempted(client: ChainClient, calls: Sequence[Call], signer: bytes, fee: int, tip: int) -> Trial:
    block_hash = await client.tried_at()
    return await over_state(client, block_hash, lambda bound: _made(bound, calls, signer, fee, tip))


async def over_state(client: ChainClient, block_hash: bytes, run_calls: Callable[[Bound], Found]) -> Found:
    """Return the result of `run_calls`, with this program's rules over the state of a block.

    Raise TrialError if it reads too many values.
    """
    # The state of block 0 does not hold its own hash: the next block stores it before anything is executed.
    fetched_state = _Fetched({client.runtime.item(System.block_hash).key(0): client.genesis_hash})
    parameter_prefixes = tuple(parameter_item.prefix for parameter_item in client.runtime.parameters.items.values())
    while len(fetched_state.values) <= READS_MAX:
        try:
            return run_calls(client.runtime.at(fetched_state))
        except _MissingKeysError as missing:
            fetched_count = len(fetched_state.prefixes.get(missing.key, _NOT_LISTED).keys)
            if fetched_count > READS_MAX:
                break
            page_limit = max(2 * fetched_count, LISTED_FIRST)
            fetched_keys = await client.raw_keys(missing.key, at=block_hash, most=page_limit)
            fetched_state.prefixes[missing.key] = _Listed(fetched_keys, is_whole=len(fetched_keys) <= page_limit)
        except _MissingValueError as missing:
            # a reader of one parameter reads many: fetched one by one, they were half of a trial's requests
            missing_keys = parameter_prefixes if missing.key in parameter_prefixes else (missing.key,)
            fetched_state.values.update(await client.raw(missing_keys, at=block_hash))
    raise TrialError(f"the calls read more than {READS_MAX:,} values of the state", code="trial_too_large")


def _made(bound: Bound, calls: Sequence[Call], signer: bytes, fee: int, tip: int) -> Trial:
    balances = bound[Balances]
    # An extrinsic whose fee cannot be paid reaches no block, so the trial names the fee and not the call.
    spendable = balances.spendable_balance(signer)
    if spendable < fee + tip:
        fee_text, spendable_text = format_amount(fee + tip), format_amount(spendable)
        return Trial(
            refusal=f"the fee is {fee_text} {SYMBOL}, and the account can spend {spendable_text} {SYMBOL}",
            code=FEE_UNAFFORDABLE,
        )
    balances.begin_transaction(signer, fee + tip)
    # After the fee was taken: the trial's amount excludes it.
    balance_before, returned = balances.free_balance(signer), 0
    for call in calls:
        try:
            with bound.overlay.transaction():
                returned = _returned(bound, call, bound.dispatch(call, Signed(signer)), fee)
        except DispatchError as error:
            explanation = sentence_of(bound, call, signer, error)
            error_name, error_reason = _described(bound.runtime, error, explanation)
            refusal = f"{call.name}: {error_name}: {error_reason}"
            if isinstance(error, MONEY_ERRORS):
                remaining_text = format_amount(balances.spendable_balance(signer))
                refusal = f"{refusal.removesuffix('.')} (after the fee the account can spend {remaining_text} {SYMBOL})"
            return Trial(refusal=refusal, code=error_name)
    return Trial(balance_before - balances.free_balance(signer), held=_held_changes(bound), returned=returned)


def _returned(bound: Bound, call: Call, post_dispatch: PostDispatch, fee: int) -> int:
    """Return the grains of a call's fee that the chain pays back after it."""
    # Substrate's `Pays::No` in a call's result refunds the whole fee.
    if not (fee and post_dispatch.pays_fee):
        return fee
    if post_dispatch.actual_weight is None or not post_dispatch.actual_weight.fits(call.weight):
        return 0
    fee_pallet = bound[TransactionPayment]
    return fee_pallet.total_fee(0, call.weight) - fee_pallet.total_fee(0, post_dispatch.actual_weight)


def _held_changes(bound: Bound) -> tuple[HeldChange, ...]:
    """Return the change in holds of every account that the calls touched."""
    # The overlay knows each written entry and its value before, so no other account is read.
    holds, hold_changes = bound[Balances].holds, []
    for storage_key, entries_after in list(bound.overlay.changed_values(holds.prefix)):
        change_by_reason: dict[HoldReason, int] = {}
        for hold_entry in entries_after or ():
            change_by_reason[hold_entry.id] = hold_entry.amount
        for hold_entry in bound.overlay.before(storage_key, holds.decode) or ():
            change_by_reason[hold_entry.id] = change_by_reason.get(hold_entry.id, 0) - hold_entry.amount
        account = storage_key[-ACCOUNT_BYTES:]
        hold_changes += [
            HeldChange(account, hold_reason, change_grains)
            for hold_reason, change_grains in change_by_reason.items()
            if change_grains
        ]
    return tuple(sorted(hold_changes, key=lambda hold_change: (hold_change.account, hold_change.reason.tag)))


def _described(runtime: Runtime, error: DispatchError, explanation: str | None) -> tuple[str, str]:
    """Return an error's name on the chain, and its reason."""
    error_class = type(error)
    error_reason = explanation or next(iter((error_class.__doc__ or "").strip().splitlines()), "")
    pallet_prefix = next((pallet.__name__ + "." for pallet in runtime.pallets if error_class in pallet.errors), "")
    return f"{pallet_prefix}{error_class.__name__}", error_reason
