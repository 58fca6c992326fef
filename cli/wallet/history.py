"""`history`: an account's transfers, stake, rewards and slashes, from the final blocks that the node still has.

Invariant: each line names its source. The node proves the events of the newest blocks. For older blocks they are the
node's word. For blocks whose state it has dropped, only the block shows the account's signed calls.
"""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from cli.chain_time import ChainTime, date_text, read_time
from cli.output import Account, as_text
from cli.session import WalletSession, note, reads
from cli.wallet.money import WITHOUT_KEY
from cli.wallet.validator_names import known_validator, name_text
from runtime.blocks.extrinsic import decode_extrinsic
from runtime.encoding.codec import DecodeError
from runtime.interface.staking_api import PendingReward, StakeSummary
from runtime.pallets.balances import Balances, Transfer
from runtime.pallets.pots import STAKES
from runtime.pallets.staking import staking_events as ev
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.amounts import SYMBOL, Grains, counted, format_amount
from wallet.client import ChainClient
from wallet.refusals.refused_call import percent_text
from wallet.rpc import RpcError
from wallet.verified import VerifiedClient

COLUMNS = ("block", "about", "what", "behind", "amount", "more", "shown_by")
CSV_COLUMNS = ("time_utc", "block", "kind", "other_account", f"amount_{SYMBOL}", "own", "shown_by")
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
    Transfer: "transferred",
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
"""Events of a validator that also concern its delegators."""
WHOSE = ("staker", "delegator", "stash", "offender")
BEHIND = ("validator", "target", "offender", "stash")


@reads
async def history(
    session: WalletSession, client: ChainClient, account: str, blocks: int, limit: int, is_csv: bool
) -> None:
    """Print an account's history."""
    account_id = await known_validator(session, client, account, None, is_looked_at=True)
    block_hash = await client.finalized()
    stake_summary: StakeSummary = await client.query("OgpuApi_stakes", account_id, at=block_hash)
    chain_time = await read_time(client, block_hash)
    first_height = max(1, chain_time.height - blocks + 1)
    validators_behind = {stake.validator for stake in stake_summary.stakes} | {
        stake.validator for stake in stake_summary.unlocking
    }
    reading = BlockReading(client, account_id, frozenset(validators_behind), chain_time)
    newest_first: list[dict[str, Any]] = []
    with session.output.console.status("reading blocks") as status:
        block_ids = await client.final_ids(first_height, chain_time.height) if chain_time.height else []
        for height in range(chain_time.height, first_height - 1, -1):
            # Appended, because a list that grows at its front would be copied for each block.
            newest_first += reversed(await reading.rows(height, block_ids[height - first_height]))
            if len(newest_first) > limit:
                del newest_first[limit:]
                first_height = newest_first[-1]["block"]
                note(
                    f"the list holds the newest {limit} entries, the most that --limit allows; older ones are left out"
                )
                break
            status.update(f"reading blocks: {chain_time.height - height + 1} of {len(block_ids)}")
    rows = newest_first[::-1]
    if is_csv:
        click.echo(as_csv(rows), nl=False)
    else:
        session.output.rows(f"History of blocks {first_height} to {chain_time.height}", COLUMNS, rows)
    pending_rewards: tuple[PendingReward, ...] = await client.query(
        "OgpuApi_pending_rewards", account_id, at=block_hash
    )
    waiting_grains = Grains(sum(reward.amount for reward in pending_rewards))
    paid_grains = sum(row["amount"] for row in rows if row["what"] == WORDS[ev.Rewarded] and row["is_own"])
    note(
        f"blocks {first_height} to {chain_time.height}. It is {chain_time.present_text}. Rewards paid in these blocks: "
        f"{as_text(Grains(paid_grains))}. Unclaimed rewards: {as_text(waiting_grains)} (`rewards`)"
    )
    if reading.without_events:
        note(
            f"the node has dropped the events of {counted(reading.without_events, 'block')}. There the list shows "
            "signed calls, not their effects"
        )


def as_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV for a spreadsheet: a header, then a line for each row.

    A spreadsheet runs a text that begins like a formula, so no text from the chain is in it: no names, for example.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in rows:
        other_account, amount = row["other_account"], row["amount"]
        writer.writerow(
            (
                row["about"].removesuffix(" UTC"),
                row["block"],
                row["what"],
                "" if other_account is None else as_text(other_account),
                "" if amount is None else format_amount(amount),
                as_text(row["is_own"]),
                row["shown_by"],
            )
        )
    return text.getvalue()


@dataclasses.dataclass(slots=True)
class BlockReading:
    """Reads blocks for one account, each from the node's best source."""

    client: ChainClient
    who: bytes
    behind: frozenset[bytes]
    """The validators with the account's stake at the last block read, or later."""
    time: ChainTime
    without_events: int = 0
    sources: list[tuple[ChainClient, str]] = dataclasses.field(init=False)
    """The sources of events that are left, the best first. A node without a block's events has none of older blocks."""

    def __post_init__(self) -> None:
        """Choose proofs if the client proves, then the node's word."""
        is_proving = isinstance(self.client, VerifiedClient) and self.client.is_proving
        proof_sources = [(self.client, PROOF)] if is_proving else []
        self.sources = [*proof_sources, (self.client.unverified(), WORD)]

    async def rows(self, height: int, block_hash: bytes) -> list[dict[str, Any]]:
        """Return the account's rows of one block. Call this from the newest block down."""
        while self.sources:
            event_source, shown_by = self.sources[0]
            try:
                event_records = await event_source.events(block_hash)
            except RpcError:
                del self.sources[0]
                continue
            # Before this block, the account stood behind the validators that it leaves here.
            self.behind |= {
                validator_account for record in event_records for validator_account in left_by(record.event, self.who)
            }
            events = [record.event for record in event_records if concerns(record.event, self.who, self.behind)]
            return [self._placed(self._row(event), height, shown_by) for event in events]
        self.without_events += 1
        return [self._placed(row, height, BLOCK) for row in await self._signed(block_hash)]

    def _placed(self, row: dict[str, Any], height: int, shown_by: str) -> dict[str, Any]:
        age_ms = (self.time.height - height) * self.time.passed_ms // self.time.passed_blocks
        return {"block": height, "about": date_text(self.time.now_ms - age_ms), **row, "shown_by": shown_by}

    def _row(self, event: Any) -> dict[str, Any]:
        values = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
        validator_id = next((values[name] for name in BEHIND if name in values), None)
        validator_account = None if validator_id is None else Account(validator_id)
        return {
            "what": self._what(event),
            "is_own": isinstance(event, Transfer) or self.who in owners(event),
            "behind": validator_account,
            "other_account": self._other_side(event) if isinstance(event, Transfer) else validator_account,
            "amount": Grains(values["amount"]) if "amount" in values else None,
            "more": self._direction(event) if isinstance(event, Transfer) else more_of(event),
        }

    def _what(self, event: Any) -> str:
        if isinstance(event, Transfer):
            return "sent" if event.from_ == self.who else "received"
        return WORDS[type(event)]

    def _other_side(self, event: Transfer) -> Account:
        return Account(event.to if event.from_ == self.who else event.from_)

    def _direction(self, event: Transfer) -> str:
        return f"{'to' if event.from_ == self.who else 'from'} {as_text(self._other_side(event))}"

    async def _signed(self, block_hash: bytes) -> list[dict[str, Any]]:
        """Return the account's signed calls of TrustStake and Balances, alone or in batches."""
        block = await self.client.block(block_hash)
        rows: list[dict[str, Any]] = []
        for extrinsic_bytes in block.extrinsics:
            try:
                extrinsic = decode_extrinsic(self.client.runtime, extrinsic_bytes)
            except DecodeError:  # of rules that this program does not know
                continue
            if extrinsic.authorization is None or extrinsic.authorization.signer != self.who:
                continue
            calls = [call for call in _calls(extrinsic.call) if call.method.pallet in (TrustStake, Balances)]
            rows += [_signed_row(call.method.name, call.named_arguments) for call in calls]
        return rows


def owners(event: Any) -> set[bytes]:
    """Return the accounts that an event is about."""
    return {getattr(event, name) for name in WHOSE if hasattr(event, name)}


def left_by(event: Any, account: bytes) -> frozenset[bytes]:
    """Return the validator from which an account withdraws stake in this event."""
    match event:
        case ev.Unbonded() if event.staker == account:
            return frozenset({event.validator})
        case ev.Redelegated() if event.delegator == account:
            return frozenset({event.source})
        case _:
            return frozenset()


def concerns(event: Any, account: bytes, validators_behind: frozenset[bytes]) -> bool:
    """Return True if an event is about the account, or about a validator to which it delegates."""
    if type(event) not in WORDS:
        return False
    if isinstance(event, Transfer):  # events of stake report the chain's own transfers
        return account in {event.from_, event.to} and not {event.from_, event.to} & WITHOUT_KEY.keys()
    if isinstance(event, ev.StakeSlashed):
        return event.staker == account or event.validator in validators_behind
    return account in owners(event) or (isinstance(event, OF_VALIDATORS) and bool(owners(event) & validators_behind))


def more_of(event: Any) -> str | None:
    """Return an event's further facts in words."""
    match event:
        case ev.Unbonded():
            return f"free from epoch {event.until_epoch} on"
        case ev.Redelegated():
            return f"from behind {as_text(Account(event.source))}"
        case ev.CommissionAnnounced():
            return f"{percent_text(event.commission_ppm)} from era {event.era} on"
        case ev.SlashHeld():
            return f"up to {percent_text(event.step.wanted)} of its stake, in era {event.take_era}"
        case ev.SlashTaken():
            return "of all its stake"
        case ev.StakeSlashed(staker=staker) if staker == STAKES:
            return "the pool of all delegators"
        case ev.StakeSlashed() if event.staker != event.validator:
            return f"what {as_text(Account(event.staker))} took out of it before"
        case ev.ProfileSet():
            return name_text(event.name) or "nothing any more"
        case _:
            return None


def _calls(call: Any) -> Iterator[Any]:
    """Yield a call, or the calls of a batch."""
    calls = call.named_arguments.get("calls")
    if isinstance(calls, tuple):
        for inner in calls:
            yield from _calls(inner)
    else:
        yield call


def _signed_row(call_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    validator_id = next((arguments[name] for name in ("target", "validator") if name in arguments), None)
    validator_account = None if validator_id is None else Account(validator_id)
    recipient = Account(arguments["dest"]) if "dest" in arguments else None
    return {
        "what": f"signed {call_name}",
        "is_own": True,
        "behind": validator_account,
        "other_account": recipient or validator_account,
        "amount": Grains(arguments["value"]) if "value" in arguments else None,
        "more": None if recipient is None else f"to {as_text(recipient)}",
    }
