"""Forged statuses: what became of an extrinsic, told by somebody who would like it sent, or paid, twice."""

from __future__ import annotations

from typing import Any

from devnet.proofs.liars.heads import CLEARS_THE_SCREEN
from devnet.proofs.liars.lie import TRUTH, Mouth, NodeMessage, NodeQuestion, Noticed, Program, Replies, lie, lie_instead
from devnet.proofs.liars.values import asks_for, encoded
from runtime.pallets.system import System

WALLET, CUSTOMER, PROVIDER = Program
WATCHING = "author_submitAndWatchExtrinsic"
SUBMITTING = "author_submitExtrinsic"
KEY = "liar"
INVALID = {"code": 1010, "message": "Invalid Transaction", "data": "the signature does not fit"}


def _update(question: NodeQuestion, status: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": question.method, "params": {"subscription": KEY, "result": status}}


def _taken(question: NodeQuestion) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": question.number, "result": KEY}


@lie_instead(WALLET, CUSTOMER, words=("said nothing of the extrinsic",))
def swallowed(question: NodeQuestion, _: Mouth) -> Replies | None:
    """The extrinsic is taken and thrown away."""
    return [_taken(question)] if question.method == WATCHING else TRUTH


@lie_instead(WALLET, CUSTOMER, words=("do not believe",))
async def forged_final(question: NodeQuestion, mouth: Mouth) -> Replies | None:
    """The extrinsic is final in a block that does not hold it."""
    if question.method != WATCHING:
        return TRUTH
    block = await mouth.ask("chain_getFinalizedHead")
    return [_taken(question), _update(question, {"finalized": block})]


@lie_instead(WALLET, CUSTOMER, words=("do not believe",))
async def forged_block(question: NodeQuestion, mouth: Mouth) -> Replies | None:
    """The extrinsic is final in a block that is made up around it, events and all."""
    if question.method == WATCHING:
        block = mouth.memory["block"] = await mouth.ask("chain_getFinalizedHead")
        mouth.memory["extrinsic"] = question.params[0]
        return [_taken(question), _update(question, {"finalized": block})]
    if "extrinsic" not in mouth.memory:
        return TRUTH
    if question.method == "chain_getBlock":
        true = await mouth.ask("chain_getBlock", mouth.memory["block"])
        true["block"]["extrinsics"] = [mouth.memory["extrinsic"]]
        return [{"jsonrpc": "2.0", "id": question.number, "result": true}]
    if asks_for(NodeMessage(question, {}, is_item=False), System.event_records):
        nothing = encoded(System.event_records, ())
        return [{"jsonrpc": "2.0", "id": question.number, "result": "0x" + nothing}]
    return TRUTH


@lie(WALLET, CUSTOMER, noticed=Noticed.UNPROVABLE)
def called_invalid(message: NodeMessage, _: Mouth) -> Replies | None:
    """The extrinsic, which the node took, is invalid."""
    return [message.saying("invalid")] if message.is_item and message.method == WATCHING else TRUTH


@lie(WALLET, CUSTOMER, noticed=Noticed.UNPROVABLE)
def called_dropped(message: NodeMessage, _: Mouth) -> Replies | None:
    """The extrinsic, which the node keeps, was dropped."""
    return [message.saying("dropped")] if message.is_item and message.method == WATCHING else TRUTH


@lie(WALLET, CUSTOMER, noticed=Noticed.UNPROVABLE)
def called_refused(message: NodeMessage, _: Mouth) -> Replies | None:
    """The extrinsic, which the node took, was refused."""
    return [message.failing(INVALID)] if message.method == WATCHING and not message.is_item else TRUTH


@lie(WALLET, CUSTOMER, words=("said nothing of the extrinsic",))
def never_final(message: NodeMessage, _: Mouth) -> Replies | None:
    """The extrinsic is in a block, and nothing is ever told of it again."""
    is_end = message.is_item and message.method == WATCHING and "finalized" in message.value
    return [] if is_end else TRUTH


@lie(WALLET, CUSTOMER, words=("makes no sense",))
def final_nowhere(message: NodeMessage, _: Mouth) -> Replies | None:
    """The extrinsic is final in a block without a name."""
    is_end = message.is_item and message.method == WATCHING and "finalized" in message.value
    return [message.saying({"finalized": None})] if is_end else TRUTH


@lie(WALLET, CUSTOMER, words=("the connection to", "the end of it"))
def lost_after_sending(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """The connection breaks right after the extrinsic was taken."""
    if message.method != WATCHING:
        return TRUTH
    mouth.hang_up()
    return []


@lie_instead(PROVIDER, noticed=Noticed.HARMLESS)
def duties_swallowed(question: NodeQuestion, _: Mouth) -> Replies | None:
    """A provider's calls are taken and thrown away."""
    if question.method != SUBMITTING:
        return TRUTH
    return [{"jsonrpc": "2.0", "id": question.number, "result": "0x" + "00" * 32}]


@lie(PROVIDER, noticed=Noticed.HARMLESS)
def duties_refused(message: NodeMessage, _: Mouth) -> Replies | None:
    """A provider's calls, which the node took, were refused, in words that clear the screen."""
    if message.method != SUBMITTING:
        return TRUTH
    return [message.failing({"code": 1010, "message": CLEARS_THE_SCREEN + "Invalid Transaction"})]


LIES = (
    swallowed, forged_final, forged_block, called_invalid, called_dropped, called_refused, never_final, final_nowhere,
    lost_after_sending, duties_swallowed, duties_refused,
)  # fmt: skip
