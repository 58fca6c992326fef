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

SEAT_COUNT_MIN = 4
JAIL_EPOCHS = 2


@dataclass(frozen=True, slots=True)
class Footing:
    """A candidate or validator in the state."""

    stake: int
    is_candidate: bool
    """True if it is a candidate with a sufficient bond."""
    heard_epoch: int
    """The epoch after the newest one in which it was on line."""
    seated_since: int
    is_jailed: bool
    is_tombstoned: bool
    leaving_since: int = 0
    """The first epoch of a seat that it only kept for lack of a successor, or 0."""
    waiting_since: int = 0
    """The first epoch for which it was elected without room, at every election since, or 0."""


def next_set_after(
    old_set: dict[bytes, int], footings: dict[bytes, Footing], seat_count: int, ended_epoch: int
) -> tuple[dict[bytes, int], set[bytes]]:
    """Return the set after `old`, by stash and weight, and the newly jailed, after the end of epoch `ended`."""
    jailed = newly_absent(old_set, footings, ended_epoch)
    eligible_validators = [
        validator
        for validator, footing in footings.items()
        if footing.is_candidate
        and footing.heard_epoch > ended_epoch
        and not (footing.is_tombstoned or footing.is_jailed or validator in jailed)
    ]
    ranked = sorted(eligible_validators, key=lambda validator: (-footings[validator].stake, validator))
    remaining_weights = {
        validator: weight for validator, weight in old_set.items() if not footings[validator].is_tombstoned
    }
    waiting_since = {validator: footings[validator].leaving_since for validator in remaining_weights}
    waiting_since |= {
        validator: footings[validator].waiting_since for validator in ranked if validator not in remaining_weights
    }
    stake_by_validator = {validator: footings[validator].stake for validator in ranked}
    next_set = (
        _cut_to_an_eighth(remaining_weights, ranked, stake_by_validator, seat_count, waiting_since)
        if remaining_weights
        else dict(old_set)
    )
    return next_set, jailed


def newly_absent(old_set: dict[bytes, int], footings: dict[bytes, Footing], ended_epoch: int) -> set[bytes]:
    """Return the validators to jail: silent for two whole epochs, longest first, while less than a third is jailed."""
    jailed_before = {validator for validator in old_set if footings[validator].is_jailed}
    jailed: set[bytes] = set()
    last_signs = {
        validator: max(footings[validator].heard_epoch, footings[validator].seated_since) for validator in old_set
    }
    for validator in sorted(old_set, key=lambda validator_behind: (last_signs[validator_behind], validator_behind)):
        silent_epochs = ended_epoch + 1 - last_signs[validator]
        locked_weight = sum(old_set[validator_behind] for validator_behind in jailed_before | jailed | {validator})
        if (
            silent_epochs >= JAIL_EPOCHS
            and validator not in jailed_before
            and 3 * locked_weight < sum(old_set.values())
        ):
            jailed.add(validator)
    return jailed


def _cut_to_an_eighth(
    remaining_weights: dict[bytes, int],
    ranked: Sequence[bytes],
    stake_by_validator: dict[bytes, int],
    seat_count: int,
    waiting_since: dict[bytes, int],
) -> dict[bytes, int]:
    winning_validators, eighth_of_weight = ranked[:seat_count], sum(remaining_weights.values()) // 8
    absent_validators = sorted(
        (validator for validator in remaining_weights if validator not in ranked),
        key=lambda validator: (-remaining_weights[validator], validator),
    )
    leaving_absentees = sorted(absent_validators, key=lambda validator: waiting_since[validator] or sys.maxsize)
    outranked_validators = [validator for validator in ranked[seat_count:] if validator in remaining_weights][::-1]
    leavers = leaving_absentees + outranked_validators
    # As many leave as the eighth allows, so the largest group is tried first.
    for leaver_count in range(len(leavers), -1, -1):
        leaving_validators = leavers[:leaver_count]
        # A single validator may leave even with more than an eighth of the weight.
        if (
            leaver_count > 1
            and sum(remaining_weights[validator] for validator in leaving_validators) > eighth_of_weight
        ):
            continue
        next_set = {}
        for validator, weight in remaining_weights.items():
            if validator in leaving_validators:
                continue
            next_set[validator] = (
                min(stake_by_validator[validator], weight * 9 // 8) if validator in winning_validators else weight
            )
        entering_validators = sorted(
            (validator for validator in winning_validators if validator not in remaining_weights),
            key=lambda validator: waiting_since[validator] or sys.maxsize,
        )
        next_set |= _admitted(entering_validators, stake_by_validator, next_set, eighth_of_weight, seat_count)
        if leaver_count == 0 or len(next_set) >= min(SEAT_COUNT_MIN, len(remaining_weights)):
            return next_set
    raise AssertionError("an account may not always leave")


def _admitted(
    waiting_comers: Sequence[bytes],
    stake_by_validator: dict[bytes, int],
    staying_weights: dict[bytes, int],
    eighth_of_weight: int,
    seat_count: int,
) -> dict[bytes, int]:
    third_of_weight = sum(staying_weights.values()) // 3
    admitted_comers: list[bytes] = []
    for comer in waiting_comers[: max(0, seat_count - len(staying_weights))]:
        entering_weight = sum(stake_by_validator[each] for each in [*admitted_comers, comer])
        # A single newcomer may enter with any stake, because its weight is cut to a third below.
        if admitted_comers and entering_weight > min(eighth_of_weight, third_of_weight):
            break
        admitted_comers.append(comer)
    return {
        comer: min(stake_by_validator[comer], third_of_weight)
        for comer in admitted_comers
        if min(stake_by_validator[comer], third_of_weight) > 0
    }


@dataclass(frozen=True, slots=True)
class Tenure:
    """The number of a validator's entries into the active set, genesis included, and of its exits."""

    entries: int
    left: int


def tenure_of(validator: bytes, sets_by_epoch: Mapping[int, Collection[bytes]]) -> Tenure:
    """Return the entries and exits of a validator over the sets of epochs 0 and later."""
    entry_count = exit_count = 0
    was_seated = False
    for epoch in sorted(sets_by_epoch):
        is_seated = validator in sets_by_epoch[epoch]
        entry_count += is_seated and not was_seated
        exit_count += was_seated and not is_seated
        was_seated = is_seated
    return Tenure(entry_count, exit_count)


EDGE_BLOCKS = 2
"""An epoch's first blocks, made by the new set."""


@dataclass(slots=True)
class ObservedChain:
    """Observations of the chain."""

    epoch_blocks: int
    slot_ms: int
    seat_count: int
    height: int = 0
    sets_by_epoch: dict[int, dict[bytes, int]] = field(default_factory=dict)
    wrong_sets: list[str] = field(default_factory=list)
    recounts: int = 0
    jailed: set[bytes] = field(default_factory=set)
    edge_latencies_ms: list[int] = field(default_factory=list)
    other_latencies_ms: list[int] = field(default_factory=list)
    longest_gap_ms: int = 0
    _block_condition: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def epoch(self) -> int:
        """The epoch of the newest final block."""
        return max(0, self.height - 1) // self.epoch_blocks

    def seated_in(self, epoch: int | None = None) -> dict[bytes, int]:
        """Return the weights by stash in an epoch, by default the current one."""
        return self.sets_by_epoch[self.epoch if epoch is None else epoch]

    async def follow(self, client: ChainClient) -> None:
        """Take every final block in order, until cancelled."""
        at_block = await block_hash(client, 0)
        # The genesis set also serves epoch 1.
        self.sets_by_epoch[0] = self.sets_by_epoch[1] = weights_by_stash(
            await client.read(TrustStake.active_set, at=at_block)
        )
        last_ms = _now_ms()
        async for header in await client.finalized_heads():
            now_ms, block_slot = _now_ms(), slot_of(header)
            self.longest_gap_ms = max(self.longest_gap_ms, now_ms - last_ms)
            last_ms = now_ms
            final_height = int(header["number"], 16)
            if block_slot is not None:
                block_index = (final_height - 1) % self.epoch_blocks
                (self.edge_latencies_ms if block_index < EDGE_BLOCKS else self.other_latencies_ms).append(
                    now_ms - block_slot * self.slot_ms
                )
            # A subscription may leave out heights that became final together.
            for height in range(self.height + 1, final_height + 1):
                if (height - 1) % self.epoch_blocks == 0 and height > 1:
                    await self._recount_set(client, height)
                self.height = height
            async with self._block_condition:
                self._block_condition.notify_all()

    async def wait_for_epoch(self, epoch: int) -> None:
        """Wait until a block of an epoch is final."""
        await self.wait_until(lambda: self.epoch >= epoch and self.height > 0)

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition on the observations holds, tested at each final block."""
        async with self._block_condition:
            await self._block_condition.wait_for(holds)

    def latency(self) -> dict[str, dict[str, int | None]]:
        """Return p50 and p99 of finality at the edges and elsewhere, in milliseconds."""
        latencies_by_group = {"edges": self.edge_latencies_ms, "elsewhere": self.other_latencies_ms}
        return {
            group: {"p50_ms": percentile(latencies, 50), "p99_ms": percentile(latencies, 99), "blocks": len(latencies)}
            for group, latencies in latencies_by_group.items()
        }

    async def _recount_set(self, chain: ChainClient, height: int) -> None:
        """Compare the set that an epoch's first block elects with the recount from the state before it."""
        epoch = (height - 1) // self.epoch_blocks
        block_before, block_after = await block_hash(chain, height - 1), await block_hash(chain, height)
        vote_epochs = await self._vote_epochs(chain, block_before, block_after, epoch - 1)
        footings = await self._footings(chain, block_before, self.sets_by_epoch[epoch], vote_epochs)
        expected_set, jailed = next_set_after(self.sets_by_epoch[epoch], footings, self.seat_count, epoch - 1)
        elected_set = await self._elected_set(chain, block_after, epoch + 1)
        self.sets_by_epoch[epoch + 1] = elected_set
        self.jailed |= jailed
        self.recounts += 1
        if elected_set != expected_set:
            self.wrong_sets.append(
                f"the set of epoch {epoch + 1}: {_set_text(elected_set)}, and reckoned {_set_text(expected_set)}"
            )

    async def _vote_epochs(
        self, chain: ChainClient, block_before: bytes, first_block: bytes, ended_epoch: int
    ) -> dict[bytes, int]:
        """Return the validators that certificates of the last two epochs show, each with the epoch after its vote.

        The certificates are those of the epochs' blocks, and the one in the `first` block of the next epoch.
        """
        epoch_voters = await chain.read(TrustStake.epoch_voters, at=block_before)
        voter_bits = {
            ended_epoch: epoch_voters.bits,
            ended_epoch - 1: await chain.read(TrustStake.late_voters, at=block_before),
        }
        # The newest certificate is in this header, and not yet in the state before it.
        header = await chain.rpc.call("chain_getHeader", "0x" + first_block.hex())
        for consensus_log in consensus_logs(digest_of(header)):
            if isinstance(consensus_log, FinalRef):
                certificate_head, _ = codec(CertificateHead).decode_from(consensus_log.certificate, 0)
                known_bits = int.from_bytes(voter_bits.get(certificate_head.epoch, b""), "little")
                voter_bits[certificate_head.epoch] = (
                    known_bits | int.from_bytes(certificate_head.signers, "little")
                ).to_bytes(16, "little")
        vote_epochs: dict[bytes, int] = {}
        for epoch in (ended_epoch - 1, ended_epoch):
            for seat_index, validator in enumerate(sorted(self.sets_by_epoch.get(epoch, {}))):
                if int.from_bytes(voter_bits[epoch], "little") >> seat_index & 1:
                    vote_epochs[validator] = epoch + 1
        return vote_epochs

    async def _footings(
        self, chain: ChainClient, at_block: bytes, old_set: dict[bytes, int], vote_epochs: dict[bytes, int]
    ) -> dict[bytes, Footing]:
        candidates = {key[-32:] for key in await chain.entries(TrustStake.candidates, at=at_block)}
        all_validators = sorted(candidates | old_set.keys())
        waiting_since_epochs = {
            waiting_validator.stash: waiting_validator.since
            for waiting_validator in await chain.read(TrustStake.waiting_validators, at=at_block)
        }
        footings = {}
        for validator in all_validators:
            pool = await chain.read(TrustStake.pools, validator, at=at_block)
            bond_grains = await chain.read(TrustStake.bonds, validator, at=at_block)
            footings[validator] = Footing(
                stake=bond_grains + pool.stake.value,
                is_candidate=validator in candidates and bond_grains > 0,
                heard_epoch=max(
                    await chain.read(TrustStake.last_online, validator, at=at_block), vote_epochs.get(validator, 0)
                ),
                seated_since=await chain.read(TrustStake.active_since, validator, at=at_block),
                is_jailed=await chain.read(TrustStake.jailed, validator, at=at_block) is not None,
                is_tombstoned=await chain.read(TrustStake.tombstones, validator, at=at_block) is not None,
                leaving_since=await chain.read(TrustStake.retiring_since, validator, at=at_block),
                waiting_since=waiting_since_epochs.get(validator, 0),
            )
        return footings

    async def _elected_set(self, chain: ChainClient, at_block: bytes, epoch: int) -> dict[bytes, int]:
        set_starts = await chain.read(TrustStake.validator_set_starts, at=at_block)
        first_epoch = max(set_start for set_start in set_starts if set_start <= epoch)
        return weights_by_stash(await chain.read(TrustStake.validator_sets, first_epoch, at=at_block))


def weights_by_stash(seats: tuple[Seat, ...]) -> dict[bytes, int]:
    """Return the weights by stash."""
    return {seat.stash: seat.weight for seat in seats}


def _set_text(weights_by_validator: dict[bytes, int]) -> str:
    return ", ".join(f"0x{validator.hex()[:8]} {weight}" for validator, weight in sorted(weights_by_validator.items()))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
