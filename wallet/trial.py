"""What the chain would say to calls, without sending them: this program's rules over the state that the node shows.

It is the newest final state where the node has to prove it, else that of its best block. What the rules read of it is
fetched when it is first missed, and then they run again. Always: every value is of one block, and nothing is sent. A
trial tells what would happen now, and no more: by the time that the calls are in a block others may have come first.
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
"""Values that one trial fetches at most, and keys of one list."""
LISTED_FIRST = 100
"""So many keys of a list are fetched at first; more, twice as many each time, only for who reads on."""
ACCOUNT_BYTES = 32
MONEY_ERRORS = (FundsUnavailable, Frozen, NotExpendable)
"""What more money, or free money, would mend: only then is it told how much there is."""


class TrialError(WalletError):
    """The calls read more of the state than a trial fetches, or something that is no state of this chain."""


@dataclass(frozen=True, slots=True)
class HeldChange:
    """So many grains more, or fewer, that an account holds for a reason, for all its cases together."""

    account: bytes
    reason: HoldReason
    grains: int


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of calls: how many grains left the signer's free balance, and which of them the chain would refuse."""

    amount: int = 0
    refusal: str | None = None
    held: tuple[HeldChange, ...] = ()
    """What they locked and set free, of the signer and of others, by account and reason."""
    returned: int = 0
    """Grains of the fee that come back, because the last call does less than its weight allows."""


class _MissingValueError(Exception):
    """A value was read that is not here yet."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key.hex())
        self.key = key


class _MissingKeysError(_MissingValueError):
    """More keys under a prefix were asked for than are here."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """The first keys under a prefix, or all of them."""

    keys: list[bytes]
    is_whole: bool


_NOT_LISTED = _Listed([], is_whole=False)


@dataclass(slots=True)
class _Fetched:
    """Implements `StateReader` over what was fetched so far."""

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
    """Make the calls in order, as the next block would, after fee and tip were taken; the first that fails ends it.

    TrialError if that cannot be told from what the node answers.
    """
    try:
        return await _attempted(client, calls, signer, fee, tip)
    # A node that lies may answer anything: a state in which what always holds does not, or values that are none.
    except (StateCorrupted, AssertionError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise TrialError(
            f"the state that the node shows makes no sense ({in_words(error)}): ask another node"
        ) from error


async def _attempted(client: ChainClient, calls: Sequence[Call], signer: bytes, fee: int, tip: int) -> Trial:
    at = await client.tried_at()
    return await over_state(client, at, lambda bound: _made(bound, calls, signer, fee, tip))


async def over_state(client: ChainClient, at: bytes, work: Callable[[Bound], Found]) -> Found:
    """What `work` finds with this program's rules over the state of a block; TrialError if it reads too much of it."""
    # The state of block 0 does not name its own hash: the next block writes it down before anything is executed.
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
            # who reads one parameter reads many: fetched one by one they were half of a trial's questions
            keys = numbers if missing.key in numbers else (missing.key,)
            state.values.update(await client.raw(keys, at=at))
    raise TrialError(f"the calls read more than {READS_MAX:,} values")


def _made(bound: Bound, calls: Sequence[Call], signer: bytes, fee: int, tip: int) -> Trial:
    balances = bound[Balances]
    spendable = balances.spendable_balance(signer)
    if spendable < fee + tip:
        fee_text, has = format_amount(fee + tip), format_amount(spendable)
        return Trial(refusal=f"the fee is {fee_text} {SYMBOL}, and the account can spend {has} {SYMBOL}")
    balances.begin_transaction(signer, fee + tip)
    before, returned = balances.free_balance(signer), 0
    for call in calls:
        try:
            with bound.overlay.transaction():
                returned = _returned(bound, call, bound.dispatch(call, Signed(signer)), fee)
        except DispatchError as error:
            said = sentence_of(bound, call, signer, error)
            refusal = f"{call.name}: {_described(bound.runtime, error, said)}"
            if isinstance(error, MONEY_ERRORS):
                left = format_amount(balances.spendable_balance(signer))
                refusal += f" (beside the fee the account can spend {left} {SYMBOL})"
            return Trial(refusal=refusal)
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
    """What is held now and was not in the state, for every account whose holds were written."""
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


def _described(runtime: Runtime, error: DispatchError, said: str | None) -> str:
    kind = type(error)
    reason = said or next(iter((kind.__doc__ or "").strip().splitlines()), "")
    owner = next((pallet.__name__ + "." for pallet in runtime.pallets if kind in pallet.errors), "")
    return f"{owner}{kind.__name__}: {reason}"
