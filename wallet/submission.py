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
from wallet.rpc import NodeUnreachableError, RpcError
from wallet.sent_notes import SentNotes

ALREADY_IMPORTED = 1013
POLL_SECONDS = 1.0

Tell = Callable[[str], None]


class UnsettledError(WalletError):
    """A signed extrinsic may be on its way; its fate is not known."""


async def send_once(
    client: ChainClient, call: Call, key: Keypair, notes: SentNotes, tell: Tell, *, tip: int = 0
) -> Outcome:
    """Sign a call, note it, send it, and wait until it is final; or finish the same call of an earlier try.

    `tell` receives a message about an earlier try. Raise UnsettledError if the connection ends before the fate is
    known, and RpcError and NotIncludedError as `ChainClient.send` does. After all three the same call is safe to
    repeat.
    """
    encoded = client.runtime.call_codec.encode(call)
    # Earlier tries first: a second extrinsic for the same call could execute it twice.
    for earlier in notes.unsettled(key.account):
        outcome = await _finish(client, earlier, notes, tell, is_wanted=earlier.call == encoded)
        if outcome is not None:
            return outcome
    prepared = await client.prepare(call, key, tip=tip)
    with notes.noted(prepared):
        outcome = await _hand_in(client, prepared)
    notes.forget(prepared)
    return outcome


async def _finish(
    client: ChainClient, earlier: Prepared, notes: SentNotes, tell: Tell, *, is_wanted: bool
) -> Outcome | None:
    """Return the outcome of an earlier try; None if it can have none any more, or if it is another call's."""
    name = f"0x{earlier.hash.hex()}"
    final = await client.finalized()
    height = await client.height(final)
    account: AccountInfo = await client.read(System.account, earlier.signer, at=final)
    # After the nonce is used or the era is over, no block can still include it.
    is_over = account.nonce > earlier.nonce or height >= earlier.dies
    lived = await _lived(client, earlier, height) if is_over else []
    is_bound = lived[:1] == [earlier.birth]  # eras repeat, and the heights in a note come from a node
    if not is_wanted:
        if is_bound:
            notes.forget(earlier)
        return None
    if is_over and not is_bound:
        raise UnsettledError(
            f"the extrinsic {name} of an earlier try is bound to a block that is not at height {earlier.born}: the "
            "earlier node or this one misstates heights. It may be in a block, so it is not sent again. Find it, or "
            f"remove {notes.path_of(earlier)} to make the call once more",
            code="other_heights",
        )
    if is_over:
        # Not the birth block: the signature covers its hash, so only later blocks can hold the extrinsic.
        block = await block_with(client, lived[1:], earlier.extrinsic)
        if block is None:
            notes.forget(earlier)
            return None
        tell(f"this very call was sent before, as {name}: it is in a block, and is not sent again")
        outcome = await _outcome_of(client, block, earlier, notes.path_of(earlier))
        notes.forget(earlier)
        return outcome
    tell(f"this very call was signed before, as {name}: that one is sent again, no second one")
    with notes.noted(earlier):
        outcome = await _hand_in(client, earlier)
    notes.forget(earlier)
    return outcome


async def _lived(client: ChainClient, prepared: Prepared, height: int) -> list[bytes]:
    """Return the final blocks from the extrinsic's birth block to the last that could hold it."""
    if prepared.born > height:
        return []
    return await client.final_ids(prepared.born, min(height, prepared.dies - 1))


async def block_with(client: ChainClient, blocks: Sequence[bytes], extrinsic: bytes) -> bytes | None:
    """Return the one of these blocks that holds an extrinsic."""
    for block in blocks:
        if extrinsic in (await client.block(block)).extrinsics:
            return block
    return None


async def _outcome_of(client: ChainClient, block: bytes, earlier: Prepared, note: Path) -> Outcome:
    """Return the outcome of an earlier try's extrinsic. Raise UnsettledError if its block's events are gone."""
    try:
        return await client.outcome(block, earlier.hash)
    except RpcError as error:
        raise UnsettledError(
            f"the extrinsic 0x{earlier.hash.hex()} of an earlier try is in the final block 0x{block.hex()}, but the "
            f"node has dropped its effects ({error}). It is not sent again. Ask another node, or remove {note} to make "
            "the call once more",
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
        final = await client.finalized()
        height = await client.height(final)
        account: AccountInfo = await client.read(System.account, prepared.signer, at=final)
        if account.nonce > prepared.nonce or height >= prepared.dies:
            block = await block_with(client, (await _lived(client, prepared, height))[1:], prepared.extrinsic)
            if block is None:
                raise NotIncludedError(
                    f"the extrinsic 0x{prepared.hash.hex()} is in no block, and has expired", code="expired"
                )
            return await client.outcome(block, prepared.hash)
        await asyncio.sleep(POLL_SECONDS)


def _unsettled(prepared: Prepared, error: BaseException) -> UnsettledError:
    return UnsettledError(
        f"{str(error) or 'no final block holds it yet'}. The extrinsic 0x{prepared.hash.hex()} (nonce "
        f"{prepared.nonce}, valid before block {prepared.dies}) may have been sent. Run the same command "
        "again: it finds this extrinsic, and sends no second one"
    )


def inner_failure(runtime: Runtime, events: Iterable[Any]) -> str | None:
    """Return the failure of a call inside a successful call, Root's or a batch's; None if none failed."""
    for happened in events:
        if isinstance(happened, Sudid) and happened.sudo_result is not None:
            return f"Root's call failed: {describe_error(runtime, happened.sudo_result)}"
        if isinstance(happened, BatchInterrupted):
            told = describe_error(runtime, happened.error)
            return f"call {happened.index + 1} of the batch failed, and the calls before it succeeded: {told}"
    return None
