"""Offences of validators that a node saw: two headers in a slot, two proposals or votes in a round."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from gpu_tasks.provider.chain.port import SeenOffence
from runtime.blocks.evidence import EVIDENCE
from runtime.encoding.codec import DecodeError
from runtime.pallets.staking.offences import proven
from runtime.pallets.staking.stakers import Seats
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient

EVIDENCE_MAX = 128
"""So much of one answer is looked at."""


async def offences(client: ChainClient) -> list[SeenOffence]:
    """Those that are offences: a report of what is none would cost its fee, for each name that a node makes up."""
    found = await client.rpc.call("ogpu_inspect", "offences")
    if not found:
        return []
    validators = await _validators(client)
    seen = []
    for shown in found[:EVIDENCE_MAX]:
        try:
            evidence = EVIDENCE.decode(bytes.fromhex(shown["evidence"][2:]))
        except DecodeError:
            continue
        proof = proven(evidence, client.genesis_hash, validators)
        if proof is not None:
            seen.append(SeenOffence(proof.offender, evidence))
    return seen


async def _validators(client: ChainClient) -> Callable[[int], Seats]:
    """Who sat in an epoch about which evidence counts."""
    at = await client.finalized()
    starts = await client.read(TrustStake.set_starts, at=at)
    elected_to = await client.read(TrustStake.elected_to, at=at)
    sets = await client.read_many(TrustStake.sets, starts, at=at)

    def validators(epoch: int) -> Seats:
        place = bisect_right(starts, epoch)
        seats: Seats = sets[place - 1] if place and epoch <= elected_to else ()
        return seats

    return validators
