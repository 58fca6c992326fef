"""Runs in the stores: their readers, the order without room for all, and the kept copies."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from gpu_tasks.data.blob_client import COPIES, BlobError
from gpu_tasks.data.run_states import encode_run_state, root_of, state_index
from gpu_tasks.data.sealing import SealError, SealKey, address_of
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.inference.gpu_tasks_api import InputReader
from gpu_tasks.market.training.tasks import HeldCheckpoint, Milestone, Slot, Standby, Task, TaskResult
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.tasks import checkpoint_blobs
from gpu_tasks.provider.tasks.checkpoint_blobs import fetch_run, is_sound, seal_run, spread
from gpu_tasks.traces.trace import state_hash
from priced_tasks import a_task
from provider_chain import seal_key
from simulation.chains.market_chain import Keys

OWN, CUSTOMER, STANDBY, CHECKER, OTHER, NEWER = (Keys(name) for name in ("o", "c", "s", "j", "x", "n"))
SEALED_AT = 5
STATES = [f"state {number}".encode() for number in range(9)]
DIGESTS = tuple(state_hash(state) for state in STATES)


class Store(dict[bytes, bytes]):
    """A store in memory that holds only its provider's blobs."""

    def put(self, blob: bytes, *, is_own: bool = False) -> bytes:
        assert is_own
        self[address_of(blob)] = blob
        return address_of(blob)


def public(keys: Keys) -> bytes:
    """Return a provider's public seal key."""
    return seal_key(keys).public


def parts(store: Store, *, elsewhere: Store | None = None, of: Keys = OWN) -> Parts[Any]:
    """Return a provider's parts on a chain with one checker, one more provider, and one that joined after the input."""
    since = {OWN: 0, STANDBY: 0, CHECKER: 0, OTHER: SEALED_AT, NEWER: SEALED_AT + 1}
    known = {keys.stash: Provider(public(keys), b"http://127.0.0.1:1", height) for keys, height in since.items()}

    async def checking_readers() -> list[InputReader]:
        return [InputReader(CHECKER.stash, public(CHECKER), 0)]

    async def get(address: bytes, _endpoints: list[str]) -> bytes:
        if elsewhere is None or address not in elsewhere:
            raise BlobError("nobody has it")
        return elsewhere[address]

    found = SimpleNamespace(
        chain=SimpleNamespace(providers=AsyncMock(return_value=known), checking_readers=checking_readers),
        identity=SimpleNamespace(stash=of.stash, seal_key=seal_key(of)),
        store=store,
        blobs=SimpleNamespace(get=get),
    )
    return cast(Parts[Any], found)


def task() -> Task:
    """Return a task with a standby."""
    standby = Standby(STANDBY.stash, b"d" * 32, 1, 1, 1)
    return a_task(sealed_at=SEALED_AT, standby=standby)


def sealed(store: Store) -> bytes:
    """Return the blob of the first milestone, by its maker."""
    index = state_index(task().order, 1)
    made = seal_run(parts(store), task(), public(CUSTOMER), DIGESTS[: index + 1], STATES[index])
    return store[asyncio.run(made)]


def readers(blob: bytes) -> set[Keys]:
    """Return the possible readers of a blob."""
    return {keys for keys in (OWN, CUSTOMER, STANDBY, CHECKER, OTHER, NEWER) if _opens(seal_key(keys), blob)}


def _opens(key: SealKey, blob: bytes) -> bool:
    try:
        key.open(blob)
    except SealError:
        return False
    return True


def test_a_run_is_sealed_to_all_who_could_read_the_input_and_to_nobody_else() -> None:
    assert readers(sealed(Store())) == {OWN, CUSTOMER, STANDBY, CHECKER, OTHER}


@pytest.mark.parametrize("room", [1, 2, 3, 4])
def test_the_customer_comes_first_then_who_made_it_who_stands_by_and_checkers(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_blobs, "READERS_MAX", room)
    assert readers(sealed(Store())) == {*[CUSTOMER, OWN, STANDBY, CHECKER][:room]}


@pytest.mark.parametrize("is_kept", [True, False])
def test_who_is_to_sign_that_it_holds_a_checkpoint_keeps_it(is_kept: bool) -> None:
    made, own = Store(), Store()
    blob = sealed(made)
    milestone = Milestone(1, root_of(DIGESTS[: state_index(task().order, 1) + 1]), 7, address_of(blob))
    there: Any = parts(own, elsewhere=made, of=STANDBY)
    found = asyncio.run(fetch_run(there, task(), milestone, [OWN.stash], is_to_keep=is_kept))
    assert encode_run_state(found.digests, found.state) == seal_key(STANDBY).open(blob)
    assert (address_of(blob) in own) is is_kept


def test_a_run_is_brought_to_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy in the own store is lost with this machine."""
    store, asked = Store(), list[set[bytes]]()
    blob = sealed(store)
    there = parts(store)

    async def put(what: bytes, _stores: list[str], *, copies: int) -> None:
        assert (what, copies) == (blob, COPIES), "as many as of an input"

    def noted(known: dict[bytes, Provider]) -> list[tuple[bytes, str]]:
        asked.append(set(known))
        return []

    there.blobs.put = put  # type: ignore[method-assign, assignment]
    monkeypatch.setattr(checkpoint_blobs, "endpoints_of", noted)
    monkeypatch.setattr(checkpoint_blobs, "stores_for", lambda *_: [])
    asyncio.run(spread(there, address_of(blob)))
    assert asked == [{keys.stash for keys in (STANDBY, CHECKER, OTHER, NEWER)}]


@pytest.mark.parametrize("maker", [OWN, STANDBY, CHECKER, OTHER])
def test_a_run_is_asked_of_its_maker_first(maker: Keys) -> None:
    """The other stores of its address may be offline or slow."""
    made, asked = Store(), list[list[str]]()
    blob = sealed(made)
    there = parts(Store(), of=STANDBY)
    known = {keys.stash: Provider(public(keys), f"http://127.0.0.1:{port}".encode(), 0)
             for port, keys in enumerate((OWN, STANDBY, CHECKER, OTHER), 1)}  # fmt: skip

    async def get(_address: bytes, endpoints: list[str]) -> bytes:
        asked.append(endpoints)
        return blob

    there.chain.providers = AsyncMock(return_value=known)
    there.blobs.get = get  # type: ignore[method-assign, assignment]
    milestone = Milestone(1, root_of(DIGESTS[: state_index(task().order, 1) + 1]), 7, address_of(blob))
    asyncio.run(fetch_run(there, task(), milestone, [b"gone" * 8, maker.stash]))
    slot = replace(Slot(maker.stash, b"d" * 32, 5, 50, 100), result=TaskResult(milestone.root, milestone.blob, 7))
    with pytest.raises(SealError):
        asyncio.run(is_sound(there, task(), slot, bytes(32), public(CUSTOMER)))
    for order in asked:
        assert order[0] == known[maker.stash].endpoint.decode()
        assert sorted(order) == sorted(each.endpoint.decode() for each in known.values()), "each once"
    assert len(asked) == 2


@pytest.mark.parametrize("root", [root_of(DIGESTS[:3]), root_of(DIGESTS[1:4])])
def test_nobody_signs_for_a_checkpoint_that_does_not_go_on_from_what_counts(root: bytes) -> None:
    """Otherwise a provider that takes over could begin anywhere, and get that counted."""
    made = Store()
    index = state_index(task().order, 2)
    blob = made[asyncio.run(seal_run(parts(made), task(), public(CUSTOMER), DIGESTS[: index + 1], STATES[index]))]
    milestone = Milestone(2, root_of(DIGESTS[: index + 1]), 7, address_of(blob))
    counted = replace(task(), checkpoint=HeldCheckpoint(Milestone(1, root, 7, bytes(32)), OWN.stash))
    there = parts(Store(), elsewhere=made, of=STANDBY)
    fetching = fetch_run(there, counted, milestone, [OWN.stash], is_to_keep=True)
    if root == root_of(DIGESTS[:3]):
        assert asyncio.run(fetching).state == STATES[index]
        return
    with pytest.raises(BlobError, match=r"milestone 2 .*milestone 1$"):
        asyncio.run(fetching)
