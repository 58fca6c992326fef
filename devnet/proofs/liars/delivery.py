"""True answers, badly delivered: dropped, doubled, out of order, late, never, to somebody else, cut off."""

from __future__ import annotations

from devnet.proofs.liars.lie import TRUTH, Mouth, NodeMessage, Noticed, Program, Replies, lie, pause

WALLET, CUSTOMER, PROVIDER = Program
SLOW_SECONDS = 0.3
OUT_OF_ORDER_SECONDS = 0.4
SILENT_SECONDS = 5.0
DROPPED_EVERY = 4
ANSWERS_BEFORE_THE_CUT = 6


def _count(mouth: Mouth) -> int:
    """How many messages there were on this connection, this one too."""
    mouth.memory["messages"] = number = mouth.memory.get("messages", 0) + 1
    return int(number)


@lie(WALLET, CUSTOMER, words=("did not answer",))
def mute(_message: NodeMessage, _: Mouth) -> Replies | None:
    """Nothing is ever answered."""
    return []


@lie(WALLET, CUSTOMER, words=("did not answer", "said nothing of the extrinsic"))
def drops_some(_: NodeMessage, mouth: Mouth) -> Replies | None:
    """One message of four is lost."""
    return TRUTH if _count(mouth) % DROPPED_EVERY else []


@lie(PROVIDER, noticed=Noticed.HARMLESS, seconds=SILENT_SECONDS)
def falls_silent(_message: NodeMessage, _: Mouth) -> Replies | None:
    """Nothing is answered for half of a reveal's window: whoever asks again soon enough misses nothing."""
    return []


@lie(*Program, noticed=Noticed.HARMLESS)
def doubled(message: NodeMessage, _: Mouth) -> Replies | None:
    """Everything arrives twice."""
    return [message.content, message.content]


@lie(*Program, noticed=Noticed.HARMLESS)
def out_of_order(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """Every second message is overtaken by those after it."""
    if _count(mouth) % 2:
        return TRUTH
    mouth.say(message.content, OUT_OF_ORDER_SECONDS)
    return []


@lie(*Program, noticed=Noticed.HARMLESS)
async def slow(message: NodeMessage, _: Mouth) -> Replies | None:
    """Each message takes its time."""
    await pause(SLOW_SECONDS)
    return [message.content]


@lie(WALLET, CUSTOMER, words=("did not answer",))
def to_somebody_else(message: NodeMessage, _: Mouth) -> Replies | None:
    """Answers name a question that was not asked."""
    return TRUTH if message.is_item else [{**message.content, "id": -1}]


@lie(WALLET, CUSTOMER, words=("broke", "closed"))
def cut_off(_: NodeMessage, mouth: Mouth) -> Replies | None:
    """The connection breaks after some answers."""
    if _count(mouth) > ANSWERS_BEFORE_THE_CUT:
        mouth.hang_up()
        return []
    return TRUTH


@lie(PROVIDER, words=("the node is away", "away"))
def cut_off_again_and_again(_: NodeMessage, mouth: Mouth) -> Replies | None:
    """The connection breaks, each time anew."""
    if _count(mouth) > ANSWERS_BEFORE_THE_CUT:
        mouth.hang_up()
        return []
    return TRUTH


LIES = (mute, drops_some, falls_silent, doubled, out_of_order, slow, to_somebody_else, cut_off, cut_off_again_and_again)
