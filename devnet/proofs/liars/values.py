"""Wrong values: each is a possible one, so only a proof tells it from the truth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from devnet.proofs.liars.lie import TRUTH, Mouth, NodeMessage, Noticed, Program, Replies, lie
from genesis import dev_accounts
from genesis.chain import runtime_for
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from runtime.frame.runtime import Runtime
from runtime.pallets.system import System
from wallet.rpc import RpcJson

WALLET, CUSTOMER, PROVIDER = Program
RUNTIME: Runtime = runtime_for("devnet", is_development=True)
EMPTY_LIST = NONE = "0x00"
CLOSED_PORT_ENDPOINT = b"http://127.0.0.1:9"
VICTIM_OF_COPY = "Alice"
POSTED_TOO_MANY = 1_000_000


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


def calls_api(message: NodeMessage, function: str) -> bool:
    """Whether a message is the answer of this runtime API."""
    return message.method == "state_call" and message.question.params[0] == function


@lie(WALLET, CUSTOMER, noticed=Noticed.BY_PROOF)
def rich(message: NodeMessage, _: Mouth) -> Replies | None:
    """The account has a thousand times more than it has."""
    if not asks_for(message, System.account) or message.value is None:
        return TRUTH
    info = RUNTIME.item(System.account).decode(bytes.fromhex(message.value[2:]))
    rich_data = replace(info.data, free=info.data.free * 1000)
    return [message.saying("0x" + encoded(System.account, replace(info, data=rich_data)))]


@lie(WALLET, CUSTOMER, noticed=Noticed.BY_PROOF)
def poor(message: NodeMessage, _: Mouth) -> Replies | None:
    """The account has nothing."""
    return [message.saying(None)] if asks_for(message, System.account) else TRUTH


@lie(WALLET, CUSTOMER, noticed=Noticed.BY_PROOF)
def nonce_ahead(message: NodeMessage, _: Mouth) -> Replies | None:
    """The account has sent five extrinsics that it has not sent."""
    return [message.saying(message.value + 5)] if message.method == "system_accountNextIndex" else TRUTH


@lie(WALLET, noticed=Noticed.BY_PROOF)
def fee_of_a_grain(message: NodeMessage, _: Mouth) -> Replies | None:
    """A call costs one grain."""
    if message.method != "payment_queryInfo":
        return TRUTH
    return [message.saying({**message.value, "partialFee": "1"})]


@lie(WALLET, words=("makes no sense",))
def fee_of_everything(message: NodeMessage, _: Mouth) -> Replies | None:
    """A call costs more than there is."""
    if message.method != "payment_queryInfo":
        return TRUTH
    return [message.saying({**message.value, "partialFee": str(10**30)})]


@lie(CUSTOMER, noticed=Noticed.BY_PROOF)
def no_services(message: NodeMessage, _: Mouth) -> Replies | None:
    """Nothing is sold."""
    return [message.saying(EMPTY_LIST)] if calls_api(message, "GpuTasksApi_services") else TRUTH


@lie(CUSTOMER, noticed=Noticed.BY_PROOF)
def no_quote(message: NodeMessage, _: Mouth) -> Replies | None:
    """The service has no price."""
    return [message.saying(NONE)] if calls_api(message, "GpuTasksApi_quote") else TRUTH


@lie(CUSTOMER, noticed=Noticed.BY_PROOF)
def no_readers(message: NodeMessage, _: Mouth) -> Replies | None:
    """Nobody could open an input."""
    return [message.saying(EMPTY_LIST)] if calls_api(message, "GpuTasksApi_readers") else TRUTH


@lie(CUSTOMER, words=("could not be stored",))
def no_stores(message: NodeMessage, _: Mouth) -> Replies | None:
    """There is no provider, so there is no store."""
    return [message.saying([])] if message.method == "state_getKeysPaged" else TRUTH


@lie(CUSTOMER, words=("could not be stored",))
def stores_elsewhere(message: NodeMessage, _: Mouth) -> Replies | None:
    """All providers answer at an address of the liar's choice, where nobody listens."""
    if message.method != "state_queryStorageAt":
        return TRUTH
    item = RUNTIME.item(Devices.providers)
    changes = []
    for key, raw in message.value[0]["changes"]:
        if raw is not None and key.startswith(prefix_of(Devices.providers)):
            provider = item.decode(bytes.fromhex(raw[2:]))
            changes.append([key, "0x" + encoded(Devices.providers, replace(provider, endpoint=CLOSED_PORT_ENDPOINT))])
        else:
            changes.append([key, raw])
    return [message.saying([{**message.value[0], "changes": changes}])]


@lie(CUSTOMER, words=("ask another node",))
def posted_before(message: NodeMessage, _: Mouth) -> Replies | None:
    """The customer has posted a million units more than it has."""
    if not asks_for(message, InferenceMarket.posted):
        return TRUTH
    item = RUNTIME.item(InferenceMarket.posted)
    count = 0 if message.value is None else item.decode(bytes.fromhex(message.value[2:]))
    return [message.saying("0x" + encoded(InferenceMarket.posted, count + POSTED_TOO_MANY))]


@lie(PROVIDER, noticed=Noticed.BY_PROOF)
def no_duties(message: NodeMessage, _: Mouth) -> Replies | None:
    """The provider has nothing to do."""
    return [message.saying(EMPTY_LIST)] if calls_api(message, "GpuTasksApi_duties") else TRUTH


@lie(PROVIDER, noticed=Noticed.BY_PROOF)
async def duties_of_another(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """The provider has another one's duties."""
    if not calls_api(message, "GpuTasksApi_duties"):
        return TRUTH
    other = "0x" + dev_accounts.stash(VICTIM_OF_COPY).hex()
    return [message.saying(await mouth.ask("state_call", "GpuTasksApi_duties", other))]


@lie(PROVIDER, noticed=Noticed.BY_PROOF)
def duties_of_before(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """The duties are always those that there were first."""
    if not calls_api(message, "GpuTasksApi_duties"):
        return TRUTH
    first: RpcJson = mouth.memory.setdefault("duties", message.value)
    return [message.saying(first)]


@lie(PROVIDER, noticed=Noticed.BY_PROOF)
def no_devices(message: NodeMessage, _: Mouth) -> Replies | None:
    """The provider has no device."""
    return [message.saying(EMPTY_LIST)] if calls_api(message, "GpuTasksApi_devices_of") else TRUTH


@lie(PROVIDER, noticed=Noticed.BY_PROOF)
def units_forgotten(message: NodeMessage, _: Mouth) -> Replies | None:
    """No unit is known, so every race is over."""
    return [message.saying(NONE)] if calls_api(message, "GpuTasksApi_unit") else TRUTH


LIES = (
    rich, poor, nonce_ahead, fee_of_a_grain, fee_of_everything, no_services, no_quote, no_readers, no_stores,
    stores_elsewhere, posted_before, no_duties, duties_of_another, duties_of_before, no_devices, units_forgotten,
)  # fmt: skip
