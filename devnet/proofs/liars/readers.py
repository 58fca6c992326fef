"""Wrong answers to who must be among an input's readers.

A provider declines an input that leaves one of them out, and who declines a good one pays its judges: a lie that was
believed would cost it. Always: the question is answered with a proof, so a wrong value stands in the true proof of it;
no other question is lied about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from devnet.proofs.liars.certificates import NOT_BELIEVED
from devnet.proofs.liars.holes import with_nodes
from devnet.proofs.liars.lie import TRUTH, Mouth, NodeMessage, NodeQuestion, Noticed, Program, Replies, lie, lie_instead
from devnet.proofs.liars.shapes import HUGE_BYTES, ODD_VALUES
from devnet.proofs.liars.values import RUNTIME, forged
from genesis import dev_accounts
from gpu_tasks.market.devices.devices import Devices
from runtime.cryptography.signatures import seal_keypair_from_seed
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.proved.keys import storage_key
from wallet.rpc import RpcJson

PROVIDER: Final = Program.PROVIDER
WHO_MUST_READ: Final = "GpuTasksApi_judging_readers"
JUDGE: Final = dev_accounts.stash("Alice")
STRANGER: Final = b"s" * 32
STRANGERS_SEAL_KEY: Final = seal_keypair_from_seed(STRANGER)[0]
"""No input was ever sealed to it."""


def asks(question: NodeQuestion) -> bool:
    """Whether somebody wants to know who must be among the readers."""
    return bool(question.params) and question.params[0] == WHO_MUST_READ


async def _forged(
    message: NodeMessage, mouth: Mouth, item: Any, keys: tuple[bytes, ...], change: Callable[[Any], Any]
) -> Replies | None:
    if not asks(message.question) or not isinstance(message.value, dict):
        return TRUTH
    key, at = "0x" + storage_key(RUNTIME.item(item), keys).hex(), list(message.question.params[2:])
    return with_nodes(message, await forged(message.value["proof"], mouth, [key], at, item, change))


@lie(PROVIDER, words=NOT_BELIEVED)
async def judge_with_another_key(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """A judge has had a key from block 0 on to which no input was sealed."""

    def change(provider: Any) -> Any:
        return replace(provider, seal_key=STRANGERS_SEAL_KEY, key_since=0)

    return await _forged(message, mouth, Devices.providers, (JUDGE,), change)


@lie(PROVIDER, words=NOT_BELIEVED)
async def judge_added(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """A stranger is in office, so inputs should have been sealed to it."""

    def change(seats: Any) -> Any:
        return (*seats, replace(seats[-1], stash=STRANGER))

    return await _forged(message, mouth, TrustStake.seats, (), change)


@lie(PROVIDER, words=NOT_BELIEVED)
async def judge_left_out(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """One who is in office is not, so an input that leaves it out is as good as another."""
    return await _forged(message, mouth, TrustStake.seats, (), lambda seats: seats[1:])


@lie(PROVIDER, words=NOT_BELIEVED)
def judges_of_before(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """Those who must read are always those who had to first, with the proof that it had then."""
    if not asks(message.question):
        return TRUTH
    first: RpcJson = mouth.memory.setdefault("judges", message.value)
    return TRUTH if first is message.value else [message.saying(first)]


@lie(PROVIDER, words=(*NOT_BELIEVED, "makes no sense", "refused"))
def judges_of_odd_types(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """Those who must read are numbers, texts and lists of nothing."""
    if not asks(message.question):
        return TRUTH
    mouth.memory["odd judges"] = number = mouth.memory.get("odd judges", -1) + 1
    return [message.saying(ODD_VALUES[number % len(ODD_VALUES)])]


@lie(PROVIDER, words=("broke", "closed", "away"))
def judges_without_end(message: NodeMessage, _: Mouth) -> Replies | None:
    """Those who must read are more than a program listens to."""
    return [b'{"id":1,"result":"' + b"a" * HUGE_BYTES + b'"}'] if asks(message.question) else TRUTH


@lie_instead(PROVIDER, noticed=Noticed.HARMLESS)
def judges_untold(question: NodeQuestion, _: Mouth) -> Replies | None:
    """Nobody is told who must read: whoever cannot know waits, and declines nothing."""
    return [] if asks(question) else TRUTH


LIES = (
    judge_with_another_key, judge_added, judge_left_out, judges_of_before, judges_of_odd_types, judges_without_end,
    judges_untold,
)  # fmt: skip
