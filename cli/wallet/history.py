"""What became of an account's stake: what it did, earned and lost, from the final blocks that the node still has.

Always: each line says what shows it. Of the newest blocks the node proves the events; of older ones they are its word;
of those whose state it has dropped, the blocks alone show what the account signed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from cli.chain_time import ChainTime, date_text, read_time
from cli.output import Account, as_text
from cli.session import WalletSession, note, reads
from cli.wallet.validator_names import known_validator, name_text
from runtime.blocks.extrinsic import decode_extrinsic
from runtime.encoding.codec import DecodeError
from runtime.interface.staking_api import PendingReward, StakeSummary
from runtime.pallets.pots import STAKES
from runtime.pallets.staking import staking_events as ev
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.amounts import Grains
from wallet.client import ChainClient
from wallet.refusals.refused_call import percent_text
from wallet.rpc import RpcError
from wallet.verified import VerifiedClient

COLUMNS = ("block", "about", "what", "behind", "amount", "more", "shown_by")
PROOF, WORD, BLOCK = "proof", "the node's word", "its block"
WORDS = {
    ev.Bonded: "bonded",
    ev.Delegated: "delegated",
    ev.Unbonded: "began to leave",
    ev.Withdrawn: "withdrew",
    ev.CandidateSet: "offered to validate",
    ev.Chilled: "stopped to offer",
    ev.Rewarded: "was paid rewards",
    ev.StakeSlashed: "lost to a slash",
    ev.Tombstoned: "may not validate again",
    ev.Redelegated: "redelegated",
    ev.CommissionAnnounced: "announced a commission",
    ev.ProfileSet: "named itself",
    ev.SlashHeld: "a slash waits",
    ev.SlashTaken: "a slash was taken",
    ev.SlashCancelled: "a slash was cancelled",
    ev.TombstoneLifted: "may validate again",
    ev.Jailed: "went to jail",
    ev.Unjailed: "left jail",
}
OF_VALIDATORS = (
    ev.Tombstoned,
    ev.CommissionAnnounced,
    ev.SlashHeld,
    ev.SlashTaken,
    ev.SlashCancelled,
    ev.TombstoneLifted,
    ev.Jailed,
    ev.Unjailed,
)
"""What also concerns who has stake behind them."""
WHOSE = ("staker", "delegator", "stash", "offender")
BEHIND = ("validator", "target", "offender", "stash")


@reads
async def history(session: WalletSession, client: ChainClient, account: str, blocks: int) -> None:
    """Print an account's history."""
    who = await known_validator(session, client, account, None, is_looked_at=True)
    at = await client.finalized()
    summary: StakeSummary = await client.query("OgpuApi_stakes", who, at=at)
    time = await read_time(client, at)
    first = max(1, time.height - blocks + 1)
    behind = {each.validator for each in summary.stakes} | {each.validator for each in summary.unlocking}
    reading = BlockReading(client, who, frozenset(behind), time)
    rows: list[dict[str, Any]] = []
    with session.output.console.status("reading blocks") as status:
        ids = await client.final_ids(first, time.height) if time.height else []
        for height in range(time.height, first - 1, -1):
            rows = [*await reading.rows(height, ids[height - first]), *rows]
            status.update(f"reading blocks: {time.height - height + 1} of {len(ids)}")
    session.output.rows(f"History of blocks {first} to {time.height}", COLUMNS, rows)
    pending: tuple[PendingReward, ...] = await client.query("OgpuApi_pending_rewards", who, at=at)
    waiting = Grains(sum(reward.amount for reward in pending))
    paid = sum(row["amount"] for row in rows if row["what"] == WORDS[ev.Rewarded] and row["is_own"])
    note(
        f"blocks {first} to {time.height}. It is {time.present_text}. Rewards paid in these blocks: "
        f"{as_text(Grains(paid))}. Unclaimed rewards: {as_text(waiting)} (`rewards`)"
    )
    if reading.without_events:
        note(
            f"the node has dropped the events of {reading.without_events} blocks. For these the list shows signed "
            "calls, not their effects"
        )


@dataclasses.dataclass(slots=True)
class BlockReading:
    """Reads blocks for one account, each by the best that the node has of it."""

    client: ChainClient
    who: bytes
    behind: frozenset[bytes]
    """The validators behind which the account had stake at the last block read, or later."""
    time: ChainTime
    without_events: int = 0
    sources: list[tuple[ChainClient, str]] = dataclasses.field(init=False)
    """What may still be asked for events, the best first: a node that has none of a block has none of older ones."""

    def __post_init__(self) -> None:
        """By proof where the client proves, then by the node's word."""
        is_proving = isinstance(self.client, VerifiedClient) and self.client.is_proving
        proofs = [(self.client, PROOF)] if is_proving else []
        self.sources = [*proofs, (self.client.unverified(), WORD)]

    async def rows(self, height: int, block: bytes) -> list[dict[str, Any]]:
        """What one block says of the account; to be asked from the newest block down."""
        while self.sources:
            source, shown_by = self.sources[0]
            try:
                records = await source.events(block)
            except RpcError:
                del self.sources[0]
                continue
            # Before this block, the account stood behind the validators that it leaves here.
            self.behind |= {left for record in records for left in left_by(record.event, self.who)}
            found = [self._row(record.event) for record in records if concerns(record.event, self.who, self.behind)]
            return [self._placed(row, height, shown_by) for row in found]
        self.without_events += 1
        return [self._placed(row, height, BLOCK) for row in await self._signed(block)]

    def _placed(self, row: dict[str, Any], height: int, shown_by: str) -> dict[str, Any]:
        away = (self.time.height - height) * self.time.passed_ms // self.time.passed_blocks
        return {"block": height, "about": date_text(self.time.now_ms - away), **row, "shown_by": shown_by}

    def _row(self, event: Any) -> dict[str, Any]:
        named = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
        behind = next((named[name] for name in BEHIND if name in named), None)
        return {
            "what": WORDS[type(event)],
            "is_own": self.who in owners(event),
            "behind": None if behind is None else Account(behind),
            "amount": Grains(named["amount"]) if "amount" in named else None,
            "more": more_of(event),
        }

    async def _signed(self, block: bytes) -> list[dict[str, Any]]:
        """The calls of TrustStake that the account signed, alone or in batches."""
        body, rows = await self.client.block(block), []
        for raw in body.extrinsics:
            try:
                extrinsic = decode_extrinsic(self.client.runtime, raw)
            except DecodeError:  # of rules that this program does not know
                continue
            if extrinsic.authorization is None or extrinsic.authorization.signer != self.who:
                continue
            calls = [call for call in _calls(extrinsic.call) if call.method.pallet is TrustStake]
            rows += [_signed_row(call.method.name, call.named_arguments) for call in calls]
        return rows


def owners(event: Any) -> set[bytes]:
    """Whose doing or fate it is."""
    return {getattr(event, name) for name in WHOSE if hasattr(event, name)}


def left_by(event: Any, who: bytes) -> frozenset[bytes]:
    """Return the validator from which an account withdraws stake in this event."""
    match event:
        case ev.Unbonded() if event.staker == who:
            return frozenset({event.validator})
        case ev.Redelegated() if event.delegator == who:
            return frozenset({event.source})
        case _:
            return frozenset()


def concerns(event: Any, who: bytes, behind: frozenset[bytes]) -> bool:
    """Whether an event is about the account's stake: its own, or of a validator that it stands behind."""
    if type(event) not in WORDS:
        return False
    if isinstance(event, ev.StakeSlashed):
        return event.staker == who or event.validator in behind
    return who in owners(event) or (isinstance(event, OF_VALIDATORS) and bool(owners(event) & behind))


def more_of(event: Any) -> str | None:
    """What else there is to say."""
    match event:
        case ev.Unbonded():
            return f"free from epoch {event.until_epoch} on"
        case ev.Redelegated():
            return f"from behind {as_text(Account(event.source))}"
        case ev.CommissionAnnounced():
            return f"{percent_text(event.commission_ppm)} from era {event.era} on"
        case ev.SlashHeld():
            return f"up to {percent_text(event.step.wanted)} of what is behind it, in era {event.take_era}"
        case ev.SlashTaken():
            return "of all that was behind it"
        case ev.StakeSlashed(staker=staker) if staker == STAKES:
            return "the pool of all delegators"
        case ev.StakeSlashed() if event.staker != event.validator:
            return f"what {as_text(Account(event.staker))} took out of it before"
        case ev.ProfileSet():
            return name_text(event.name) or "nothing any more"
        case _:
            return None


def _calls(call: Any) -> Iterator[Any]:
    """A call, or those inside of a batch."""
    inner = call.named_arguments.get("calls")
    if isinstance(inner, tuple):
        for part in inner:
            yield from _calls(part)
    else:
        yield call


def _signed_row(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    behind = next((arguments[key] for key in ("target", "validator") if key in arguments), None)
    return {
        "what": f"signed {name}",
        "is_own": True,
        "behind": None if behind is None else Account(behind),
        "amount": Grains(arguments["value"]) if "value" in arguments else None,
        "more": None,
    }
