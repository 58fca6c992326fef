"""Sending a call once: a signed call is noted first, and a second try finishes the first one instead of repeating it.

Invariant: at most one extrinsic of an account for a call is alive. A note is deleted only when the final chain shows
that its extrinsic is in a block, or never can be. A node's other statements, such as `invalid`, do not count. The final
chain is as reliable as the client's reads: a `VerifiedClient` proves the nonce, and reads the extrinsics of headers
below a certified one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from runtime.frame.call import Call
from runtime.frame.runtime import Runtime
from runtime.pallets.sudo import Sudid
from runtime.pallets.system import AccountInfo, System
from runtime.pallets.utility import BatchInterrupted
from wallet.client import NEXT_STATUS_SECONDS, ChainClient, NotIncludedError, Outcome, Prepared, describe_error
from wallet.errors import WalletError
from wallet.keypair import Keypair
from wallet.outbox import SentNotes
from wallet.rpc import NodeUnreachableError, RpcError

ALREADY_IMPORTED = 1013
POLL_SECONDS = 1.0

Tell = Callable[[str], None]


class UnsettledError(WalletError):
    """A signed extrinsic may be on its way; its fate is not known."""


async def send_once(
    client: ChainClient, call: Call, key: Keypair, notes: SentNotes, report: Tell, *, tip: int = 0
) -> Outcome:
    """Sign a call, note it, send it, and wait until it is final; or finish the same call of an earlier try.

    `report` receives a message about an earlier try. Raise UnsettledError if the connection ends before the fate is
    known, and RpcError and NotIncludedError as `ChainClient.send` does. After all three the same call is safe to
    repeat.
    """
    encoded = client.runtime.call_codec.encode(call)
    # Earlier tries first: a second extrinsic for the same call could execute it twice.
    for earlier_extrinsic in notes.unsettled(key.account):
        outcome = await _finish(client, earlier_extrinsic, notes, report, is_wanted=earlier_extrinsic.call == encoded)
        if outcome is not None:
            return outcome
    prepared = await client.prepare(call, key, tip=tip)
    with notes.noted(prepared):
        outcome = await _hand_in(client, prepared)
        notes.forget(prepared)
    return outcome


async def _finish(
    client: ChainClient, earlier_extrinsic: Prepared, notes: SentNotes, report: Tell, *, is_wanted: bool
) -> Outcome | None:
    """Return the outcome of an earlier try; None if it can have none any more, or if it is another call's."""
    extrinsic_text = f"0x{earlier_extrinsic.hash.hex()}"
    final_block = await client.finalized()
    final_height = await client.height(final_block)
    account_info: AccountInfo = await client.read(System.account, earlier_extrinsic.signer, at=final_block)
    # After the nonce is used or the era is over, no block can still include it.
    is_over = account_info.nonce > earlier_extrinsic.nonce or final_height >= earlier_extrinsic.dies
    live_blocks = await _lived(client, earlier_extrinsic, final_height) if is_over else []
    is_bound = live_blocks[:1] == [earlier_extrinsic.birth]  # eras repeat, and the heights in a note come from a node
    if not is_wanted:
        if is_bound:
            notes.forget(earlier_extrinsic)
        return None
    if is_over and not is_bound:
        raise UnsettledError(
            f"the extrinsic {extrinsic_text} of an earlier try is bound to a block that is not at height "
            f"{earlier_extrinsic.born}: the "
            "earlier node or this one misstates heights. It may be in a block, so it is not sent again. Find it, or "
            f"move {notes.path} away to make the call once more",
            code="other_heights",
        )
    if is_over:
        # Not the birth block: the signature covers its hash, so only later blocks can hold the extrinsic.
        containing_block = await block_with(client, live_blocks[1:], earlier_extrinsic.extrinsic)
        if containing_block is None:
            notes.forget(earlier_extrinsic)
            return None
        report(f"this very call was sent before, as {extrinsic_text}: it is in a block, and is not sent again")
        outcome = await _outcome_of(client, containing_block, earlier_extrinsic, notes.path)
        notes.forget(earlier_extrinsic)
        return outcome
    report(f"this very call was signed before, as {extrinsic_text}: that one is sent again, no second one")
    with notes.noted(earlier_extrinsic):
        outcome = await _hand_in(client, earlier_extrinsic)
        notes.forget(earlier_extrinsic)
    return outcome


async def _lived(client: ChainClient, prepared: Prepared, final_height: int) -> list[bytes]:
    """Return the final blocks from the extrinsic's birth block to the last that could hold it."""
    if prepared.born > final_height:
        return []
    return await client.final_ids(prepared.born, min(final_height, prepared.dies - 1))


async def block_with(client: ChainClient, block_hashes: Sequence[bytes], extrinsic: bytes) -> bytes | None:
    """Return the one of these blocks that holds an extrinsic."""
    for block_hash in block_hashes:
        if extrinsic in (await client.block(block_hash)).extrinsics:
            return block_hash
    return None


async def _outcome_of(client: ChainClient, block_hash: bytes, earlier_extrinsic: Prepared, note_path: Path) -> Outcome:
    """Return the outcome of an earlier try's extrinsic. Raise UnsettledError if its block's events are gone."""
    try:
        return await client.outcome(block_hash, earlier_extrinsic.hash)
    except RpcError as error:
        raise UnsettledError(
            f"the extrinsic 0x{earlier_extrinsic.hash.hex()} of an earlier try is in the final block "
            f"0x{block_hash.hex()}, but the "
            f"node has dropped its effects ({error}). It is not sent again. Ask another node, or move {note_path} away "
            "to make the call once more",
            code="outcome_dropped",
        ) from error


async def _hand_in(client: ChainClient, prepared: Prepared) -> Outcome:
    try:
        return await client.send(prepared.extrinsic)
    except RpcError as error:
        # The node has it already, as from an earlier try: its fate shows on the final chain.
        if error.code != ALREADY_IMPORTED:
            raise
    except NodeUnreachableError as error:
        raise _unsettled(prepared, error) from error
    try:
        async with asyncio.timeout(NEXT_STATUS_SECONDS):
            return await _included(client, prepared)
    except (NodeUnreachableError, TimeoutError) as error:
        raise _unsettled(prepared, error) from error


async def _included(client: ChainClient, prepared: Prepared) -> Outcome:
    """Poll the final chain until it holds an extrinsic that the node already has and reports to no second watcher."""
    while True:
        final_block = await client.finalized()
        final_height = await client.height(final_block)
        account_info: AccountInfo = await client.read(System.account, prepared.signer, at=final_block)
        if account_info.nonce > prepared.nonce or final_height >= prepared.dies:
            containing_block = await block_with(
                client, (await _lived(client, prepared, final_height))[1:], prepared.extrinsic
            )
            if containing_block is None:
                raise NotIncludedError(
                    f"the extrinsic 0x{prepared.hash.hex()} is in no block, and has expired", code="expired"
                )
            return await client.outcome(containing_block, prepared.hash)
        await asyncio.sleep(POLL_SECONDS)


def _unsettled(prepared: Prepared, error: BaseException) -> UnsettledError:
    return UnsettledError(
        f"{str(error) or 'no final block holds it yet'}. The extrinsic 0x{prepared.hash.hex()} (nonce "
        f"{prepared.nonce}, valid before block {prepared.dies}) may have been sent. Run the same command "
        "again: it finds this extrinsic, and sends no second one"
    )


def inner_failure(runtime: Runtime, events: Iterable[Any]) -> str | None:
    """Return the failure of a call inside a successful call, Root's or a batch's; None if none failed."""
    # Root's calls and batches succeed on the chain even if a call inside them fails.
    for chain_event in events:
        if isinstance(chain_event, Sudid) and chain_event.sudo_result is not None:
            return f"Root's call failed: {describe_error(runtime, chain_event.sudo_result)}"
        if isinstance(chain_event, BatchInterrupted):
            failure_text = describe_error(runtime, chain_event.error)
            return (
                f"call {chain_event.index + 1} of the batch failed, and the calls before it succeeded: {failure_text}"
            )
    return None
