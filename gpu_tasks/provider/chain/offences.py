"""Double proposals that a node saw."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from gpu_tasks.provider.chain.port import DoubleHeaderEvidence
from runtime.pallets.staking.double_headers import double_proposal
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient

EVIDENCE_MAX = 128
"""So many pairs of headers of one answer are looked at."""


async def offences(client: ChainClient) -> list[DoubleHeaderEvidence]:
    """Those that are offences: a report of what is none would cost its fee, for each name that a node makes up."""
    found = await client.rpc.call("ogpu_inspect", "offences")
    pairs = [
        DoubleHeaderEvidence(bytes.fromhex(pair["first"][2:]), bytes.fromhex(pair["second"][2:]))
        for pair in found[:EVIDENCE_MAX]
    ]
    if not pairs:
        return []
    key_in = await _session_keys(client)
    return [pair for pair in pairs if double_proposal(pair.first, pair.second, client.genesis_hash, key_in)]


async def _session_keys(client: ChainClient) -> Callable[[bytes, int], bytes | None]:
    """The session key of a stash in an epoch about which evidence counts."""
    at = await client.finalized()
    starts = await client.read(TrustStake.set_starts, at=at)
    elected_to = await client.read(TrustStake.elected_to, at=at)
    sets = await client.read_many(TrustStake.sets, starts, at=at)
    keys = [{seat.stash: seat.session_key for seat in seats} for seats in sets]

    def key_in(stash: bytes, epoch: int) -> bytes | None:
        place = bisect_right(starts, epoch)
        return keys[place - 1].get(stash) if place and epoch <= elected_to else None

    return key_in
