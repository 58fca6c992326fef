"""Wrong chains, wrong rules, and heads that stand still, go back, or have no number."""

from __future__ import annotations

from devnet.proofs.liars.lie import TRUTH, Mouth, NodeMessage, Noticed, Program, Replies, lie

WALLET, CUSTOMER, PROVIDER = Program
FOREIGN = "0x" + "ab" * 32
STALE_BLOCKS = 30
FUTURE_BLOCKS = 1_000_000
CLEARS_THE_SCREEN = "\x1b[2J\x07"


def _with_foreign_genesis(message: NodeMessage) -> Replies | None:
    is_genesis = message.method == "chain_getBlockHash" and list(message.question.params) == [0]
    return [message.saying(FOREIGN)] if is_genesis else TRUTH


@lie(WALLET, CUSTOMER, words=("do not believe",))
def foreign_genesis(message: NodeMessage, _: Mouth) -> Replies | None:
    """Block 0 is another chain's."""
    return _with_foreign_genesis(message)


@lie(PROVIDER, words=("another chain", "do not believe"), is_met_anew=True)
def changed_genesis(message: NodeMessage, _: Mouth) -> Replies | None:
    """The node went away, and names another block 0 when it comes back."""
    return _with_foreign_genesis(message)


@lie(WALLET, CUSTOMER, words=("install the release",))
def other_rules(message: NodeMessage, _: Mouth) -> Replies | None:
    """The chain runs the next version of its rules."""
    if message.method != "state_getRuntimeVersion":
        return TRUTH
    return [message.saying({**message.value, "specVersion": message.value["specVersion"] + 1})]


@lie(WALLET, CUSTOMER, words=("does not answer as a node of this chain does",))
def no_parameters(message: NodeMessage, _: Mouth) -> Replies | None:
    """The chain has no parameters."""
    return [message.saying({})] if message.method == "ogpu_parameters" else TRUTH


@lie(WALLET, CUSTOMER, noticed=Noticed.HARMLESS)
def shouted_name(message: NodeMessage, _: Mouth) -> Replies | None:
    """The chain's name clears the screen of whoever prints it."""
    return [message.saying(CLEARS_THE_SCREEN + "mainnet")] if message.method == "system_chain" else TRUTH


@lie(PROVIDER, noticed=Noticed.HARMLESS)
def head_stands_still(message: NodeMessage, _: Mouth) -> Replies | None:
    """No new block is told of."""
    return [] if message.is_item and message.method == "chain_subscribeFinalizedHeads" else TRUTH


@lie(PROVIDER, noticed=Noticed.HARMLESS)
def heads_go_back(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """Each new block is one lower than the one before."""
    if not (message.is_item and message.method == "chain_subscribeFinalizedHeads"):
        return TRUTH
    height = mouth.memory.get("height", int(message.value["number"], 16)) - 1
    mouth.memory["height"] = height
    return [message.saying({**message.value, "number": hex(max(0, height))})]


@lie(PROVIDER, noticed=Noticed.HARMLESS)
def heads_without_number(message: NodeMessage, _: Mouth) -> Replies | None:
    """New blocks have no height."""
    if not (message.is_item and message.method == "chain_subscribeFinalizedHeads"):
        return TRUTH
    return [message.saying({"number": None})]


LIES = (
    foreign_genesis, changed_genesis, other_rules, no_parameters, shouted_name, head_stands_still, heads_go_back,
    heads_without_number,
)  # fmt: skip
