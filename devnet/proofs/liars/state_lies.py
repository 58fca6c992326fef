"""Lies about values, validators, the readers of an input, and the fate of an extrinsic.

A lie about a value changes it in all forms: alone, in a list of values, and in its proof. Invariant: each false value
is a possible one, so only a proof distinguishes it from the truth. A requested proof is the true one except for that
value. The foreign chain is complete and consistent, but not the known one.

A provider that declines an input without a reader pays the judges of a good input, so believing such a lie would cost
it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from consensus.handoffs import HANDOFF, Handoff
from devnet.proofs.liars.lie import TRUTH, Mouth, NodeLie, NodeMessage, NodeQuestion, Replies
from devnet.proofs.liars.node_lies import (
    BUYERS,
    CLEARS_THE_SCREEN,
    CUSTOMER,
    EVERYBODY,
    NOT_BELIEVED,
    PROVIDER,
    STRANGERS,
    WALLET,
    ValueOfLie,
    first_value,
    huge_answer,
    odd_value,
    of,
    signed_by_strangers,
    with_nodes,
)
from genesis import dev_accounts
from genesis.chain import GENESIS_KEYS, runtime_for
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from node.rpc.block_reads import header_json
from runtime.blocks.block import Header, block_id, extrinsics_root
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

RUNTIME: Runtime = runtime_for("devnet", is_development=True)
NONE = "0x00"
CLOSED_PORT_ENDPOINT = b"http://127.0.0.1:9"
POSTED_TOO_MANY = 1_000_000
DUTIES, WHO_MUST_READ = "GpuTasksApi_duties", "GpuTasksApi_judging_readers"
JUDGE: Final = dev_accounts.stash("Alice")
STRANGER: Final = b"s" * 32
STRANGERS_SEAL_KEY: Final = seal_keypair_from_seed(STRANGER)[0]
"""A key that no input was ever sealed to."""
HANDOFFS: Final = "ogpu_handoffs"
TOO_MANY = 1_000
MEMBERS, WEIGHT = 4, 10**12
WATCHING, SUBMITTING = "author_submitAndWatchExtrinsic", "author_submitExtrinsic"
KEY = "liar"
INVALID = {"code": 1010, "message": "Invalid Transaction", "data": "the signature does not fit"}
SHOUTED = {"code": 1010, "message": CLEARS_THE_SCREEN + "Invalid Transaction"}

Change = Callable[[Any], Any]
"""A function from a true value to the false one. None: no value."""
TellLie = Callable[[NodeMessage, Mouth], Any]


def asks_for(question: NodeQuestion, item: Any) -> bool:
    """Return whether a request asks for the value of a storage item."""
    return question.method == "state_getStorage" and question.params[0].startswith(prefix_of(item))


def prefix_of(item: Any) -> str:
    """Return the prefix of a storage item's keys, as hexadecimal text."""
    digits: str = RUNTIME.item(item).prefix.hex()
    return "0x" + digits


def encoded(item: Any, value: Any) -> str:
    """Return the encoding of a value in a storage item, as hexadecimal digits."""
    digits: str = RUNTIME.item(item).value_codec.encode(value).hex()
    return digits


def changed(item: Any, raw: str | None, change: Change) -> str | None:
    """Return the replacement of a stored value."""
    known = RUNTIME.item(item)
    value = change(known.default if raw is None else known.decode(bytes.fromhex(raw[2:])))
    return None if value is None else "0x" + encoded(item, value)


def told_of(item: Any, change: Change) -> TellLie:
    """Change every value of an item, in all forms of answers."""
    prefix = prefix_of(item)

    async def replies(message: NodeMessage, mouth: Mouth) -> Replies | None:
        if asks_for(message.question, item):
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

    return replies


async def forged(
    nodes: list[str], mouth: Mouth, keys: list[str], at: list[str], item: Any, change: Change
) -> list[str]:
    """Return the nodes of a proof with other values. The node of a denied value is left out."""
    for key in keys:
        raw = await mouth.ask("state_getStorage", key, *at)
        if raw is None:  # a place in the last node shows that the key has no value
            nodes = nodes[:-1]
            continue
        told = changed(item, raw, change)
        holds = [node for node in nodes if raw[2:] in node]
        nodes = [node for node in nodes if node not in holds]
        if told is not None:
            nodes += [node.replace(raw[2:], told[2:]) for node in holds]
    return nodes


def proof_of(item: Any, keys: tuple[bytes, ...], change: Change) -> TellLie:
    """Change one value in the proof of a runtime API's answer."""

    async def replies(message: NodeMessage, mouth: Mouth) -> Replies:
        key, at = "0x" + storage_key(RUNTIME.item(item), keys).hex(), list(message.question.params[2:])
        return with_nodes(message, await forged(message.value["proof"], mouth, [key], at, item, change))

    return replies


def calls(function: str) -> Callable[[NodeMessage], bool]:
    """Select answers of a runtime API."""
    return lambda message: bool(message.question.params) and message.question.params[0] == function


def proves_call(function: str) -> Callable[[NodeMessage], bool]:
    """Select proofs of a runtime API's answer."""
    return lambda message: calls(function)(message) and isinstance(message.value, dict)


def _emptied(message: NodeMessage, _: Mouth) -> Replies | None:
    """Reply with nothing for a runtime API's answer, and with an empty proof."""
    if message.method == "state_call":
        return [message.saying(NONE)]
    is_proof = message.method == "ogpu_callProof" and isinstance(message.value, dict)
    return with_nodes(message, []) if is_proof else TRUTH


def _lists_keys_of(item: Any) -> Callable[[NodeMessage], bool]:
    prefix = prefix_of(item)
    return lambda message: message.method == "state_getKeysPaged" and message.question.params[0].startswith(prefix)


def _without_services(message: NodeMessage, mouth: Mouth) -> Any:
    item = InferenceMarket.services
    return [message.saying([])] if _lists_keys_of(item)(message) else told_of(item, lambda _: None)(message, mouth)


def _rich(info: Any) -> Any:
    return replace(info, data=replace(info.data, free=info.data.free * 1000))


def _moved_away(provider: Any) -> Any:
    return None if provider is None else replace(provider, endpoint=CLOSED_PORT_ENDPOINT)


def _otherwise(device: Any) -> Any:
    return None if device is None else replace(device, is_paused=not device.is_paused)


async def _duties_of_another(message: NodeMessage, mouth: Mouth) -> Replies | None:
    function, _, *more = message.question.params
    answer = await mouth.ask(message.method, function, "0x" + JUDGE.hex(), *more)
    return TRUTH if _proves_as_much(answer, message.value) else [message.saying(answer)]


def _proves_as_much(answer: RpcJson, truth: RpcJson) -> bool:
    """Return whether a proof contains all nodes of the right one.

    Without any duties on the chain, one place in the trie proves the absence of everybody's.
    """
    return (
        isinstance(answer, dict) and isinstance(truth, dict) and set(truth["proof"]) <= set(answer["proof"])
    ) or answer == truth


_MEMBERS: Final = sorted(STRANGERS[:MEMBERS], key=lambda key: key.account)
_SEATS: Final = tuple(Seat(key.account, key.public_key, key.public_key, WEIGHT) for key in _MEMBERS)
_SEATS_KEY, _SUDO_KEY = GENESIS_KEYS
_STATE: Final = Trie(
    {_SEATS_KEY: RUNTIME.item(TrustStake.active_set).value_codec.encode(_SEATS), _SUDO_KEY: _MEMBERS[0].account}
)
_BLOCK_ZERO: Final = Header(bytes(HASH_BYTES), 0, _STATE.root, extrinsics_root(()), ())
GENESIS: Final = "0x" + block_id(_BLOCK_ZERO).hex()


def _other_chain(message: NodeMessage, _: Mouth) -> Replies | None:
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


def _shows_handoffs(message: NodeMessage) -> bool:
    return message.method == HANDOFFS and isinstance(message.value, list) and bool(message.value)


def _handoffs(change: Callable[[list[Handoff]], list[Handoff]]) -> ValueOfLie:
    return lambda message, _: _told(change(_shown(message)))


def _shown(message: NodeMessage) -> list[Handoff]:
    return [HANDOFF.decode(bytes.fromhex(text[2:])) for text in message.value]


def _told(handoffs: list[Handoff]) -> list[str]:
    return ["0x" + HANDOFF.encode(handoff).hex() for handoff in handoffs]


def _to_strangers(shown: list[Handoff]) -> list[Handoff]:
    first = shown[0]
    seats = tuple(replace(seat, session_key=key.public_key) for seat, key in zip(first.seats, STRANGERS, strict=False))
    return [replace(first, seats=seats), *shown[1:]]


async def _by_strangers(message: NodeMessage, mouth: Mouth) -> list[str]:
    first, *rest = _shown(message)
    return _told([replace(first, certificate=await signed_by_strangers(first.certificate, mouth)), *rest])


async def _an_epoch_later(message: NodeMessage, mouth: Mouth) -> RpcJson:
    first, count = message.question.params
    return await mouth.ask(HANDOFFS, first + 1, count)


def _answer(question: NodeQuestion, result: RpcJson) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": question.number, "result": result}


def _update(question: NodeQuestion, status: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": question.method, "params": {"subscription": KEY, "result": status}}


def _swallowed(question: NodeQuestion, _: Mouth) -> Replies | None:
    return [_answer(question, KEY)] if question.method == WATCHING else TRUTH


async def _forged_final(question: NodeQuestion, mouth: Mouth) -> Replies | None:
    if question.method != WATCHING:
        return TRUTH
    block = mouth.memory["block"] = await mouth.ask("chain_getFinalizedHead")
    return [_answer(question, KEY), _update(question, {"finalized": block})]


async def _forged_block(question: NodeQuestion, mouth: Mouth) -> Replies | None:
    if question.method == WATCHING:
        mouth.memory["extrinsic"] = question.params[0]
        return await _forged_final(question, mouth)
    if "extrinsic" not in mouth.memory:
        return TRUTH
    if question.method == "chain_getBlock":
        true = await mouth.ask("chain_getBlock", mouth.memory["block"])
        true["block"]["extrinsics"] = [mouth.memory["extrinsic"]]
        return [_answer(question, true)]
    if asks_for(question, System.event_records):
        return [_answer(question, "0x" + encoded(System.event_records, ()))]
    return TRUTH


def _says_final(message: NodeMessage) -> bool:
    return message.is_item and message.method == WATCHING and "finalized" in message.value


def _hung_up(_: NodeMessage, mouth: Mouth) -> Replies:
    mouth.hang_up()
    return []


def _call_swallowed(question: NodeQuestion, _: Mouth) -> Replies | None:
    return [_answer(question, "0x" + "00" * 32)] if question.method == SUBMITTING else TRUTH


def _untold(question: NodeQuestion, _: Mouth) -> Replies | None:
    return [] if question.params and question.params[0] == WHO_MUST_READ else TRUTH


_NEXT_NONCE = of("system_accountNextIndex")
_STATUS = of(WATCHING, is_item=True)
_FEE = proves_call("TransactionPaymentApi_query_info")
_READERS, _PROVES_READERS = calls(WHO_MUST_READ), proves_call(WHO_MUST_READ)
_MULTIPLIER = TransactionPayment.next_fee_multiplier

LIES = (
    NodeLie("rich", "The account has a thousand times its money.", BUYERS, NOT_BELIEVED,
            replies=told_of(System.account, _rich)),
    NodeLie("poor", "The account has nothing.", BUYERS, NOT_BELIEVED, replies=told_of(System.account, lambda _: None)),
    NodeLie("nonce_ahead", "Five extrinsics of the account wait in the pool, which it has not sent.", BUYERS,
            when=_NEXT_NONCE, value=lambda message, _: message.value + 5, is_unprovable=True),
    NodeLie("nonce_out_of_reach", "A million extrinsics of the account wait in the pool.", BUYERS, NOT_BELIEVED,
            when=_NEXT_NONCE, value=lambda message, _: message.value + POSTED_TOO_MANY),
    NodeLie("fee_of_next_to_nothing", "A call costs a thousandth, by the proof of its fee.", (WALLET,), NOT_BELIEVED,
            when=_FEE, replies=proof_of(_MULTIPLIER, (), lambda multiplier: multiplier // 1000)),
    NodeLie("fee_of_everything", "A call costs more than most have, by the proof of its fee.", (WALLET,), NOT_BELIEVED,
            when=_FEE, replies=proof_of(_MULTIPLIER, (), lambda multiplier: multiplier * 1_000_000)),
    NodeLie("no_services", "Nothing is sold.", (CUSTOMER,), NOT_BELIEVED, replies=_without_services),
    NodeLie("no_quote", "The service has no price.", (CUSTOMER,), NOT_BELIEVED,
            when=calls("GpuTasksApi_quote"), replies=_emptied),
    NodeLie("no_readers", "Nobody could open an input.", (CUSTOMER,), NOT_BELIEVED,
            when=calls("GpuTasksApi_readers"), replies=_emptied),
    NodeLie("no_stores", "There is no provider, so there is no store.", (CUSTOMER,), NOT_BELIEVED,
            when=_lists_keys_of(Devices.providers), value=lambda *_: []),
    NodeLie("stores_elsewhere", "All providers answer at the liar's address, where nobody listens.", (CUSTOMER,),
            NOT_BELIEVED, replies=told_of(Devices.providers, _moved_away)),
    NodeLie("posted_before", "The customer has posted a million more units.", (CUSTOMER,), NOT_BELIEVED,
            replies=told_of(InferenceMarket.post_counts, lambda count: count + POSTED_TOO_MANY)),
    # --- a provider's duties and devices
    NodeLie("no_duties", "The provider has nothing to do.", (PROVIDER,), NOT_BELIEVED,
            when=calls(DUTIES), replies=_emptied),
    NodeLie("duties_of_another", "The provider has another one's duties, with the right proof of these.", (PROVIDER,),
            NOT_BELIEVED, when=calls(DUTIES), replies=_duties_of_another),
    NodeLie("duties_of_before", "The duties are always the first ones, with the proof that they had then.", (PROVIDER,),
            NOT_BELIEVED, when=calls(DUTIES), value=first_value),
    NodeLie("no_devices", "The provider has no device: it looks up the known ones all the same.", (PROVIDER,),
            when=calls("GpuTasksApi_devices_of"), replies=_emptied),
    NodeLie("devices_paused", "Devices that take work do not, and the reverse.", (PROVIDER,), NOT_BELIEVED,
            replies=told_of(Devices.devices, _otherwise)),
    NodeLie("units_forgotten", "No unit is known, so every race is over.", (PROVIDER,), NOT_BELIEVED,
            when=calls("GpuTasksApi_unit"), replies=_emptied),
    # --- the validators
    NodeLie("chain_of_strangers", "The node serves another chain, and proves its validators.", EVERYBODY,
            ("another chain",), replies=_other_chain, is_met_anew=True),
    NodeLie("strangers_are_elected", "The next validators vote with keys of the liar's.", BUYERS, NOT_BELIEVED,
            when=_shows_handoffs, value=_handoffs(_to_strangers)),
    NodeLie("one_validator_alone_is_elected", "The next set has a single member.", BUYERS, NOT_BELIEVED,
            when=_shows_handoffs,
            value=_handoffs(lambda shown: [replace(shown[0], seats=shown[0].seats[:1]), *shown[1:]])),
    NodeLie("handed_on_by_strangers", "An epoch's last block is certified by people who are no validators.", BUYERS,
            NOT_BELIEVED, when=_shows_handoffs, value=_by_strangers),
    NodeLie("an_epoch_is_left_out", "The handoffs begin an epoch later than they were asked for.", BUYERS,
            NOT_BELIEVED, when=_shows_handoffs, value=_an_epoch_later),
    NodeLie("no_handoffs", "No epoch has ended.", BUYERS, NOT_BELIEVED, when=_shows_handoffs, value=lambda *_: []),
    NodeLie("handoffs_without_end", "The same handoff, again and again.", BUYERS, NOT_BELIEVED,
            when=_shows_handoffs, value=lambda message, _: message.value[:1] * TOO_MANY),
    NodeLie("handoffs_that_are_none", "Bytes in place of handoffs.", BUYERS, NOT_BELIEVED,
            when=_shows_handoffs, value=lambda *_: ["0x" + "ab" * 400]),
    # --- the fate of an extrinsic
    NodeLie("swallowed", "The extrinsic is taken and thrown away.", BUYERS, ("reported nothing on the extrinsic",),
            instead=_swallowed),
    NodeLie("forged_final", "The extrinsic is final in a block that does not hold it.", BUYERS, NOT_BELIEVED,
            instead=_forged_final),
    NodeLie("forged_block", "The extrinsic is final in a block that is made up around it, events and all.", BUYERS,
            NOT_BELIEVED, instead=_forged_block),
    NodeLie("called_invalid", "The extrinsic, which the node took, is invalid.", BUYERS,
            when=_STATUS, value=lambda *_: "invalid", is_unprovable=True),
    NodeLie("called_dropped", "The extrinsic, which the node keeps, was dropped.", BUYERS,
            when=_STATUS, value=lambda *_: "dropped", is_unprovable=True),
    NodeLie("called_refused", "The extrinsic, which the node took, was refused.", BUYERS,
            when=of(WATCHING, is_item=False), replies=lambda message, _: [message.failing(INVALID)],
            is_unprovable=True),
    NodeLie("never_final", "The extrinsic is in a block, and nothing is ever told of it again.", BUYERS,
            ("reported nothing on the extrinsic",), when=_says_final, replies=lambda *_: []),
    NodeLie("final_nowhere", "The extrinsic is final in a block without a name.", BUYERS, ("makes no sense",),
            when=_says_final, value=lambda *_: {"finalized": None}),
    NodeLie("lost_after_sending", "The connection breaks right after the extrinsic was taken.", BUYERS,
            ("the connection to", "the end of it"), when=of(WATCHING), replies=_hung_up),
    NodeLie("duties_swallowed", "A provider's calls are taken and thrown away.", (PROVIDER,), instead=_call_swallowed),
    NodeLie("duties_refused", "A provider's calls, which the node took, were refused, in words that clear the screen.",
            (PROVIDER,), when=of(SUBMITTING), replies=lambda message, _: [message.failing(SHOUTED)]),
    # --- the readers of an input
    NodeLie("judge_with_another_key", "A judge has had a key since block 0 to which no input was sealed.", (PROVIDER,),
            NOT_BELIEVED, when=_PROVES_READERS, replies=proof_of(
                Devices.providers, (JUDGE,),
                lambda provider: replace(provider, seal_key=STRANGERS_SEAL_KEY, key_since=0))),
    NodeLie("judge_added", "A stranger is in office, so inputs should have been sealed to it.", (PROVIDER,),
            NOT_BELIEVED, when=_PROVES_READERS, replies=proof_of(
                TrustStake.active_set, (), lambda seats: (*seats, replace(seats[-1], stash=STRANGER)))),
    NodeLie("judge_left_out", "A judge is not in office, so an input may leave it out.", (PROVIDER,), NOT_BELIEVED,
            when=_PROVES_READERS, replies=proof_of(TrustStake.active_set, (), lambda seats: seats[1:])),
    NodeLie("judges_of_before", "The readers are always the first ones, with the proof that they had then.",
            (PROVIDER,), NOT_BELIEVED, when=_READERS,
            replies=lambda message, mouth: TRUTH if first_value(message, mouth) is message.value
            else [message.saying(first_value(message, mouth))]),
    NodeLie("judges_of_odd_types", "The readers are numbers, texts and lists of nothing.", (PROVIDER,),
            (*NOT_BELIEVED, "makes no sense", "refused"), when=_READERS, value=odd_value),
    NodeLie("judges_without_end", "The readers are more than a program listens to.", (PROVIDER,),
            ("broke", "closed", "away"), when=_READERS, replies=huge_answer),
    NodeLie("judges_untold", "Nobody names the readers: a provider that cannot know waits, and declines nothing.",
            (PROVIDER,), instead=_untold),
)  # fmt: skip
