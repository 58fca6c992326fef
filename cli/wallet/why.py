"""`why`: the outcome of an extrinsic, and the reason of a failure."""

from __future__ import annotations

import dataclasses
from enum import IntEnum
from typing import Any

from cli.output import Account
from cli.session import WalletSession, reads
from runtime.blocks.extrinsic import decode_extrinsic
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError
from runtime.frame.call import Call
from wallet.amounts import Grains
from wallet.client import ChainClient, Outcome
from wallet.errors import WalletError
from wallet.trust import hash_typed


@reads
async def why(session: WalletSession, client: ChainClient, transaction: str, blocks: int) -> None:
    """Print the outcome of an extrinsic."""
    wanted = _hash(transaction)
    found = await _find(client, wanted, blocks)
    if found is None:
        if wanted in await client.pending():
            session.output.facts({"extrinsic": wanted, "status": "waiting in the pool"})
            return
        raise WalletError(
            f"the extrinsic {transaction} is neither in the last {blocks} blocks nor in the pool. Search more with "
            "--blocks, or check that it was sent",
            code="extrinsic_not_found",
        )
    block, height, raw = found
    is_final = height <= await client.height(await client.finalized())
    outcome = await (client if is_final else client.unverified()).outcome(block, wanted)
    session.output.facts(_facts(client, outcome, raw, is_final=is_final))


async def _find(client: ChainClient, wanted: bytes, blocks: int) -> tuple[bytes, int, bytes] | None:
    """Return id and height of the extrinsic's block, and the extrinsic's bytes, by the node's word."""
    at = await client.block_id()
    for _ in range(blocks):
        block = await client.block_if_known(at)
        if block is None:
            return None
        for extrinsic in block.extrinsics:
            if blake2_256(extrinsic) == wanted:
                return at, block.height, extrinsic
        if block.height == 0:
            return None
        at = block.parent
    return None


def _facts(client: ChainClient, outcome: Outcome, raw: bytes, *, is_final: bool) -> dict[str, Any]:
    try:
        extrinsic = decode_extrinsic(client.runtime, raw)
    except DecodeError as error:
        raise WalletError(
            f"the extrinsic is in a block, and this program cannot read it: {error}", code="extrinsic_unreadable"
        ) from None
    who = extrinsic.authorization
    return {
        "extrinsic": outcome.extrinsic_hash,
        "call": _call(extrinsic.call),
        "signer": None if who is None else Account(who.signer),
        "nonce": None if who is None else who.extra.nonce,
        "block": outcome.block_number,
        "status": "final" if is_final else "accepted",
        "success": outcome.is_success,
        "why": outcome.error,
        "fee": Grains(outcome.fee),
        "events": "\n".join(_event(event) for event in outcome.events),
    }


def _call(call: Call) -> str:
    parts = (f"{name}={_short(value)}" for name, value in call.named_arguments.items())
    return f"{call.name}({', '.join(parts)})"


def _event(event: Any) -> str:
    parts = (f"{field.name.rstrip('_')}={_short(getattr(event, field.name))}" for field in dataclasses.fields(event))
    return f"{type(event).__name__}({', '.join(parts)})"


def _short(value: Any) -> str:
    """Return a value as people write it, with structures of calls and events."""
    match value:
        case bytes():
            return "0x" + value.hex()
        case Call():
            return _call(value)
        case IntEnum():
            return value.name
        case tuple():
            return f"[{', '.join(_short(item) for item in value)}]"
        case _ if dataclasses.is_dataclass(value):
            return _event(value)
        case _:
            return str(value)


def _hash(text: str) -> bytes:
    value = hash_typed(text)
    if value is None:
        raise WalletError(f"{text!r} is not an extrinsic's hash. Write 0x and 64 hex digits", code="not_a_hash")
    return value
