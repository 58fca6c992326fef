"""Lies about values, validators, the readers of an input, and the fate of an extrinsic.

A lie about a value changes it in all forms: alone, in a list of values, and in its proof. Invariant: each false value
is a possible one, so only a proof distinguishes it from the truth. A requested proof is the true one except for that
value. The foreign chain is complete and consistent, but not the known one.

A provider that declines an input without a reader pays the voters if the input is good, so believing such a lie would
cost it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from consensus.handoffs import HANDOFF, Handoff
from devnet.proofs.liars.lie import TRUTH, LyingConnection, NodeLie, NodeMessage, NodeQuestion, Replies
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
    of_methods,
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
SCALE_NONE = "0x00"
CLOSED_PORT_ENDPOINT = b"http://127.0.0.1:9"
POSTED_TOO_MANY = 1_000_000
DUTIES, WHO_MUST_READ = "GpuTasksApi_duties", "GpuTasksApi_checking_readers"
JUDGE: Final = dev_accounts.stash("Alice")
STRANGER: Final = b"s" * 32
# A key that no input was ever sealed to.
STRANGERS_SEAL_KEY: Final = seal_keypair_from_seed(STRANGER)[0]
HANDOFFS: Final = "ogpu_handoffs"
TOO_MANY = 1_000
STRANGER_COUNT, SEAT_WEIGHT = 4, 10**12
WATCHING, SUBMITTING = "author_submitAndWatchExtrinsic", "author_submitExtrinsic"
SUBSCRIPTION_KEY = "liar"
INVALID = {"code": 1010, "message": "Invalid Transaction", "data": "the signature does not fit"}
SHOUTED = {"code": 1010, "message": CLEARS_THE_SCREEN + "Invalid Transaction"}

ChangeValue = Callable[[Any], Any]
"""A function from a true value to the false one. None: no value."""
TellLie = Callable[[NodeMessage, LyingConnection], Any]


def asks_for(question: NodeQuestion, item: Any) -> bool:
    """Return whether a request asks for the value of a storage item."""
    return question.method == "state_getStorage" and question.params[0].startswith(prefix_of(item))


def prefix_of(item: Any) -> str:
    """Return the prefix of a storage item's keys, as hexadecimal text."""
    hex_digits: str = RUNTIME.item(item).prefix.hex()
    return "0x" + hex_digits


def encoded(item: Any, item_value: Any) -> str:
    """Return the encoding of a value in a storage item, as hexadecimal digits."""
    hex_digits: str = RUNTIME.item(item).value_codec.encode(item_value).hex()
    return hex_digits


def changed_value(item: Any, stored: str | None, change_value: ChangeValue) -> str | None:
    """Return the replacement of a stored value."""
    known_item = RUNTIME.item(item)
    false_value = change_value(known_item.default if stored is None else known_item.decode(bytes.fromhex(stored[2:])))
    return None if false_value is None else "0x" + encoded(item, false_value)


def lie_about_item(item: Any, change_value: ChangeValue) -> TellLie:
    """Change every value of an item, in all forms of answers."""
    key_prefix = prefix_of(item)

    async def replies(message: NodeMessage, connection: LyingConnection) -> Replies | None:
        if asks_for(message.question, item):
            return [message.saying(changed_value(item, message.value, change_value))]
        if message.method == "state_queryStorageAt" and message.value is not None:
            changed_pairs = message.value[0]["changes"]
            if any(key_text.startswith(key_prefix) for key_text, _ in changed_pairs):
                false_pairs = [
                    [key_text, changed_value(item, stored, change_value) if key_text.startswith(key_prefix) else stored]
                    for key_text, stored in changed_pairs
                ]
                return [message.saying([{**message.value[0], "changes": false_pairs}])]
        if message.method == "state_getReadProof" and isinstance(message.value, dict):
            key_texts, *at_block = message.question.params
            wanted_keys = [
                key_text for key_text in key_texts if key_text.startswith(key_prefix) and key_text != key_prefix
            ]
            if wanted_keys:
                return with_nodes(
                    message,
                    await forged_nodes(message.value["proof"], connection, wanted_keys, at_block, item, change_value),
                )
        return TRUTH

    return replies


async def forged_nodes(
    nodes: list[str],
    connection: LyingConnection,
    key_texts: list[str],
    at_block: list[str],
    item: Any,
    change_value: ChangeValue,
) -> list[str]:
    """Return the nodes of a proof with other values. The node of a denied value is left out."""
    for key_text in key_texts:
        stored = await connection.ask("state_getStorage", key_text, *at_block)
        if stored is None:  # a place in the last node shows that the key has no value
            nodes = nodes[:-1]
            continue
        false_text = changed_value(item, stored, change_value)
        value_nodes = [node for node in nodes if stored[2:] in node]
        nodes = [node for node in nodes if node not in value_nodes]
        if false_text is not None:
            nodes += [node.replace(stored[2:], false_text[2:]) for node in value_nodes]
    return nodes


def lie_in_call_proof(item: Any, storage_keys: tuple[bytes, ...], change_value: ChangeValue) -> TellLie:
    """Change one value in the proof of a runtime API's answer."""

    async def replies(message: NodeMessage, connection: LyingConnection) -> Replies:
        key_text, at_block = (
            "0x" + storage_key(RUNTIME.item(item), storage_keys).hex(),
            list(message.question.params[2:]),
        )
        return with_nodes(
            message, await forged_nodes(message.value["proof"], connection, [key_text], at_block, item, change_value)
        )

    return replies


def calls_api(function: str) -> Callable[[NodeMessage], bool]:
    """Select answers of a runtime API."""
    return lambda message: bool(message.question.params) and message.question.params[0] == function


def proves_call(function: str) -> Callable[[NodeMessage], bool]:
    """Return a filter of messages that prove the answer of this runtime API function."""
    return lambda message: calls_api(function)(message) and isinstance(message.value, dict)


def _empty_answer(message: NodeMessage, _: LyingConnection) -> Replies | None:
    """Reply with nothing for a runtime API's answer, and with an empty proof."""
    if message.method == "state_call":
        return [message.saying(SCALE_NONE)]
    is_proof = message.method == "ogpu_callProof" and isinstance(message.value, dict)
    return with_nodes(message, []) if is_proof else TRUTH


def _lists_keys_of(item: Any) -> Callable[[NodeMessage], bool]:
    key_prefix = prefix_of(item)
    return lambda message: message.method == "state_getKeysPaged" and message.question.params[0].startswith(key_prefix)


# A list can be emptied as well as a value changed, and both need a proof of absence.
def _without_services(message: NodeMessage, connection: LyingConnection) -> Any:
    item = InferenceMarket.services
    return (
        [message.saying([])]
        if _lists_keys_of(item)(message)
        else lie_about_item(item, lambda _: None)(message, connection)
    )


# A possible amount, so no check of the form can refuse it.
def _with_riches(info: Any) -> Any:
    return replace(info, data=replace(info.data, free=info.data.free * 1000))


# Inputs would go to the liar's address, and honest stores would get nothing.
def _moved_away(provider: Any) -> Any:
    return None if provider is None else replace(provider, endpoint=CLOSED_PORT_ENDPOINT)


def _with_pause_flipped(record: Any) -> Any:
    return None if record is None else replace(record, is_paused=not record.is_paused)


# A proof is valid for its own key only, so a program must check which key it proves.
async def _duties_of_another(message: NodeMessage, connection: LyingConnection) -> Replies | None:
    function, _, *more_params = message.question.params
    other = await connection.ask(message.method, function, "0x" + JUDGE.hex(), *more_params)
    return TRUTH if _proves_as_much(other, message.value) else [message.saying(other)]


def _proves_as_much(other: RpcJson, true_answer: RpcJson) -> bool:
    """Return whether a proof contains all nodes of the right one.

    Without any duties on the chain, one place in the trie proves the absence of everybody's.
    """
    return (
        isinstance(other, dict) and isinstance(true_answer, dict) and set(true_answer["proof"]) <= set(other["proof"])
    ) or other == true_answer


_STRANGER_MEMBERS: Final = sorted(STRANGERS[:STRANGER_COUNT], key=lambda key: key.account)
_STRANGER_SEATS: Final = tuple(
    Seat(key.account, key.public_key, key.public_key, SEAT_WEIGHT) for key in _STRANGER_MEMBERS
)
_SEATS_KEY, _SUDO_KEY = GENESIS_KEYS
_STATE_TRIE: Final = Trie(
    {
        _SEATS_KEY: RUNTIME.item(TrustStake.active_set).value_codec.encode(_STRANGER_SEATS),
        _SUDO_KEY: _STRANGER_MEMBERS[0].account,
    }
)
_BLOCK_ZERO: Final = Header(bytes(HASH_BYTES), 0, _STATE_TRIE.root, extrinsics_root(()), ())
GENESIS: Final = "0x" + block_id(_BLOCK_ZERO).hex()


def _other_chain(message: NodeMessage, _: LyingConnection) -> Replies | None:
    params = list(message.question.params)
    match message.method:
        case "chain_getBlockHash" if params == [0]:
            return [message.saying(GENESIS)]
        case "chain_getHeader" if params == [GENESIS]:
            return [message.saying(header_json(_BLOCK_ZERO))]
        case "state_getReadProof" if params[1:] == [GENESIS]:
            nodes = ["0x" + node.hex() for node in _STATE_TRIE.prove(list(GENESIS_KEYS))]
            return [message.saying({"at": GENESIS, "proof": nodes})]
        case _:
            return TRUTH


def _shows_handoffs(message: NodeMessage) -> bool:
    return message.method == HANDOFFS and isinstance(message.value, list) and bool(message.value)


def _with_handoffs(change_value: Callable[[list[Handoff]], list[Handoff]]) -> ValueOfLie:
    return lambda message, _: _handoff_texts(change_value(_shown_handoffs(message)))


def _shown_handoffs(message: NodeMessage) -> list[Handoff]:
    return [HANDOFF.decode(bytes.fromhex(handoff[2:])) for handoff in message.value]


def _handoff_texts(shown_handoffs: list[Handoff]) -> list[str]:
    return ["0x" + HANDOFF.encode(handoff).hex() for handoff in shown_handoffs]


# The seats change and the certificate stays, so only the digest in the header contradicts them.
def _to_strangers(shown_handoffs: list[Handoff]) -> list[Handoff]:
    first_handoff = shown_handoffs[0]
    stranger_seats = tuple(
        replace(seat, session_key=stranger.public_key)
        for seat, stranger in zip(first_handoff.seats, STRANGERS, strict=False)
    )
    return [replace(first_handoff, seats=stranger_seats), *shown_handoffs[1:]]


# The other way round: the seats stay, and strangers certify the header.
async def _by_strangers(message: NodeMessage, connection: LyingConnection) -> list[str]:
    first_handoff, *later_handoffs = _shown_handoffs(message)
    return _handoff_texts(
        [
            replace(first_handoff, certificate=await signed_by_strangers(first_handoff.certificate, connection)),
            *later_handoffs,
        ]
    )


# A program that skips an epoch would accept a set that no known set has certified.
async def _an_epoch_later(message: NodeMessage, connection: LyingConnection) -> RpcJson:
    first_epoch, handoff_count = message.question.params
    return await connection.ask(HANDOFFS, first_epoch + 1, handoff_count)


def _answer_json(question: NodeQuestion, answer_result: RpcJson) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": question.number, "result": answer_result}


def _update_json(question: NodeQuestion, extrinsic_status: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "method": question.method,
        "params": {"subscription": SUBSCRIPTION_KEY, "result": extrinsic_status},
    }


# No proof exists that a node has passed an extrinsic on, so the program must wait and then say so.
def _swallow(question: NodeQuestion, _: LyingConnection) -> Replies | None:
    return [_answer_json(question, SUBSCRIPTION_KEY)] if question.method == WATCHING else TRUTH


# Finality is claimed for a real final block, which does not hold the extrinsic.
async def _forged_final(question: NodeQuestion, connection: LyingConnection) -> Replies | None:
    if question.method != WATCHING:
        return TRUTH
    final_block = connection.memory["block"] = await connection.ask("chain_getFinalizedHead")
    return [_answer_json(question, SUBSCRIPTION_KEY), _update_json(question, {"finalized": final_block})]


# A block that is made up around an extrinsic has the right form. Only its certificate tells it from a real one.
async def _forged_block(question: NodeQuestion, connection: LyingConnection) -> Replies | None:
    if question.method == WATCHING:
        connection.memory["extrinsic"] = question.params[0]
        return await _forged_final(question, connection)
    if "extrinsic" not in connection.memory:
        return TRUTH
    if question.method == "chain_getBlock":
        true_block = await connection.ask("chain_getBlock", connection.memory["block"])
        true_block["block"]["extrinsics"] = [connection.memory["extrinsic"]]
        return [_answer_json(question, true_block)]
    if asks_for(question, System.event_records):
        return [_answer_json(question, "0x" + encoded(System.event_records, ()))]
    return TRUTH


def _says_final(message: NodeMessage) -> bool:
    return message.is_item and message.method == WATCHING and "finalized" in message.value


# The program cannot know whether the extrinsic was taken, and must not send another one blindly.
def _hang_up(_: NodeMessage, connection: LyingConnection) -> Replies:
    connection.hang_up()
    return []


def _call_swallowed(question: NodeQuestion, _: LyingConnection) -> Replies | None:
    return [_answer_json(question, "0x" + "00" * 32)] if question.method == SUBMITTING else TRUTH


# Declining a good input costs the provider money, so it must wait instead.
def _leave_unanswered(question: NodeQuestion, _: LyingConnection) -> Replies | None:
    return [] if question.params and question.params[0] == WHO_MUST_READ else TRUTH


_NEXT_NONCE = of_methods("system_accountNextIndex")
_IS_STATUS = of_methods(WATCHING, is_item=True)
_IS_FEE_PROOF = proves_call("TransactionPaymentApi_query_info")
_READERS, _PROVES_READERS = calls_api(WHO_MUST_READ), proves_call(WHO_MUST_READ)
_MULTIPLIER = TransactionPayment.next_fee_multiplier

STATE_LIES = (
    NodeLie("rich", "The account has a thousand times its money.", BUYERS, NOT_BELIEVED,
            replies=lie_about_item(System.account, _with_riches)),
    NodeLie("poor", "The account has nothing.", BUYERS, NOT_BELIEVED,
            replies=lie_about_item(System.account, lambda _: None)),
    NodeLie("nonce_ahead", "Five extrinsics of the account wait in the pool, which it has not sent.", BUYERS,
            when=_NEXT_NONCE, value=lambda message, _: message.value + 5, is_unprovable=True),
    NodeLie("nonce_out_of_reach", "A million extrinsics of the account wait in the pool.", BUYERS, NOT_BELIEVED,
            when=_NEXT_NONCE, value=lambda message, _: message.value + POSTED_TOO_MANY),
    NodeLie("fee_of_next_to_nothing", "A call costs a thousandth, by the proof of its fee.", (WALLET,), NOT_BELIEVED,
            when=_IS_FEE_PROOF, replies=lie_in_call_proof(_MULTIPLIER, (), lambda multiplier: multiplier // 1000)),
    NodeLie("fee_of_everything", "A call costs more than most have, by the proof of its fee.", (WALLET,), NOT_BELIEVED,
            when=_IS_FEE_PROOF, replies=lie_in_call_proof(_MULTIPLIER, (), lambda multiplier: multiplier * 1_000_000)),
    NodeLie("no_services", "Nothing is sold.", (CUSTOMER,), NOT_BELIEVED, replies=_without_services),
    NodeLie("no_quote", "The service has no price.", (CUSTOMER,), NOT_BELIEVED,
            when=calls_api("GpuTasksApi_quote"), replies=_empty_answer),
    NodeLie("no_readers", "No input could be opened.", (CUSTOMER,), NOT_BELIEVED,
            when=calls_api("GpuTasksApi_readers"), replies=_empty_answer),
    NodeLie("no_stores", "There is no provider, so there is no store.", (CUSTOMER,), NOT_BELIEVED,
            when=_lists_keys_of(Devices.providers), value=lambda *_: []),
    NodeLie("stores_elsewhere", "All providers have the liar's address, where no program listens.", (CUSTOMER,),
            NOT_BELIEVED, replies=lie_about_item(Devices.providers, _moved_away)),
    NodeLie("posted_before", "The customer has posted a million more units.", (CUSTOMER,), NOT_BELIEVED,
            replies=lie_about_item(InferenceMarket.post_counts, lambda count: count + POSTED_TOO_MANY)),
    # --- a provider's duties and devices
    NodeLie("no_duties", "The provider has nothing to do.", (PROVIDER,), NOT_BELIEVED,
            when=calls_api(DUTIES), replies=_empty_answer),
    NodeLie("duties_of_another", "The provider has another one's duties, with the right proof of these.", (PROVIDER,),
            NOT_BELIEVED, when=calls_api(DUTIES), replies=_duties_of_another),
    NodeLie("duties_of_before", "The duties are always the first ones, with the proof that they had then.", (PROVIDER,),
            NOT_BELIEVED, when=calls_api(DUTIES), value=first_value),
    NodeLie("no_devices", "The provider has no device. It looks up the known ones nevertheless.", (PROVIDER,),
            when=calls_api("GpuTasksApi_devices_of"), replies=_empty_answer),
    NodeLie("devices_paused", "Devices that take work do not, and the reverse.", (PROVIDER,), NOT_BELIEVED,
            replies=lie_about_item(Devices.devices, _with_pause_flipped)),
    NodeLie("units_forgotten", "No unit is known, so every race is over.", (PROVIDER,), NOT_BELIEVED,
            when=calls_api("GpuTasksApi_unit"), replies=_empty_answer),
    # --- the validators
    NodeLie("chain_of_strangers", "The node serves another chain, and proves its validators.", EVERYBODY,
            ("another chain",), replies=_other_chain, is_met_anew=True),
    NodeLie("strangers_are_elected", "The next validators vote with keys of the liar's.", BUYERS, NOT_BELIEVED,
            when=_shows_handoffs, value=_with_handoffs(_to_strangers)),
    NodeLie("one_validator_alone_is_elected", "The next set has a single member.", BUYERS, NOT_BELIEVED,
            when=_shows_handoffs,
            value=_with_handoffs(lambda shown: [replace(shown[0], seats=shown[0].seats[:1]), *shown[1:]])),
    NodeLie("handed_on_by_strangers", "Keys of no validators certify an epoch's last block.", BUYERS,
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
            instead=_swallow),
    NodeLie("forged_final", "The extrinsic is final in a block that does not hold it.", BUYERS, NOT_BELIEVED,
            instead=_forged_final),
    NodeLie("forged_block", "The extrinsic is final in a block that is made up around it, events and all.", BUYERS,
            NOT_BELIEVED, instead=_forged_block),
    NodeLie("called_invalid", "The extrinsic, which the node took, is invalid.", BUYERS,
            when=_IS_STATUS, value=lambda *_: "invalid", is_unprovable=True),
    NodeLie("called_dropped", "The extrinsic, which the node keeps, was dropped.", BUYERS,
            when=_IS_STATUS, value=lambda *_: "dropped", is_unprovable=True),
    NodeLie("called_refused", "The extrinsic, which the node took, was refused.", BUYERS,
            when=of_methods(WATCHING, is_item=False), replies=lambda message, _: [message.failing(INVALID)],
            is_unprovable=True),
    NodeLie("never_final", "The extrinsic is in a block, and the node never reports on it again.", BUYERS,
            ("reported nothing on the extrinsic",), when=_says_final, replies=lambda *_: []),
    NodeLie("final_nowhere", "The extrinsic is final in a block without a name.", BUYERS, ("makes no sense",),
            when=_says_final, value=lambda *_: {"finalized": None}),
    NodeLie("lost_after_sending", "The connection breaks right after the extrinsic was taken.", BUYERS,
            ("the connection to", "the end of it"), when=of_methods(WATCHING), replies=_hang_up),
    NodeLie("duties_swallowed", "A provider's calls are taken and thrown away.", (PROVIDER,), instead=_call_swallowed),
    NodeLie("duties_refused", "A provider's calls, which the node took, were refused, in words that clear the screen.",
            (PROVIDER,), when=of_methods(SUBMITTING), replies=lambda message, _: [message.failing(SHOUTED)]),
    # --- the readers of an input
    NodeLie("judge_with_another_key", "A judge has had a key since block 0 to which no input was sealed.", (PROVIDER,),
            NOT_BELIEVED, when=_PROVES_READERS, replies=lie_in_call_proof(
                Devices.providers, (JUDGE,),
                lambda provider: replace(provider, seal_key=STRANGERS_SEAL_KEY, key_since=0))),
    NodeLie("judge_added", "A stranger is in office, so inputs should have been sealed to it.", (PROVIDER,),
            NOT_BELIEVED, when=_PROVES_READERS, replies=lie_in_call_proof(
                TrustStake.active_set, (), lambda seats: (*seats, replace(seats[-1], stash=STRANGER)))),
    NodeLie("judge_left_out", "A judge is not in office, so an input may leave it out.", (PROVIDER,), NOT_BELIEVED,
            when=_PROVES_READERS, replies=lie_in_call_proof(TrustStake.active_set, (), lambda seats: seats[1:])),
    NodeLie("judges_of_before", "The readers are always the first ones, with the proof that they had then.",
            (PROVIDER,), NOT_BELIEVED, when=_READERS,
            replies=lambda message, connection: TRUTH if first_value(message, connection) is message.value
            else [message.saying(first_value(message, connection))]),
    NodeLie("judges_of_odd_types", "The readers are numbers, texts and lists of nothing.", (PROVIDER,),
            (*NOT_BELIEVED, "makes no sense", "refused"), when=_READERS, value=odd_value),
    NodeLie("judges_without_end", "The readers are more than a program listens to.", (PROVIDER,),
            ("broke", "closed", "away"), when=_READERS, replies=huge_answer),
    NodeLie("judges_untold", "The readers are missing: a provider that cannot know them waits, and declines nothing.",
            (PROVIDER,), instead=_leave_unanswered),
)  # fmt: skip
