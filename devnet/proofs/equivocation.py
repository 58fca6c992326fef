"""`python -m devnet.proofs.equivocation`: a validator proposes twice on a live devnet, and is slashed for it.

Of four validators, Dave's node is `devnet.stage.cheating.equivocating_node`. The other nodes see both blocks and relay
the two headers. The next author attaches them. The chain tombstones Dave, and slashes an era later.

The requirements: an author proves the offence on chain. The amounts are the table's: for a quarter of the stake,
(3/4)^2 of it, half of it burned, a tenth to the author. No other validator is touched, and blocks continue.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from devnet.launcher import processes
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet
from devnet.launcher.lifecycle import all_processes, node_process, ready
from devnet.stage.measuring.ledger import LedgerEvent, block_hash, final_blocks
from devnet.stage.network import POLL_SECONDS, fresh_layout
from devnet.stage.report import Report
from devnet.stage.scenario import LiveProof, ProofRun, Scenario, run
from genesis import dev_accounts
from runtime.cryptography.ss58 import encode as ss58
from runtime.pallets.staking.slashing import SLASH_FLOOR_PPM, SLASH_SLOPE, SlashCurve, equivocation_ppm
from runtime.pallets.staking.staking_events import SlashTaken
from runtime.pallets.staking.trust_lock import OffenceProven
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient

OFFENDER_NAME = "Dave"
EQUIVOCATING_MODULE = "devnet.stage.cheating.equivocating_node"
PROOF_SECONDS = 150.0
BLOCKS_AFTER = 5


@contextmanager
def with_offender(proof_run: ProofRun) -> Iterator[Devnet]:
    """Run four nodes, one of which proposes twice."""
    devnet = fresh_layout(proof_run, 4)
    try:
        for member in devnet.members:
            node_process_of = node_process(devnet, member)
            processes.start(
                replace(node_process_of, module=EQUIVOCATING_MODULE)
                if member.name == OFFENDER_NAME
                else node_process_of
            )
        asyncio.run(ready(devnet))
        yield devnet
    finally:
        processes.stop(*all_processes(devnet))


async def _watch_slash(devnet: Devnet) -> Report:
    offender = dev_accounts.stash(OFFENDER_NAME)
    async with await ChainClient.connect(devnet.members[0].rpc_url) as chain:
        stake_before = await chain.read(TrustStake.bonds, offender, at=await block_hash(chain, 0))
        proven_offence, height = await _first_event(chain, OffenceProven, offender)
        slash_taken, _ = await _first_event(chain, SlashTaken, offender, height)  # an era later
        final_block = await chain.finalized()
        stake_after = await chain.read(TrustStake.bonds, offender, at=final_block)
        report: Report = {
            "block": height,
            "offender": ss58(offender),
            "reporter": ss58(proven_offence.reporter),
            "validators": [member.name for member in devnet.members],
            "slot": proven_offence.at,
            "ppm": proven_offence.slashed_ppm,
            "slashed_grains": slash_taken.amount,
            "stake_before": stake_before,
            "stake_after": stake_after,
            "tombstoned": await chain.read(TrustStake.tombstones, offender, at=final_block) is not None,
            "others_tombstoned": await _other_tombstones(chain, devnet, final_block),
        }
        report["blocks_after"] = await _blocks_after(chain, height)
    return report


async def _first_event(
    chain: ChainClient, event_type: type[LedgerEvent], offender: bytes, seen_height: int = 0
) -> tuple[LedgerEvent, int]:
    """Return the first event of a kind about the offender above a height of the final chain, with its height."""
    deadline = time.monotonic() + PROOF_SECONDS
    while time.monotonic() < deadline:
        async for height, _, chain_events in final_blocks(chain, seen_height + 1):
            for event in chain_events:
                if isinstance(event, event_type) and getattr(event, "offender", None) == offender:
                    return event, height
            seen_height = height
        await asyncio.sleep(POLL_SECONDS)
    raise DevnetError(f"no {event_type.__name__} within {PROOF_SECONDS:.0f} s")


async def _other_tombstones(chain: ChainClient, devnet: Devnet, final_block: bytes) -> int:
    other_stashes = [dev_accounts.stash(member.name) for member in devnet.members if member.name != OFFENDER_NAME]
    return sum(
        [
            await chain.read(TrustStake.tombstones, other_stash, at=final_block) is not None
            for other_stash in other_stashes
        ]
    )


async def _blocks_after(chain: ChainClient, height: int) -> int:
    async for header in await chain.finalized_heads():
        if int(header["number"], 16) >= height + BLOCKS_AFTER:
            return int(header["number"], 16) - height
    return 0


def _failures(report: Report) -> list[str]:
    expected_ppm = equivocation_ppm(1, 4, SlashCurve(SLASH_FLOOR_PPM, SLASH_SLOPE))
    stake_lost = report["stake_before"] - report["stake_after"]
    requirements = {
        "the share slashed is not the table's": report["ppm"] == expected_ppm,
        "the offender's stake did not fall by the slash": stake_lost == report["slashed_grains"] > 0,
        "the offender is not tombstoned": report["tombstoned"],
        "another validator is tombstoned": report["others_tombstoned"] == 0,
        "no author attached it": report["reporter"]
        in [ss58(dev_accounts.stash(name)) for name in report["validators"]],
        "blocks did not go on": report["blocks_after"] >= BLOCKS_AFTER,
    }
    return [failure for failure, is_met in requirements.items() if not is_met]


def figures(facts_by_scenario: Mapping[str, Report]) -> str:
    """Return the line of figures."""
    report = facts_by_scenario["twice"]
    return (
        f"slot {report['slot']} proposed twice by {OFFENDER_NAME}, proven in block {report['block']}, "
        f"{report['ppm'] / 10_000:g} % slashed ({report['slashed_grains']} grains); "
        f"{report['blocks_after']} final blocks after it"
    )


PROOF = LiveProof(
    "equivocation",
    "A validator proposes twice, and is slashed for it.",
    [
        Scenario(
            "twice", f"{OFFENDER_NAME} proposes twice in each of its slots", with_offender,
            lambda net: asyncio.run(_watch_slash(net)), _failures,
        ),
    ],
    figures,
)  # fmt: skip

if __name__ == "__main__":
    run(PROOF)
