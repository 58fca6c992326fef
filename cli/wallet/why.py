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
    wanted_hash = _hash(transaction)
    found = await _find(client, wanted_hash, blocks)
    if found is None:
        if wanted_hash in await client.pending():
            session.output.facts({"extrinsic": wanted_hash, "status": "waiting in the pool"})
            return
        raise WalletError(
            f"the extrinsic {transaction} is neither in the last {blocks} blocks nor in the pool. Search more with "
            "--blocks, or check that it was sent",
            code="extrinsic_not_found",
        )
    block_hash, height, extrinsic_bytes = found
    is_final = height <= await client.height(await client.finalized())
    # Only final blocks can be proved.
    outcome = await (client if is_final else client.unverified()).outcome(block_hash, wanted_hash)
    session.output.facts(_facts(client, outcome, extrinsic_bytes, is_final=is_final))


async def _find(client: ChainClient, wanted_hash: bytes, blocks: int) -> tuple[bytes, int, bytes] | None:
    """Return id and height of the extrinsic's block, and the extrinsic's bytes, by the node's word."""
    block_hash = await client.block_id()
    for _ in range(blocks):
        block = await client.block_if_known(block_hash)
        if block is None:
            return None
        for extrinsic in block.extrinsics:
            if blake2_256(extrinsic) == wanted_hash:
                return block_hash, block.height, extrinsic
        if block.height == 0:
            return None
        block_hash = block.parent
    return None


def _facts(client: ChainClient, outcome: Outcome, extrinsic_bytes: bytes, *, is_final: bool) -> dict[str, Any]:
    try:
        extrinsic = decode_extrinsic(client.runtime, extrinsic_bytes)
    except DecodeError as error:
        raise WalletError(
            f"the extrinsic is in a block, and this program cannot read it: {error}", code="extrinsic_unreadable"
        ) from None
    authorization = extrinsic.authorization
    return {
        "extrinsic": outcome.extrinsic_hash,
        "call": _call(extrinsic.call),
        "signer": None if authorization is None else Account(authorization.signer),
        "nonce": None if authorization is None else authorization.extra.nonce,
        "block": outcome.block_number,
        "status": "final" if is_final else "accepted",
        "success": outcome.is_success,
        "why": outcome.error,
        "fee": Grains(outcome.fee),
        "events": "\n".join(_event(event) for event in outcome.events),
    }


def _call(call: Call) -> str:
    part_texts = (f"{name}={_short(value)}" for name, value in call.named_arguments.items())
    return f"{call.name}({', '.join(part_texts)})"


def _event(event: Any) -> str:
    part_texts = (
        f"{field.name.rstrip('_')}={_short(getattr(event, field.name))}" for field in dataclasses.fields(event)
    )
    return f"{type(event).__name__}({', '.join(part_texts)})"


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
    typed_hash = hash_typed(text)
    if typed_hash is None:
        raise WalletError(f"{text!r} is not an extrinsic's hash. Write 0x and 64 hex digits", code="not_a_hash")
    return typed_hash
