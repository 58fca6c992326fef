"""Resolve the ids of units and tasks that a user types: whole, their first digits as tables show them, or `last`.

Invariant: the first digits stand for one id that the chain knows, of the accounts of this machine. If several ids begin
with them, the error lists these ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import click

from cli.ids import first_digits, only_match
from cli.session import WalletSession
from genesis.preset_names import CUSTOMER_NAMES, DEV_NAMES
from gpu_tasks.client.buyer import accounts_of
from gpu_tasks.client.groups.task import task as task_group
from gpu_tasks.client.groups.unit import unit as unit_group
from gpu_tasks.client.offers.outlook import sells_tasks
from gpu_tasks.data import market_reads, training_reads
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import unit_id_of
from gpu_tasks.market.training.tasks import Task, task_id_of
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.cryptography import ss58
from wallet.client import ChainClient
from wallet.errors import WalletError
from wallet.trust import hash_typed

LAST = "last"
"""The word for the newest unit or task."""
DIGITS_LEAST = 4
NUMBERS_LOOKED_AT = 16_384
"""The newest units, and the newest tasks, of an account that are searched. Their ids follow from their numbers."""


class TaskError(WalletError):
    """An unknown task, or a task that does not allow the request."""


class NamedKind(Enum):
    """The kind of thing that an id names."""

    UNIT = "unit"
    TASK = "task"

    @property
    def other(self) -> NamedKind:
        """The other kind."""
        return NamedKind.TASK if self is NamedKind.UNIT else NamedKind.UNIT


COUNTERS: dict[NamedKind, tuple[Any, Callable[[bytes, bytes, int], bytes]]] = {
    NamedKind.UNIT: (InferenceMarket.post_counts, unit_id_of),
    NamedKind.TASK: (TrainingMarket.submission_counts, task_id_of),
}
"""An account's count of units or tasks, and the function from a number to an id."""
GROUPS = {NamedKind.UNIT: unit_group, NamedKind.TASK: task_group}


def wrong_kind(named: bytes, kind: NamedKind) -> TaskError:
    """Return the error for an id of this kind where a command takes the other one, with the right command."""
    context = click.get_current_context(silent=True)
    command = "" if context is None else str(context.command.name)
    here = f"ogpu {kind.value} {command if command in GROUPS[kind].commands else 'show'} 0x{named.hex()}"
    return TaskError(f"0x{named.hex()} is a {kind.value}, not a {kind.other.value}. Use `{here}`", code="wrong_kind")


async def require_no_task(client: ChainClient, unit_id: bytes, block_hash: bytes) -> None:
    """Raise TaskError for the id of a task where a command takes a unit."""
    if await task_if_known(client, unit_id, block_hash) is not None:
        raise wrong_kind(unit_id, NamedKind.TASK)


async def named_task(session: WalletSession, client: ChainClient, id_text: str, key_text: str | None = None) -> bytes:
    """Return the task id that a user typed. Raise TaskError if it is none."""
    return await named_id(session, client, id_text, key_text, (NamedKind.TASK,))


async def named_unit(session: WalletSession, client: ChainClient, id_text: str, key_text: str | None = None) -> bytes:
    """Return the unit id that a user typed. Raise TaskError if it is none."""
    return await named_id(session, client, id_text, key_text, (NamedKind.UNIT,))


async def named_id(
    session: WalletSession, client: ChainClient, id_text: str, key_text: str | None = None,
    kinds: Sequence[NamedKind] = (NamedKind.UNIT, NamedKind.TASK),
) -> bytes:  # fmt: skip
    """Return the id that a user typed: whole, its first digits, or `last`.

    First digits are looked up among the units and tasks of the key, of the keys in this machine's keyring and, on a
    development chain, of the known accounts. `last` is the newest of the key, or of all these accounts without a key.
    Raise TaskError for no match, and AmbiguousIdError for several.
    """
    whole_id = hash_typed(id_text)
    if whole_id is not None:
        return whole_id
    if id_text == LAST:
        return await _newest_id(
            client,
            await accounts_of(client, session.account(key_text))
            if key_text
            else await _matching_accounts(session, client),
            kinds,
        )
    what, digits = " or ".join(kind.value for kind in kinds), _typed_digits(id_text)
    if digits is None:
        raise TaskError(
            f"{id_text!r} is not the id of a {what}. Type 0x and at least {DIGITS_LEAST} hexadecimal digits, or "
            f"{LAST!r}. {_list_commands(kinds)} shows ids",
            code="invalid_id",
        )
    block_hash = await client.finalized()
    accounts = await _matching_accounts(session, client, key_text)
    matches = [
        known_id for kind in kinds for known_id in await _ids_beginning_with(client, kind, accounts, digits, block_hash)
    ]
    if (match := only_match(id_text, digits, matches)) is not None:
        return match
    other_matches = (
        [] if len(kinds) > 1 else await _ids_beginning_with(client, kinds[0].other, accounts, digits, block_hash)
    )
    if len(other_matches) == 1:
        raise wrong_kind(other_matches[0], kinds[0].other)
    raise TaskError(
        f"no {what} of your keys begins with {id_text!r}. {_list_commands(kinds)} shows them. For another account's "
        f"{what}, type all 64 digits",
        code=f"{kinds[0].value}_unknown",
    )


def _list_commands(kinds: Sequence[NamedKind]) -> str:
    """Name the commands that list things of these kinds."""
    return " or ".join(f"`ogpu {kind.value} list`" for kind in kinds)


def is_id(id_text: str) -> bool:
    """Tell whether a text names a unit or a task, rather than a file or a run."""
    return id_text == LAST or hash_typed(id_text) is not None or _typed_digits(id_text) is not None


def _typed_digits(id_text: str) -> str | None:
    """Return the first digits of an id. The 0x tells an id from the name of a file or a run."""
    return first_digits(id_text, DIGITS_LEAST) if id_text.startswith("0x") else None


async def _newest_id(client: ChainClient, accounts: Sequence[bytes], kinds: Sequence[NamedKind]) -> bytes:
    """Return the newest unit or task of these accounts. Raise TaskError if there is none."""
    block_hash = await client.finalized()
    newest = [known_id for kind in kinds for known_id in await _newest_of(client, kind, accounts, block_hash)]
    if not newest:
        subject = " or ".join(kind.value for kind in kinds)
        raise TaskError(f"there is no {subject} of your keys on the chain", code=f"{kinds[0].value}_unknown")
    return max(newest)[1]


async def _newest_of(
    client: ChainClient, kind: NamedKind, accounts: Sequence[bytes], block_hash: bytes
) -> list[tuple[int, bytes]]:
    """Return the newest unit or task of each account, with the block in which it was posted or submitted."""
    if kind is NamedKind.TASK and not sells_tasks(client):
        return []
    counter, id_of = COUNTERS[kind]
    counts = await client.read_many(counter, accounts, at=block_hash)
    known_ids = [
        id_of(client.genesis_hash, account, count - 1) for account, count in zip(accounts, counts, strict=True) if count
    ]
    things = await _blocks_of_posts(client, kind, known_ids, block_hash)
    return [(began_at, known_id) for known_id, began_at in zip(known_ids, things, strict=True) if began_at is not None]


async def _blocks_of_posts(
    client: ChainClient, kind: NamedKind, known_ids: Sequence[bytes], block_hash: bytes
) -> list[int | None]:
    """Return the block in which each unit was posted or each task submitted; None for one that the chain forgot."""
    if not known_ids:
        return []
    if kind is NamedKind.UNIT:
        return [
            None if unit is None else unit.posted_at for unit in await market_reads.units(client, known_ids, block_hash)
        ]
    tasks = await client.read_many(TrainingMarket.tasks, known_ids, at=block_hash)
    return [None if task is None else task.submitted_at for task in tasks]


async def _matching_accounts(session: WalletSession, client: ChainClient, key_text: str | None = None) -> list[bytes]:
    """Return the accounts whose units and tasks a beginning may match: those of keys, and of their budgets."""
    known = [f"//{name}" for name in (*DEV_NAMES, *CUSTOMER_NAMES)] if market_reads.is_development(client) else []
    texts = [*([] if key_text is None else [key_text]), *session.keyring.names(), *known]
    accounts = dict.fromkeys(session.account(text) for text in texts)
    return list(dict.fromkeys([each for account in accounts for each in await accounts_of(client, account)]))


async def _ids_beginning_with(
    client: ChainClient, kind: NamedKind, accounts: Sequence[bytes], digits: str, block_hash: bytes
) -> list[bytes]:
    """Return the ids on the chain with these first digits."""
    if kind is NamedKind.TASK and not sells_tasks(client):
        return []
    counter, id_of = COUNTERS[kind]
    counts = await client.read_many(counter, accounts, at=block_hash)
    known_ids = [
        known_id
        for account, count in zip(accounts, counts, strict=True)
        for number in _searched_numbers(count)
        if (known_id := id_of(client.genesis_hash, account, number)).hex().startswith(digits)
    ]
    things = await _blocks_of_posts(client, kind, known_ids, block_hash)
    return [known_id for known_id, began_at in zip(known_ids, things, strict=True) if began_at is not None]


def _searched_numbers(count: int) -> range:
    return range(max(0, count - NUMBERS_LOOKED_AT), count)


async def task_if_known(client: ChainClient, task_id: bytes, block_hash: bytes) -> Task | None:
    """Return the task at a block; None if the chain does not know it, or sells no tasks."""
    return await training_reads.task(client, task_id, block_hash) if sells_tasks(client) else None


async def known_task(client: ChainClient, task_id: bytes, block_hash: bytes) -> Task:
    """Return the task at a block. Raise TaskError if the chain does not know it."""
    require_market(client)
    task = await training_reads.task(client, task_id, block_hash)
    if task is None:
        if (await market_reads.units(client, [task_id], block_hash))[0] is not None:
            raise wrong_kind(task_id, NamedKind.UNIT)
        raise TaskError(
            "the chain knows no such task. It is too new, too old, or of another chain, or the id is a task "
            "hash. See `ogpu task list`",
            code="task_unknown",
        )
    return task


def require_customer(task: Task, account: bytes, subject: str = "decides about it") -> None:
    """Raise TaskError unless the account submitted the task. `subject` names the customer's right."""
    if task.customer != account:
        raise TaskError(
            f"the task belongs to {ss58.encode(task.customer)}. Only the key that submitted it {subject}",
            code="not_owner",
        )


def require_market(client: ChainClient) -> None:
    """Raise TaskError on a chain without a market of tasks."""
    if not sells_tasks(client):
        raise TaskError(
            "this chain sells no tasks, because its runtime has no TrainingMarket. Use another chain",
            code="no_task_market",
        )
