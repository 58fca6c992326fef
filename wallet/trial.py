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

    def __init__(self, key: bytes) -> None:
        super().__init__(key.hex())
        self.key = key


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
        listed = self.prefixes.get(prefix, _NOT_LISTED)
        yield from (key for key in listed.keys if key > start)
        if not listed.is_whole:
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
    at = await client.tried_at()
    return await over_state(client, at, lambda bound: _made(bound, calls, signer, fee, tip))


async def over_state(client: ChainClient, at: bytes, work: Callable[[Bound], Found]) -> Found:
    """Return the result of `work`, with this program's rules over the state of a block.

    Raise TrialError if it reads too many values.
    """
    # The state of block 0 does not hold its own hash: the next block stores it before anything is executed.
    state = _Fetched({client.runtime.item(System.block_hash).key(0): client.genesis_hash})
    numbers = tuple(item.prefix for item in client.runtime.parameters.items.values())
    while len(state.values) <= READS_MAX:
        try:
            return work(client.runtime.at(state))
        except _MissingKeysError as missing:
            known = len(state.prefixes.get(missing.key, _NOT_LISTED).keys)
            if known > READS_MAX:
                break
            most = max(2 * known, LISTED_FIRST)
            found = await client.raw_keys(missing.key, at=at, most=most)
            state.prefixes[missing.key] = _Listed(found, is_whole=len(found) <= most)
        except _MissingValueError as missing:
            # a reader of one parameter reads many: fetched one by one, they were half of a trial's requests
            keys = numbers if missing.key in numbers else (missing.key,)
            state.values.update(await client.raw(keys, at=at))
    raise TrialError(f"the calls read more than {READS_MAX:,} values of the state", code="trial_too_large")


def _made(bound: Bound, calls: Sequence[Call], signer: bytes, fee: int, tip: int) -> Trial:
    balances = bound[Balances]
    spendable = balances.spendable_balance(signer)
    if spendable < fee + tip:
        fee_text, has = format_amount(fee + tip), format_amount(spendable)
        return Trial(
            refusal=f"the fee is {fee_text} {SYMBOL}, and the account can spend {has} {SYMBOL}", code="fee_unaffordable"
        )
    balances.begin_transaction(signer, fee + tip)
    # After the fee was taken: the trial's amount excludes it.
    before, returned = balances.free_balance(signer), 0
    for call in calls:
        try:
            with bound.overlay.transaction():
                returned = _returned(bound, call, bound.dispatch(call, Signed(signer)), fee)
        except DispatchError as error:
            said = sentence_of(bound, call, signer, error)
            code, reason = _described(bound.runtime, error, said)
            refusal = f"{call.name}: {code}: {reason}"
            if isinstance(error, MONEY_ERRORS):
                left = format_amount(balances.spendable_balance(signer))
                refusal += f" (after the fee the account can spend {left} {SYMBOL})"
            return Trial(refusal=refusal, code=code)
    return Trial(before - balances.free_balance(signer), held=_held_changes(bound), returned=returned)


def _returned(bound: Bound, call: Call, done: PostDispatch, fee: int) -> int:
    """Return the grains of a call's fee that the chain pays back after it."""
    if not (fee and done.pays_fee):
        return fee
    if done.actual_weight is None or not done.actual_weight.fits(call.weight):
        return 0
    payment = bound[TransactionPayment]
    return payment.total_fee(0, call.weight) - payment.total_fee(0, done.actual_weight)


def _held_changes(bound: Bound) -> tuple[HeldChange, ...]:
    """Return the change in holds of every account that the calls touched."""
    # The overlay knows each written entry and its value before, so no other account is read.
    holds, found = bound[Balances].holds, []
    for key, now in list(bound.overlay.changed_values(holds.prefix)):
        sums: dict[HoldReason, int] = {}
        for entry in now or ():
            sums[entry.id] = entry.amount
        for entry in bound.overlay.before(key, holds.decode) or ():
            sums[entry.id] = sums.get(entry.id, 0) - entry.amount
        account = key[-ACCOUNT_BYTES:]
        found += [HeldChange(account, reason, grains) for reason, grains in sums.items() if grains]
    return tuple(sorted(found, key=lambda change: (change.account, change.reason.tag)))


def _described(runtime: Runtime, error: DispatchError, said: str | None) -> tuple[str, str]:
    """Return an error's name on the chain, and its reason."""
    kind = type(error)
    reason = said or next(iter((kind.__doc__ or "").strip().splitlines()), "")
    owner = next((pallet.__name__ + "." for pallet in runtime.pallets if kind in pallet.errors), "")
    return f"{owner}{kind.__name__}", reason
