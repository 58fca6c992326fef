"""The next set, computed again from plain values of a state, by the written rules and not by the pallet. Pure.

The rules are those of docs/staking.md: candidacy, the cut of an eighth, jail.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from devnet.stage.measuring.latency import digest_of, percentile, slot_of
from devnet.stage.measuring.ledger import block_hash
from runtime.blocks.digest import FinalRef, consensus_logs
from runtime.encoding.codec import codec
from runtime.pallets.staking.presence import CertificateHead
from runtime.pallets.staking.stakers import Seat
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient

SEATS_LEAST = 4
JAIL_EPOCHS = 2


@dataclass(frozen=True, slots=True)
class Footing:
    """A candidate or validator in the state."""

    stake: int
    is_candidate: bool
    """True if it is a candidate with a sufficient bond."""
    heard: int
    """The epoch after the newest one in which it was on line."""
    seated_since: int
    is_jailed: bool
    is_tombstoned: bool
    leaving_since: int = 0
    """The first epoch of a seat that it only kept for lack of a successor, or 0."""
    waiting_since: int = 0
    """The first epoch for which it was elected without room, at every election since, or 0."""


def following(
    old: dict[bytes, int], standings: dict[bytes, Footing], seats: int, ended: int
) -> tuple[dict[bytes, int], set[bytes]]:
    """Return the set after `old`, by stash and weight, and the newly jailed, after the end of epoch `ended`."""
    jailed = absent(old, standings, ended)
    able = [
        stash
        for stash, standing in standings.items()
        if standing.is_candidate
        and standing.heard > ended
        and not (standing.is_tombstoned or standing.is_jailed or stash in jailed)
    ]
    ranked = sorted(able, key=lambda stash: (-standings[stash].stake, stash))
    left = {stash: weight for stash, weight in old.items() if not standings[stash].is_tombstoned}
    waited = {stash: standings[stash].leaving_since for stash in left}
    waited |= {stash: standings[stash].waiting_since for stash in ranked if stash not in left}
    stakes = {stash: standings[stash].stake for stash in ranked}
    result = _cut(left, ranked, stakes, seats, waited) if left else dict(old)
    return result, jailed


def absent(old: dict[bytes, int], standings: dict[bytes, Footing], ended: int) -> set[bytes]:
    """Return the validators to jail: silent for two whole epochs, longest first, while less than a third is jailed."""
    inside = {stash for stash in old if standings[stash].is_jailed}
    found: set[bytes] = set()
    signs = {stash: max(standings[stash].heard, standings[stash].seated_since) for stash in old}
    for stash in sorted(old, key=lambda each: (signs[each], each)):
        silent = ended + 1 - signs[stash]
        locked = sum(old[each] for each in inside | found | {stash})
        if silent >= JAIL_EPOCHS and stash not in inside and 3 * locked < sum(old.values()):
            found.add(stash)
    return found


def _cut(
    left: dict[bytes, int], ranked: Sequence[bytes], stakes: dict[bytes, int], seats: int, waited: dict[bytes, int]
) -> dict[bytes, int]:
    wanted, eighth = ranked[:seats], sum(left.values()) // 8
    absentees = sorted((stash for stash in left if stash not in ranked), key=lambda stash: (-left[stash], stash))
    gone = sorted(absentees, key=lambda stash: waited[stash] or sys.maxsize)
    out = [stash for stash in ranked[seats:] if stash in left][::-1]
    leavers = gone + out
    for count in range(len(leavers), -1, -1):
        going = leavers[:count]
        # A single validator may leave even with more than an eighth of the weight.
        if count > 1 and sum(left[stash] for stash in going) > eighth:
            continue
        result = {}
        for stash, weight in left.items():
            if stash in going:
                continue
            result[stash] = min(stakes[stash], weight * 9 // 8) if stash in wanted else weight
        coming = sorted(
            (stash for stash in wanted if stash not in left), key=lambda stash: waited[stash] or sys.maxsize
        )
        result |= _comers(coming, stakes, result, eighth, seats)
        if count == 0 or len(result) >= min(SEATS_LEAST, len(left)):
            return result
    raise AssertionError("nobody may always go")


def _comers(
    comers: Sequence[bytes], stakes: dict[bytes, int], staying: dict[bytes, int], eighth: int, seats: int
) -> dict[bytes, int]:
    third = sum(staying.values()) // 3
    entering: list[bytes] = []
    for stash in comers[: max(0, seats - len(staying))]:
        weight = sum(stakes[each] for each in [*entering, stash])
        # A single newcomer may enter with any stake, because its weight is cut to a third below.
        if entering and weight > min(eighth, third):
            break
        entering.append(stash)
    return {stash: min(stakes[stash], third) for stash in entering if min(stakes[stash], third) > 0}


@dataclass(frozen=True, slots=True)
class Tenure:
    """The number of a validator's entries into the active set, genesis included, and of its exits."""

    entered: int
    left: int


def terms_of(member: bytes, sets: Mapping[int, Collection[bytes]]) -> Tenure:
    """Return the entries and exits of a validator over the sets of epochs 0 and later."""
    entered = left = 0
    sat = False
    for epoch in sorted(sets):
        sits = member in sets[epoch]
        entered += sits and not sat
        left += sat and not sits
        sat = sits
    return Tenure(entered, left)


EDGE_BLOCKS = 2
"""An epoch's first blocks, made by the new set."""


@dataclass(slots=True)
class Watched:
    """Observations of the chain."""

    epoch_blocks: int
    slot_ms: int
    seats: int
    height: int = 0
    sets: dict[int, dict[bytes, int]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    recounts: int = 0
    jailed: set[bytes] = field(default_factory=set)
    at_edges: list[int] = field(default_factory=list)
    elsewhere: list[int] = field(default_factory=list)
    longest_gap_ms: int = 0
    _moved: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def epoch(self) -> int:
        """The epoch of the newest final block."""
        return max(0, self.height - 1) // self.epoch_blocks

    def sitting(self, epoch: int | None = None) -> dict[bytes, int]:
        """Return the weights by stash in an epoch, by default the current one."""
        return self.sets[self.epoch if epoch is None else epoch]

    async def follow(self, client: ChainClient) -> None:
        """Take every final block in order, until cancelled."""
        at = await block_hash(client, 0)
        # The genesis set also serves epoch 1.
        self.sets[0] = self.sets[1] = weights(await client.read(TrustStake.active_set, at=at))
        last_ms = _now_ms()
        async for header in await client.finalized_heads():
            now_ms, slot = _now_ms(), slot_of(header)
            self.longest_gap_ms = max(self.longest_gap_ms, now_ms - last_ms)
            last_ms = now_ms
            number = int(header["number"], 16)
            if slot is not None:
                place = (number - 1) % self.epoch_blocks
                (self.at_edges if place < EDGE_BLOCKS else self.elsewhere).append(now_ms - slot * self.slot_ms)
            for height in range(self.height + 1, number + 1):
                if (height - 1) % self.epoch_blocks == 0 and height > 1:
                    await self._recount(client, height)
                self.height = height
            async with self._moved:
                self._moved.notify_all()

    async def until_epoch(self, epoch: int) -> None:
        """Wait until a block of an epoch is final."""
        await self.until(lambda: self.epoch >= epoch and self.height > 0)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition on the observations holds, tested at each final block."""
        async with self._moved:
            await self._moved.wait_for(holds)

    def latency(self) -> dict[str, dict[str, int | None]]:
        """Return p50 and p99 of finality at the edges and elsewhere, in milliseconds."""
        groups = {"edges": self.at_edges, "elsewhere": self.elsewhere}
        return {
            name: {"p50_ms": percentile(values, 50), "p99_ms": percentile(values, 99), "blocks": len(values)}
            for name, values in groups.items()
        }

    async def _recount(self, client: ChainClient, height: int) -> None:
        """Compare the set that an epoch's first block elects with the recount from the state before it."""
        epoch = (height - 1) // self.epoch_blocks
        before, after = await block_hash(client, height - 1), await block_hash(client, height)
        voted = await self._voted(client, before, after, epoch - 1)
        standings = await self._standings(client, before, self.sets[epoch], voted)
        expected, jailed = following(self.sets[epoch], standings, self.seats, epoch - 1)
        found = await self._elected(client, after, epoch + 1)
        self.sets[epoch + 1] = found
        self.jailed |= jailed
        self.recounts += 1
        if found != expected:
            self.wrong.append(f"the set of epoch {epoch + 1}: {_told(found)}, and reckoned {_told(expected)}")

    async def _voted(self, client: ChainClient, before: bytes, first: bytes, ended: int) -> dict[bytes, int]:
        """Return the validators that certificates of the last two epochs show, each with the epoch after its vote.

        The certificates are those of the epochs' blocks, and the one in the `first` block of the next epoch.
        """
        present = await client.read(TrustStake.epoch_voters, at=before)
        bits = {ended: present.bits, ended - 1: await client.read(TrustStake.late_voters, at=before)}
        # The newest certificate is in this header, and not yet in the state before it.
        header = await client.rpc.call("chain_getHeader", "0x" + first.hex())
        for log in consensus_logs(digest_of(header)):
            if isinstance(log, FinalRef):
                head, _ = codec(CertificateHead).decode_from(log.certificate, 0)
                known = int.from_bytes(bits.get(head.epoch, b""), "little")
                bits[head.epoch] = (known | int.from_bytes(head.signers, "little")).to_bytes(16, "little")
        voted: dict[bytes, int] = {}
        for epoch in (ended - 1, ended):
            for place, stash in enumerate(sorted(self.sets.get(epoch, {}))):
                if int.from_bytes(bits[epoch], "little") >> place & 1:
                    voted[stash] = epoch + 1
        return voted

    async def _standings(
        self, client: ChainClient, at: bytes, old: dict[bytes, int], voted: dict[bytes, int]
    ) -> dict[bytes, Footing]:
        candidates = {key[-32:] for key in await client.entries(TrustStake.candidates, at=at)}
        everybody = sorted(candidates | old.keys())
        waiting = {waiter.stash: waiter.since for waiter in await client.read(TrustStake.waiting_validators, at=at)}
        found = {}
        for stash in everybody:
            pool = await client.read(TrustStake.pools, stash, at=at)
            bond = await client.read(TrustStake.bonds, stash, at=at)
            found[stash] = Footing(
                stake=bond + pool.stake.value,
                is_candidate=stash in candidates and bond > 0,
                heard=max(await client.read(TrustStake.last_online, stash, at=at), voted.get(stash, 0)),
                seated_since=await client.read(TrustStake.active_since, stash, at=at),
                is_jailed=await client.read(TrustStake.jailed, stash, at=at) is not None,
                is_tombstoned=await client.read(TrustStake.tombstones, stash, at=at) is not None,
                leaving_since=await client.read(TrustStake.retiring_since, stash, at=at),
                waiting_since=waiting.get(stash, 0),
            )
        return found

    async def _elected(self, client: ChainClient, at: bytes, epoch: int) -> dict[bytes, int]:
        starts = await client.read(TrustStake.validator_set_starts, at=at)
        first = max(start for start in starts if start <= epoch)
        return weights(await client.read(TrustStake.validator_sets, first, at=at))


def weights(seats: tuple[Seat, ...]) -> dict[bytes, int]:
    """Return the weights by stash."""
    return {seat.stash: seat.weight for seat in seats}


def _told(found: dict[bytes, int]) -> str:
    return ", ".join(f"0x{stash.hex()[:8]} {weight}" for stash, weight in sorted(found.items()))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
