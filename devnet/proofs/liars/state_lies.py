"""Lies about values, validators, the readers of an input, and what became of an extrinsic.

Each value is told in each way in which a value can be told: as it is, in a list of values, and in the proof of it.
Always: each is a possible value, so only a proof tells it from the truth; where a proof is asked for, the proof is the
true one but for that value. Another chain is whole and in order, but not the one that is known. A provider declines an
input that leaves a reader out, and who declines a good one pays its judges: a lie that was believed would cost it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from consensus.handoffs import HANDOFF, Handoff
from devnet.proofs.liars.lie import (
    TRUTH,
    Mouth,
    NodeLie,
    NodeMessage,
    NodeQuestion,
    Noticed,
    Program,
    Replies,
    lie,
    lie_instead,
)
from devnet.proofs.liars.node_lies import CLEARS_THE_SCREEN, HUGE_BYTES, NOT_BELIEVED, ODD_VALUES, STRANGERS, with_nodes
from genesis import dev_accounts
from genesis.chain import GENESIS_KEYS, runtime_for
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from node.rpc.block_reads import header_json
from runtime.blocks.block import Header, block_id, extrinsics_root
from runtime.blocks.votes import ballot_payload
from runtime.cryptography.hashing import HASH_BYTES
from runtime.cryptography.signatures import seal_keypair_from_seed
from runtime.frame.runtime import Runtime
from runtime.pallets.staking.stakers import Seat
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from runtime.pallets.transaction_payment import TransactionPayment
from runtime.state.trie import Trie
from wallet.proved.keys import storage_key
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


HANDOFFS: Final = "ogpu_handoffs"
TOO_MANY = 1_000
MEMBERS = 4
WEIGHT = 10**12

_MEMBERS: Final = sorted(STRANGERS[:MEMBERS], key=lambda key: key.account)
_SEATS: Final = tuple(Seat(key.account, key.public_key, key.public_key, WEIGHT) for key in _MEMBERS)
_SEATS_KEY, _SUDO_KEY = GENESIS_KEYS
_STATE: Final = Trie(
    {_SEATS_KEY: RUNTIME.item(TrustStake.seats).value_codec.encode(_SEATS), _SUDO_KEY: _MEMBERS[0].account}
)
_BLOCK_ZERO: Final = Header(bytes(HASH_BYTES), 0, _STATE.root, extrinsics_root(()), ())
GENESIS: Final = "0x" + block_id(_BLOCK_ZERO).hex()


@lie(*Program, words=("another chain",), is_met_anew=True)
def chain_of_strangers(message: NodeMessage, _: Mouth) -> Replies | None:
    """The node serves another chain, and proves who its validators are."""
    asked = list(message.question.params)
    match message.method:
        case "chain_getBlockHash" if asked == [0]:
            return [message.saying(GENESIS)]
        case "chain_getHeader" if asked == [GENESIS]:
            return [message.saying(header_json(_BLOCK_ZERO))]
        case "state_getReadProof" if asked[1:] == [GENESIS]:
            nodes = ["0x" + node.hex() for node in _STATE.prove(list(GENESIS_KEYS))]
            return [message.saying({"at": GENESIS, "proof": nodes})]
        case _:
            return TRUTH


def _shown(message: NodeMessage) -> list[Handoff]:
    """The handoffs that a message shows."""
    if message.method != HANDOFFS or not isinstance(message.value, list):
        return []
    return [HANDOFF.decode(bytes.fromhex(text[2:])) for text in message.value]


def _showing(message: NodeMessage, handoffs: list[Handoff]) -> Replies:
    return [message.saying(["0x" + HANDOFF.encode(handoff).hex() for handoff in handoffs])]


@lie(WALLET, CUSTOMER, words=NOT_BELIEVED)
def strangers_are_elected(message: NodeMessage, _: Mouth) -> Replies | None:
    """The next validators vote with keys of the liar's."""
    shown = _shown(message)
    if not shown:
        return TRUTH
    first = shown[0]
    seats = tuple(replace(seat, session_key=key.public_key) for seat, key in zip(first.seats, STRANGERS, strict=False))
    return _showing(message, [replace(first, seats=seats), *shown[1:]])


@lie(WALLET, CUSTOMER, words=NOT_BELIEVED)
def one_validator_alone_is_elected(message: NodeMessage, _: Mouth) -> Replies | None:
    """The next set has a single member."""
    shown = _shown(message)
    if not shown:
        return TRUTH
    return _showing(message, [replace(shown[0], seats=shown[0].seats[:1]), *shown[1:]])


@lie(WALLET, CUSTOMER, words=NOT_BELIEVED)
async def handed_on_by_strangers(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """An epoch's last block is certified by people who are no validators."""
    shown = _shown(message)
    if not shown:
        return TRUTH
    genesis = bytes.fromhex((await mouth.ask("chain_getBlockHash", 0))[2:])
    certificate = shown[0].certificate
    payload = ballot_payload(genesis, certificate.ballot)
    forged = tuple(key.sign(payload) for key, _ in zip(STRANGERS, certificate.signatures, strict=False))
    return _showing(message, [replace(shown[0], certificate=replace(certificate, signatures=forged)), *shown[1:]])


@lie(WALLET, CUSTOMER, words=NOT_BELIEVED)
async def an_epoch_is_left_out(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """The handoffs begin an epoch later than they were asked for."""
    if not _shown(message):
        return TRUTH
    first, count = message.question.params
    return [message.saying(await mouth.ask(HANDOFFS, first + 1, count))]


@lie(WALLET, CUSTOMER, words=NOT_BELIEVED)
def no_handoffs(message: NodeMessage, _: Mouth) -> Replies | None:
    """No epoch has ended."""
    return _showing(message, []) if _shown(message) else TRUTH


@lie(WALLET, CUSTOMER, words=NOT_BELIEVED)
def handoffs_without_end(message: NodeMessage, _: Mouth) -> Replies | None:
    """The same handoff, again and again."""
    shown = _shown(message)
    return _showing(message, shown[:1] * TOO_MANY) if shown else TRUTH


@lie(WALLET, CUSTOMER, words=NOT_BELIEVED)
def handoffs_that_are_none(message: NodeMessage, _: Mouth) -> Replies | None:
    """Bytes in place of handoffs."""
    return [message.saying(["0x" + "ab" * 400])] if _shown(message) else TRUTH


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


LIES = tuple(each for each in list(globals().values()) if isinstance(each, NodeLie))
