"""Wrong values, in each way in which a value can be told: as it is, in a list of values, and in the proof of it.

Always: each is a possible value, so only a proof tells it from the truth; where a proof is asked for, the proof is the
true one but for that value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from devnet.proofs.liars.certificates import NOT_BELIEVED
from devnet.proofs.liars.holes import with_nodes
from devnet.proofs.liars.lie import TRUTH, Mouth, NodeMessage, Noticed, Program, Replies, lie
from genesis import dev_accounts
from genesis.chain import runtime_for
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from runtime.frame.runtime import Runtime
from runtime.pallets.system import System
from runtime.pallets.transaction_payment import TransactionPayment
from wallet.rpc import RpcJson

WALLET, CUSTOMER, PROVIDER = Program
RUNTIME: Runtime = runtime_for("devnet", is_development=True)
NONE = "0x00"
CLOSED_PORT_ENDPOINT = b"http://127.0.0.1:9"
VICTIM_OF_COPY = "Alice"
POSTED_TOO_MANY = 1_000_000

Change = Callable[[Any], Any]
"""From a true value to the one that is told; None for none."""


def asks_for(message: NodeMessage, item: Any) -> bool:
    """Whether a message is the value of this storage item."""
    return message.method == "state_getStorage" and message.question.params[0].startswith(prefix_of(item))


def prefix_of(item: Any) -> str:
    """What the keys of a storage item begin with, as hexadecimal text."""
    digits: str = RUNTIME.item(item).prefix.hex()
    return "0x" + digits


def encoded(item: Any, value: Any) -> str:
    """A value as a storage item holds it, as hexadecimal digits."""
    digits: str = RUNTIME.item(item).value_codec.encode(value).hex()
    return digits


def changed(item: Any, raw: str | None, change: Change) -> str | None:
    """What is told in place of a stored value."""
    known = RUNTIME.item(item)
    value = change(known.default if raw is None else known.decode(bytes.fromhex(raw[2:])))
    return None if value is None else "0x" + encoded(item, value)


async def told_of(message: NodeMessage, mouth: Mouth, item: Any, change: Change) -> Replies | None:
    """The message with every value of an item changed, whichever way it is told."""
    prefix = prefix_of(item)
    if asks_for(message, item):
        return [message.saying(changed(item, message.value, change))]
    if message.method == "state_queryStorageAt" and message.value is not None:
        pairs = message.value[0]["changes"]
        if any(key.startswith(prefix) for key, _ in pairs):
            told = [[key, changed(item, raw, change) if key.startswith(prefix) else raw] for key, raw in pairs]
            return [message.saying([{**message.value[0], "changes": told}])]
    if message.method == "state_getReadProof" and isinstance(message.value, dict):
        keys, *at = message.question.params
        wanted = [key for key in keys if key.startswith(prefix) and key != prefix]
        if wanted:
            return with_nodes(message, await forged(message.value["proof"], mouth, wanted, at, item, change))
    return TRUTH


async def forged(
    nodes: list[str], mouth: Mouth, keys: list[str], at: list[str], item: Any, change: Change
) -> list[str]:
    """The nodes of a proof with other values in them; a node whose value is denied is left out."""
    for key in keys:
        raw = await mouth.ask("state_getStorage", key, *at)
        if raw is None:  # that there is none is shown by a place in the last node
            nodes = nodes[:-1]
            continue
        told = changed(item, raw, change)
        holds = [node for node in nodes if raw[2:] in node]
        nodes = [node for node in nodes if node not in holds]
        if told is not None:
            nodes += [node.replace(raw[2:], told[2:]) for node in holds]
    return nodes


def lists_keys_of(message: NodeMessage, item: Any) -> bool:
    """Whether a message lists the keys of an item, all or some."""
    return message.method == "state_getKeysPaged" and message.question.params[0].startswith(prefix_of(item))


def answers(message: NodeMessage, function: str, plainly: RpcJson) -> Replies | None:
    """The answer of a runtime API changed, or its proof emptied."""
    if message.question.params and message.question.params[0] == function:
        if message.method == "state_call":
            return [message.saying(plainly)]
        if message.method == "ogpu_callProof" and isinstance(message.value, dict):
            return with_nodes(message, [])
    return TRUTH


@lie(WALLET, CUSTOMER, words=NOT_BELIEVED)
async def rich(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """The account has a thousand times more than it has."""

    def change(info: Any) -> Any:
        return replace(info, data=replace(info.data, free=info.data.free * 1000))

    return await told_of(message, mouth, System.account, change)


@lie(WALLET, CUSTOMER, words=NOT_BELIEVED)
async def poor(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """The account has nothing."""
    return await told_of(message, mouth, System.account, lambda _: None)


@lie(WALLET, CUSTOMER, noticed=Noticed.UNPROVABLE)
def nonce_ahead(message: NodeMessage, _: Mouth) -> Replies | None:
    """Five extrinsics of the account wait in the pool, which it has not sent."""
    return [message.saying(message.value + 5)] if message.method == "system_accountNextIndex" else TRUTH


@lie(WALLET, CUSTOMER, words=NOT_BELIEVED)
def nonce_out_of_reach(message: NodeMessage, _: Mouth) -> Replies | None:
    """A million extrinsics of the account wait in the pool."""
    return [message.saying(message.value + POSTED_TOO_MANY)] if message.method == "system_accountNextIndex" else TRUTH


@lie(WALLET, words=NOT_BELIEVED)
async def fee_of_next_to_nothing(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """A call costs a thousandth, in the proof of what its fee is reckoned from."""
    return await _told_fee(message, mouth, lambda multiplier: multiplier // 1000)


@lie(WALLET, words=NOT_BELIEVED)
async def fee_of_everything(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """A call costs more than most have, in the proof of what its fee is reckoned from."""
    return await _told_fee(message, mouth, lambda multiplier: multiplier * 1_000_000)


async def _told_fee(message: NodeMessage, mouth: Mouth, change: Change) -> Replies | None:
    if message.method != "ogpu_callProof" or message.question.params[0] != "TransactionPaymentApi_query_info":
        return TRUTH
    item, at = TransactionPayment.next_fee_multiplier, list(message.question.params[2:])
    return with_nodes(message, await forged(message.value["proof"], mouth, [prefix_of(item)], at, item, change))


@lie(CUSTOMER, words=NOT_BELIEVED)
async def no_services(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """Nothing is sold."""
    if lists_keys_of(message, InferenceMarket.services):
        return [message.saying([])]
    return await told_of(message, mouth, InferenceMarket.services, lambda _: None)


@lie(CUSTOMER, words=NOT_BELIEVED)
def no_quote(message: NodeMessage, _: Mouth) -> Replies | None:
    """The service has no price."""
    return answers(message, "GpuTasksApi_quote", NONE)


@lie(CUSTOMER, words=NOT_BELIEVED)
def no_readers(message: NodeMessage, _: Mouth) -> Replies | None:
    """Nobody could open an input."""
    return answers(message, "GpuTasksApi_readers", NONE)


@lie(CUSTOMER, words=NOT_BELIEVED)
def no_stores(message: NodeMessage, _: Mouth) -> Replies | None:
    """There is no provider, so there is no store."""
    return [message.saying([])] if lists_keys_of(message, Devices.providers) else TRUTH


@lie(CUSTOMER, words=NOT_BELIEVED)
async def stores_elsewhere(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """All providers answer at an address of the liar's choice, where nobody listens."""

    def change(provider: Any) -> Any:
        return None if provider is None else replace(provider, endpoint=CLOSED_PORT_ENDPOINT)

    return await told_of(message, mouth, Devices.providers, change)


@lie(CUSTOMER, words=NOT_BELIEVED)
async def posted_before(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """The customer has posted a million units more than it has."""
    return await told_of(message, mouth, InferenceMarket.posted, lambda count: count + POSTED_TOO_MANY)


@lie(PROVIDER, words=NOT_BELIEVED)
def no_duties(message: NodeMessage, _: Mouth) -> Replies | None:
    """The provider has nothing to do."""
    return answers(message, "GpuTasksApi_duties", NONE)


@lie(PROVIDER, words=NOT_BELIEVED)
async def duties_of_another(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """The provider has another one's duties, with the right proof of these."""
    function, *more = message.question.params or [""]
    if function != "GpuTasksApi_duties":
        return TRUTH
    other = "0x" + dev_accounts.stash(VICTIM_OF_COPY).hex()
    answer = await mouth.ask(message.method, function, other, *more[1:])
    return TRUTH if _proves_as_much(answer, message.value) else [message.saying(answer)]


def _proves_as_much(answer: RpcJson, truth: RpcJson) -> bool:
    """Whether a proof holds all nodes of the right one: where nobody has duties, one place shows it of all."""
    return (
        isinstance(answer, dict) and isinstance(truth, dict) and set(truth["proof"]) <= set(answer["proof"])
    ) or answer == truth


@lie(PROVIDER, words=NOT_BELIEVED)
def duties_of_before(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """The duties are always those that there were first, with the proof that they had then."""
    function, *_ = message.question.params or [""]
    if function != "GpuTasksApi_duties":
        return TRUTH
    first: RpcJson = mouth.memory.setdefault("duties", message.value)
    return [message.saying(first)]


@lie(PROVIDER, noticed=Noticed.HARMLESS)
def no_devices(message: NodeMessage, _: Mouth) -> Replies | None:
    """The provider has no device: those that it knew are looked up all the same."""
    return answers(message, "GpuTasksApi_devices_of", NONE)


@lie(PROVIDER, words=NOT_BELIEVED)
async def devices_paused(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """Devices stand otherwise than they do, so that they are offered again, and again."""

    def change(device: Any) -> Any:
        return None if device is None else replace(device, is_paused=not device.is_paused)

    return await told_of(message, mouth, Devices.devices, change)


@lie(PROVIDER, words=NOT_BELIEVED)
def units_forgotten(message: NodeMessage, _: Mouth) -> Replies | None:
    """No unit is known, so every race is over."""
    return answers(message, "GpuTasksApi_unit", NONE)


LIES = (
    rich, poor, nonce_ahead, nonce_out_of_reach, fee_of_next_to_nothing, fee_of_everything, no_services, no_quote,
    no_readers, no_stores, stores_elsewhere, posted_before, no_duties, duties_of_another, duties_of_before, no_devices,
    devices_paused, units_forgotten,
)  # fmt: skip
