"""The rows of roll calls as items: right, false, withheld, or beyond this machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chain_computers import BrokenComputer, HereComputer, LyingComputer
from error_codes import raises_code
from gpu_tasks.data.claim_delivery import (
    ROW_DELIVERY_MAX,
    DeliveryError,
    encode_row_delivery,
    read_row_delivery,
)
from gpu_tasks.market.capacity.proofs import ROWS_MAX, ROWS_MIN, SIZE_MIN, OpenProof, WorkShape
from gpu_tasks.market.claims.claim_closing import dispute_id_of
from gpu_tasks.market.claims.claims import ClaimStage, ClaimTerms, ResultClaim
from gpu_tasks.market.claims.draws import ITEM_WEIGHT
from gpu_tasks.market.claims.findings import ItemSample, ItemVote, Verdict
from gpu_tasks.provider.blobs.deliveries import RefusedDeliveryError
from gpu_tasks.provider.chain.port import ChainError
from gpu_tasks.provider.duties import row_items
from gpu_tasks.provider.duties.kept_rows import ComputedChain, KeptRows
from gpu_tasks.provider.duties.row_items import IDLE_BLOCKS, RowComputer, RowItemSource, challenge_of
from gpu_tasks.provider.execution.chain_worker import ChainRows, ChainWork
from gpu_tasks.provider.execution.device_times import Activity
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.journal.schema import JOURNAL_FILE, open_journal
from gpu_tasks.workloads.matmul_chain.arithmetic import NumpyChain
from gpu_tasks.workloads.matmul_chain.challenge import row_fingerprint, row_hash

ME, CLAIM, SEED, OTHER_SEED = b"m" * 32, b"c" * 32, b"s" * 32, b"t" * 32
PROOF = OpenProof(b"d" * 32, ME, 1, b"r" * 32, WorkShape(SIZE_MIN, ROWS_MIN, 1), 5)
CHALLENGE = challenge_of(PROOF)
DRAWN = (7, 4_000, 7)


def end(row: int) -> bytes:
    return NumpyChain().ends(CHALLENGE, [row])


def sample(row: int, seed: bytes = SEED) -> ItemSample:
    return ItemSample(row, ITEM_WEIGHT, row_fingerprint(seed, end(row)))


def claim_of_root(root: bytes, rows: Sequence[int] = DRAWN) -> ResultClaim:
    terms = ClaimTerms(
        handler=16, provider=ME, customer=ME, root=root, items=ROWS_MIN, weight=ROWS_MIN * ITEM_WEIGHT,
        item_weight_max=ITEM_WEIGHT, price=0, collateral=5, rate_ppm=1, check_ppm=0, fee_min=1, fees_held=2,
        sealed_at=1, run_blocks=1, excluded=(),
    )  # fmt: skip
    points = tuple(row * ITEM_WEIGHT + 5 for row in rows)
    return ResultClaim(terms, 30, ClaimStage.DISPUTED, recorded_at=1, points=points, disputes=3)


@dataclass
class Port:
    """A chain with one proof."""

    proof: OpenProof | None = PROOF
    is_final: bool = True

    dispute: Any = None

    async def open_proof(self, claim: bytes, *, final: bool = False) -> OpenProof | None:
        return self.proof if claim == CLAIM and (self.is_final or not final) else None

    async def item_dispute(self, dispute: bytes, *, final: bool = False) -> Any:
        return self.dispute if dispute == dispute_id_of(CLAIM, 2) else None


@dataclass
class Room:
    """A provider that is also its own checker."""

    folder: Path
    computer: HereComputer = field(default_factory=HereComputer)
    port: Port = field(default_factory=Port)

    def __post_init__(self) -> None:
        parts: Any = SimpleNamespace(
            chain=self.port,
            identity=SimpleNamespace(stash=ME),
            workers=SimpleNamespace(hardware=(SimpleNamespace(uuid="u"),)),
        )
        self.kept = KeptRows(self.folder, open_journal(self.folder / JOURNAL_FILE))
        self.source = RowItemSource(parts, self.kept, self.computer.make)

    async def claimed(self, computer: HereComputer | None = None) -> ResultClaim:
        """Keep the rows of a computer, and return the claim with their root."""
        rows = await (computer or HereComputer()).rows(ChainWork(CHALLENGE))
        self.kept.keep(CLAIM, ComputedChain(CHALLENGE, rows))
        return claim_of_root(rows.root)


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    made = Room(tmp_path)
    claims: dict[bytes, ResultClaim] = {}

    async def fetched(_parts: Any, owner: bytes, work: bytes, _dispute: bytes | None, item: int, most: int) -> bytes:
        assert owner == ME
        found = await made.source.delivery(work, claims[work], item)
        assert len(found) <= most
        return found

    async def claimed(computer: HereComputer | None = None) -> ResultClaim:
        claims[CLAIM] = await Room.claimed(made, computer)
        return claims[CLAIM]

    monkeypatch.setattr(row_items, "fetched_delivery", fetched)
    made.claimed = claimed  # type: ignore[method-assign]
    return made


async def test_right_rows_pass_with_the_samples_that_their_provider_shows(room: Room) -> None:
    claim = await room.claimed()
    fetched, own = await room.source.fetched(CLAIM, claim), await room.source.own(CLAIM, claim)
    assert [fetched.index_at(point) for point in claim.points] == list(DRAWN)
    for row in DRAWN:
        assert await fetched.check(row, SEED, Activity.CHECKS) == await own.sample(row, SEED) == sample(row)
    assert room.computer.looked == [7, 7, 4_000, 4_000], "each reader computes a row once"


async def test_rows_that_nobody_computed_are_found_wrong_by_a_second_computation_too(room: Room) -> None:
    claim = await room.claimed(LyingComputer())
    fetched = await room.source.fetched(CLAIM, claim)
    assert await fetched.check(7, SEED, Activity.CHECKS) is None
    assert await fetched.is_confirmed_wrong(7, Activity.CHECKS)
    assert room.computer.looked == [7, 7]


@pytest.mark.parametrize(("computer", "verdict"), [(HereComputer(), Verdict.RIGHT), (LyingComputer(), Verdict.WRONG)])
@pytest.mark.parametrize(
    ("index", "point", "row"), [(3, None, 3), (0, 7 * ITEM_WEIGHT + 1, 7)], ids=["disputed", "drawn"]
)
async def test_voters_find_the_same_of_one_row(
    room: Room, computer: HereComputer, verdict: Verdict, index: int, point: int | None, row: int
) -> None:
    claim = await room.claimed(computer)
    terms: Any = SimpleNamespace(index=index, point=point)
    room.port.dispute = SimpleNamespace(terms=terms)
    fetched = await room.source.fetched(CLAIM, claim, (b"x" * 32, room.port.dispute))
    vote = await fetched.vote(row, (SEED, OTHER_SEED))
    assert vote == ItemVote(verdict, row_hash(end(row)), (sample(row), sample(row, OTHER_SEED)))
    assert set(fetched.digests) == {row}


async def test_deliveries_are_of_drawn_and_disputed_own_rows_on_the_disk(room: Room) -> None:
    claim = await room.claimed()
    room.port.dispute = SimpleNamespace(terms=SimpleNamespace(index=5, point=None))
    assert read_row_delivery(await room.source.delivery(CLAIM, claim, 5), claim.terms.root, ROWS_MIN, 5)
    others = replace(claim, terms=replace(claim.terms, provider=b"o" * 32))
    for asked, item in ((None, 0), (claim, ROWS_MIN), (others, 5), (others, 6)):
        with pytest.raises(RefusedDeliveryError):
            await room.source.delivery(CLAIM, asked, item)
    room.kept.forget(CLAIM)
    for row in (5, *DRAWN):
        assert await room.source.delivery(CLAIM, claim, row), "one tree gave those of all wanted rows"
    refused = [
        (CLAIM, None, 0), (CLAIM, claim, ROWS_MIN), (CLAIM, claim, 6),
        (CLAIM, replace(claim, terms=replace(claim.terms, provider=b"o" * 32)), 5),
    ]  # fmt: skip
    for work, asked, item in refused:
        with pytest.raises(RefusedDeliveryError):
            await room.source.delivery(work, asked, item)
    later = replace(claim, points=(8 * ITEM_WEIGHT,))
    with pytest.raises(RefusedDeliveryError):
        await room.source.delivery(CLAIM, later, 8)
    room.port.proof = None
    with raises_code(ChainError, "claim_not_final"):
        await room.source.delivery(CLAIM, later, 8)


async def test_readers_in_the_same_second_cost_one_tree_even_if_one_of_them_gives_up(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tree over a million rows takes seconds: nine at once would take longer than any reader waits."""
    claim = await room.claimed()
    trees: list[bytes] = []
    load = KeptRows.load

    def slow(kept: KeptRows, claim_id: bytes, seed: bytes) -> ComputedChain | None:
        trees.append(claim_id)
        time.sleep(0.2)
        return load(kept, claim_id, seed)

    monkeypatch.setattr(KeptRows, "load", slow)
    readers = [asyncio.create_task(room.source.delivery(CLAIM, claim, row)) for row in DRAWN * 3]
    while not trees:
        await asyncio.sleep(0.01)
    readers[0].cancel()
    found = await asyncio.gather(*readers, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert all(isinstance(each, bytes) for each in found[1:])
    with pytest.raises(RefusedDeliveryError):
        await room.source.delivery(CLAIM, claim, 6)
    assert trees == [CLAIM]


async def test_only_the_work_of_the_final_chain_is_computed(room: Room) -> None:
    claim = await room.claimed()
    room.port.is_final = False
    for asked in (room.source.fetched, room.source.own):
        with raises_code(ChainError, "claim_not_final"):
            await asked(CLAIM, claim)


async def test_other_rows_than_the_claim_s_are_not_delivered(room: Room) -> None:
    await room.claimed()
    with pytest.raises(RefusedDeliveryError):
        await room.source.delivery(CLAIM, claim_of_root(b"o" * 32), 7)


@pytest.mark.parametrize("changed", ["digest", "path", "longer", "version", "more"])
async def test_a_delivery_has_one_form(room: Room, changed: str) -> None:
    claim = await room.claimed()
    delivery = bytearray(await room.source.delivery(CLAIM, claim, 7))
    if changed in ("digest", "path", "version"):
        delivery[{"version": 0, "digest": 9, "path": 70}[changed]] ^= 1
    elif changed == "longer":
        delivery = bytearray(encode_row_delivery(bytes(32), [bytes(32)] * 13))
    else:
        delivery += b"\0"
    code = "malformed_delivery" if changed in ("version", "more") else "other_root"
    with raises_code(DeliveryError, code):
        read_row_delivery(bytes(delivery), claim.terms.root, ROWS_MIN, 7)


def test_the_largest_delivery_is_within_its_limit() -> None:
    assert len(encode_row_delivery(bytes(32), [bytes(32)] * (ROWS_MAX - 1).bit_length())) <= ROW_DELIVERY_MAX < 1_024


async def test_points_beyond_the_rows_questions_of_other_markets_and_a_broken_machine_raise(room: Room) -> None:
    claim = await room.claimed()
    own = await room.source.own(CLAIM, claim)
    with raises_code(ExecutionError, "no_such_point"):
        own.index_at(ROWS_MIN * ITEM_WEIGHT)
    nothing: Any = None
    asks: list[Coroutine[Any, Any, ItemVote]] = [
        room.source.right_side(nothing, nothing, nothing), room.source.input_vote(nothing, nothing),
    ]  # fmt: skip
    for ask in asks:
        with raises_code(ExecutionError, "unknown_question"):
            await ask
    broken = Room(room.folder, BrokenComputer())
    with pytest.raises(ExecutionError):
        await (await broken.source.own(CLAIM, claim)).sample(7, SEED)


class ShortComputer(HereComputer):
    """Returns no row, and counts its ends."""

    closed = 0

    async def rows(self, work: ChainWork) -> ChainRows:
        return ChainRows(bytes(32), b"", b"1")

    async def close(self) -> None:
        self.closed += 1


async def test_an_answer_of_another_length_is_none_and_an_idle_process_ends() -> None:
    computer = ShortComputer()
    rows = RowComputer(computer)
    with raises_code(ExecutionError, "roll_call_process_failed"):
        await rows.end(CHALLENGE, 1)
    for height in (100, 100 + IDLE_BLOCKS - 1):
        await rows.end_idle(height)
    assert computer.closed == 0
    await rows.end_idle(100 + IDLE_BLOCKS)
    assert computer.closed == 1


class SlowComputer(ShortComputer):
    """Computes until it may end."""

    def __init__(self) -> None:
        super().__init__()
        self.may_end = asyncio.Event()

    async def rows(self, work: ChainWork) -> ChainRows:
        await self.may_end.wait()
        return ChainRows(bytes(32), b"", bytes(work.challenge.shape.size))


async def test_a_process_that_computes_is_not_idle() -> None:
    computer = SlowComputer()
    rows = RowComputer(computer)
    row = asyncio.create_task(rows.end(CHALLENGE, 1))
    await asyncio.sleep(0)
    for height in (100, 100 + IDLE_BLOCKS):
        await rows.end_idle(height)
    assert computer.closed == 0
    computer.may_end.set()
    assert await row == bytes(CHALLENGE.shape.size)
