"""The items of roll calls: rows of a device's matrix chain, delivered by their hashes, and computed again.

An item is right if its delivered hash, which is in the claimed root, is that of the computed row.

Invariants:

* The work follows from the chain alone: a seed and a shape.
* The fingerprint needs the last values of the row. A delivery has only their hash.
* Own rows come from the disk, so a daemon delivers after a restart. Samples are computed again.
* Only drawn and disputed rows are delivered, and one tree is computed at a time. Otherwise a few questions would keep
  the daemon busy, and an honest provider would be convicted for withholding.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu_tasks.data.claim_delivery import ROW_DELIVERY_MAX, encode_row_delivery, read_row_delivery
from gpu_tasks.market.capacity.proofs import ROW_DOMAIN, OpenProof
from gpu_tasks.market.claims.claim_closing import dispute_id_of
from gpu_tasks.market.claims.claims import ClaimStage, ResultClaim
from gpu_tasks.market.claims.disputes import Dispute
from gpu_tasks.market.claims.draws import ITEM_WEIGHT, item_at
from gpu_tasks.market.claims.findings import ItemSample, ItemVote, Verdict
from gpu_tasks.provider.blobs.deliveries import RefusedDeliveryError
from gpu_tasks.provider.chain.port import ChainError, RollCallPort
from gpu_tasks.provider.duties.item_sources import Disputed, Fetching, ItemSource, fetched_delivery
from gpu_tasks.provider.duties.kept_rows import DIGEST_BYTES, KeptRows
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sides import Patience
from gpu_tasks.provider.execution.chain_process import ChainComputer, MakeChains
from gpu_tasks.provider.execution.chain_rates import chain_shape
from gpu_tasks.provider.execution.chain_worker import ChainWork
from gpu_tasks.provider.execution.device_times import Activity
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.workloads.matmul_chain.challenge import ChainChallenge, row_fingerprint, row_hash
from runtime.cryptography.merkle import merkle_paths

IDLE_BLOCKS = 30
"""Blocks without a row after which the process that computes rows ends."""
DELIVERIES_KEPT = 64
"""Deliveries in memory, less than 1 kB each. One tree over all rows gives those of all drawn rows."""


class RowComputer:
    """The process that computes single rows, on one piece of hardware. It starts when a row is needed."""

    def __init__(self, computer: ChainComputer) -> None:
        """Nothing runs."""
        self._computer = computer
        self._users = 0
        self._idle_since: int | None = None

    async def end(self, challenge: ChainChallenge, row: int) -> bytes:
        """Return the last values of a row. Raise ExecutionError on failure."""
        self._users += 1
        self._idle_since = None
        try:
            answer = await self._computer.rows(ChainWork(challenge, (row,)))
        finally:
            self._users -= 1
        if len(answer.ends) != challenge.shape.size:
            raise ExecutionError("the process for roll calls returned another row", code="roll_call_process_failed")
        return answer.ends

    async def end_idle(self, height: int) -> None:
        """End the process if no row was needed for some blocks."""
        if self._users:
            return
        if self._idle_since is None:
            self._idle_since = height
        elif height >= self._idle_since + IDLE_BLOCKS:
            await self._computer.close()

    async def close(self) -> None:
        """End the process."""
        await self._computer.close()


@dataclass(frozen=True, slots=True)
class ChainItems:
    """The rows of a device's work."""

    computer: RowComputer
    challenge: ChainChallenge
    _ends: dict[int, bytes] = field(default_factory=dict)

    def index_at(self, point: int) -> int:
        """Return the row at a point. Raise ExecutionError for a point outside the claim."""
        row = item_at(point)
        if not 0 <= row < self.challenge.shape.rows:
            raise ExecutionError("the claim has no row at this point", code="no_such_point")
        return row

    async def sample(self, index: int, seed: bytes) -> ItemSample:
        """See `OwnItems`. The row is computed again."""
        return ItemSample(index, ITEM_WEIGHT, row_fingerprint(seed, await self.computed(index)))

    async def computed(self, index: int) -> bytes:
        """Return the last values of a row. Raise ExecutionError if this machine cannot compute it."""
        if index not in self._ends:
            self._ends[index] = await self.computer.end(self.challenge, index)
        return self._ends[index]

    def forget(self, index: int) -> None:
        """Forget a computed row, so that the next use computes it again."""
        self._ends.pop(index, None)


@dataclass(frozen=True, slots=True)
class FetchedRows:
    """The rows that a check or a dispute is about, as their provider delivered their hashes."""

    items: ChainItems
    digests: Mapping[int, bytes]

    def index_at(self, point: int) -> int:
        """See `FetchedItems`."""
        return self.items.index_at(point)

    async def check(self, index: int, seed: bytes, _activity: Activity) -> ItemSample | None:
        """Compute a row."""
        return await self.items.sample(index, seed) if await self._is_right(index) else None

    async def is_confirmed_wrong(self, index: int, _activity: Activity) -> bool:
        """See `FetchedItems`."""
        self.items.forget(index)
        return not await self._is_right(index)

    async def vote(self, index: int, seeds: tuple[bytes, ...]) -> ItemVote:
        """See `FetchedItems`. The answer is the hash of the right row."""
        verdict = Verdict.RIGHT if await self._is_right(index) else Verdict.WRONG
        samples = tuple([await self.items.sample(index, seed) for seed in seeds])
        return ItemVote(verdict, row_hash(await self.items.computed(index)), samples)

    async def _is_right(self, index: int) -> bool:
        return row_hash(await self.items.computed(index)) == self.digests[index]


class RowItemSource(ItemSource):
    """The items of roll calls."""

    def __init__(self, parts: Parts[RollCallPort], kept: KeptRows, make: MakeChains) -> None:
        """It computes on the first piece of hardware, in a process of `make`. Own rows are in `kept`."""
        self._parts = parts
        self._kept = kept
        self._deliveries: dict[tuple[bytes, int], bytes] = {}
        self._making: dict[tuple[bytes, int], asyncio.Task[bytes]] = {}
        """The deliveries in progress. All readers of a row wait for the same one."""
        self._one_tree = asyncio.Lock()
        self.computer = RowComputer(make(parts.workers.hardware[0]))

    async def fetched(self, claim_id: bytes, claim: ResultClaim, disputed: Disputed | None = None) -> FetchedRows:
        """See `ItemSource`."""
        items = ChainItems(self.computer, challenge_of(await self._open_proof(claim_id, is_final=True)))
        dispute_id = None if disputed is None else disputed[0]
        digests: dict[int, bytes] = {}
        for row in _asked_rows(items, claim, disputed):
            delivery = await fetched_delivery(
                self._parts, claim.terms.provider, claim_id, dispute_id, row, ROW_DELIVERY_MAX
            )
            digests[row] = read_row_delivery(delivery, claim.terms.root, claim.terms.items, row)
        return FetchedRows(items, digests)

    async def own(self, claim_id: bytes, claim: ResultClaim) -> ChainItems:
        """See `ItemSource`. The work of the claim is on the chain."""
        return ChainItems(self.computer, challenge_of(await self._open_proof(claim_id, is_final=True)))

    async def right_side(self, disputed: Disputed, fetching: Fetching, patience: Patience) -> ItemVote:
        """See `ItemSource`. A proof has one side."""
        raise ExecutionError("roll calls have no differing results", code="unknown_question")

    async def input_vote(self, dispute: Dispute, fetching: Fetching) -> ItemVote:
        """See `ItemSource`. The work of a proof has no input."""
        raise ExecutionError("roll calls have no inputs", code="unknown_question")

    async def delivery(self, work_id: bytes, claim: ResultClaim | None, item: int) -> bytes:
        """See `DeliverySource`."""
        if claim is None or claim.terms.provider != self._parts.identity.stash or item >= claim.terms.items:
            raise RefusedDeliveryError("no such row here")
        key = work_id, item
        if key in self._deliveries:
            return self._deliveries[key]
        wanted = await self._asked_of(work_id, claim)
        if item not in wanted:
            raise RefusedDeliveryError("nobody has drawn or disputed this row")
        if key not in self._making:
            self._making[key] = asyncio.create_task(self._made(key, claim, wanted))
            self._making[key].add_done_callback(lambda _: self._making.pop(key))
        # A reader that gives up must not discard the tree for all others.
        return await asyncio.shield(self._making[key])

    async def _asked_of(self, claim_id: bytes, claim: ResultClaim) -> list[int]:
        """Return the rows that checkers and voters need: the drawn ones, and that of an open dispute."""
        rows = {item_at(point) for point in claim.points}
        if claim.stage is ClaimStage.DISPUTED:
            dispute = await self._parts.chain.item_dispute(dispute_id_of(claim_id, claim.disputes - 1))
            if dispute is not None and dispute.terms.point is None:
                rows.add(dispute.terms.index)
        return sorted(rows)

    async def _made(self, key: tuple[bytes, int], claim: ResultClaim, wanted: list[int]) -> bytes:
        """Compute the tree, and keep the deliveries of all wanted rows. Return that of `key`."""
        claim_id, _ = key
        # One tree at a time: nine voters ask in the same second, and a tree takes seconds and hundreds of megabytes.
        async with self._one_tree:
            if key not in self._deliveries:
                challenge = challenge_of(await self._open_proof(claim_id, is_final=False))
                # In a thread, because blocks do not wait.
                found = await asyncio.to_thread(self._deliveries_of, claim_id, claim, challenge, wanted)
                self._deliveries.update(found)
                while len(self._deliveries) > DELIVERIES_KEPT:
                    del self._deliveries[next(iter(self._deliveries))]
            return self._deliveries[key]

    async def _open_proof(self, claim_id: bytes, *, is_final: bool) -> OpenProof:
        proof = await self._parts.chain.open_proof(claim_id, final=is_final)
        if proof is None:
            raise ChainError("the chain does not have the proof of the claim", code="claim_not_final")
        return proof

    def _deliveries_of(
        self, claim_id: bytes, claim: ResultClaim, challenge: ChainChallenge, wanted: list[int]
    ) -> dict[tuple[bytes, int], bytes]:
        """Return the deliveries of some own rows. Raise RefusedDeliveryError without them."""
        kept = self._kept.load(claim_id, challenge.seed)
        if kept is None or kept.rows.root != claim.terms.root:
            raise RefusedDeliveryError("the rows are not here; ask again")
        rows = kept.rows
        digests = [rows.digests[place : place + DIGEST_BYTES] for place in range(0, len(rows.digests), DIGEST_BYTES)]
        paths = merkle_paths(ROW_DOMAIN, digests, wanted)
        return {
            (claim_id, row): encode_row_delivery(digests[row], path) for row, path in zip(wanted, paths, strict=True)
        }


def challenge_of(proof: OpenProof) -> ChainChallenge:
    """Return the work of a proof."""
    return ChainChallenge(proof.seed, chain_shape(proof.shape))


def _asked_rows(items: ChainItems, claim: ResultClaim, disputed: Disputed | None) -> list[int]:
    """Return the rows that a check or a dispute is about, each once."""
    if disputed is None:
        return list(dict.fromkeys(items.index_at(point) for point in claim.points))
    terms = disputed[1].terms
    return [terms.index if terms.point is None else items.index_at(terms.point)]
