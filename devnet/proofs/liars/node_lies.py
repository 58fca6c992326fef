"""Lies about the chain and its final blocks, invalid proofs, malformed answers, and faulty delivery."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from consensus.certificates import BITMAP_BYTES_MAX, CERTIFICATE, Certificate
from consensus.parameters import ACTIVE_VALIDATORS_MAX
from devnet.proofs.liars.lie import TRUTH, LyingConnection, NodeLie, NodeMessage, Program, Replies
from runtime.blocks.digest import CERTIFICATE_BYTES_MAX
from runtime.blocks.votes import ballot_payload
from runtime.cryptography.signatures import Scheme
from wallet.keypair import Keypair
from wallet.rpc import RpcJson

WALLET, CUSTOMER, PROVIDER = Program
BUYERS: Final = (WALLET, CUSTOMER)
EVERYBODY: Final = tuple(Program)
FOREIGN_HASH = "0x" + "ab" * 32
STALE_BLOCKS, BLOCKS_BEFORE = 30, 8
FUTURE_BLOCKS = 1_000_000
CLEARS_THE_SCREEN = "\x1b[2J\x07"
CERTIFIED = "ogpu_certifiedHeader"
PROOF_METHODS = ("state_getReadProof", "ogpu_callProof")
READ_METHODS = (*PROOF_METHODS, CERTIFIED, "state_getStorage", "state_call", "chain_getHeader")
NODES_TOO_MANY = 120_000
HUGE_BYTES = 17 * 1024 * 1024
# CPython converts long numbers in quadratic time (CVE-2020-10735), and recurses once for each bracket.
NESTING_DEPTH, DIGIT_COUNT = 200_000, 6_000
# JSON has few types, and dynamic code fails late on the wrong one: each of these is a value of a wrong type.
ODD_VALUES: Final[tuple[Any, ...]] = (7, -1, 2.5, True, "no", [], {}, [None], {"number": []}, "0x", "0xzz")
# The silence covers half of a reveal's window, so a provider that asks again soon enough misses nothing.
SLOW_SECONDS, OUT_OF_ORDER_SECONDS, SILENT_SECONDS = 0.3, 0.4, 5.0
DROPPED_EVERY, ANSWERS_BEFORE_THE_CUT = 4, 6
STRANGERS = tuple(Keypair.from_seed(Scheme.ED25519, bytes([number]) * 32) for number in range(ACTIVE_VALIDATORS_MAX))

NOT_BELIEVED: Final = ("do not believe",)
_NONSENSE = ("makes no sense", "is not a node of an ogpu chain")
_NO_RPC = ("does not speak JSON-RPC", "broke", "closed")

ValueOfLie = Callable[[NodeMessage, LyingConnection], Any]


def of_methods(*methods: str, is_item: bool | None = None) -> Callable[[NodeMessage], bool]:
    """Select answers of some methods. `is_item` selects only items of subscriptions, or only other answers."""
    return lambda message: message.method in methods and is_item in (None, message.is_item)


def is_answer(message: NodeMessage) -> bool:
    """Select messages that are no subscription items."""
    return not message.is_item


def shows_certified(message: NodeMessage) -> bool:
    """Select messages with a final header."""
    return message.method == CERTIFIED and isinstance(message.value, dict)


def is_proof(message: NodeMessage) -> bool:
    """Select proofs, including the proof of the first validators."""
    return message.method in PROOF_METHODS and isinstance(message.value, dict)


def odd_value(_: NodeMessage, connection: LyingConnection) -> Any:
    """Return a value of a wrong type, the next one at each call."""
    connection.memory["odd"] = value_number = connection.memory.get("odd", -1) + 1
    return ODD_VALUES[value_number % len(ODD_VALUES)]


def first_value(message: NodeMessage, connection: LyingConnection) -> RpcJson:
    """Return the first answer of a runtime API on this connection."""
    return connection.memory.setdefault(f"first {message.question.params[0]}", message.value)


# A program that reads an answer whole must bound its length first.
def huge_answer(*_: object) -> Replies:
    """Reply with more bytes than a program reads."""
    return [b'{"id":1,"result":"' + b"a" * HUGE_BYTES + b'"}']


def with_nodes(message: NodeMessage, nodes: list[str]) -> Replies:
    """Reply with other nodes of a proof."""
    return [message.saying({**message.value, "proof": nodes})]


# The signatures are valid, so only the set of the epoch shows that these keys do not count.
async def signed_by_strangers(certificate: Certificate, connection: LyingConnection) -> Certificate:
    """Return the certificate with signatures of keys that are no validators'."""
    genesis_hash = bytes.fromhex((await connection.ask("chain_getBlockHash", 0))[2:])
    ballot_bytes = ballot_payload(genesis_hash, certificate.ballot)
    forged_signatures = tuple(
        stranger.sign(ballot_bytes) for stranger, _ in zip(STRANGERS, certificate.signatures, strict=False)
    )
    return replace(certificate, signatures=forged_signatures)


def _is_genesis(message: NodeMessage) -> bool:
    return message.method == "chain_getBlockHash" and list(message.question.params) == [0]


def _one_lower(message: NodeMessage, connection: LyingConnection) -> RpcJson:
    false_height = connection.memory.get("height", int(message.value["number"], 16)) - 1
    connection.memory["height"] = false_height
    return {**message.value, "number": hex(max(0, false_height))}


def _with_entries(**changed_entries: Any) -> ValueOfLie:
    """Return a lie that changes some entries of the result."""
    return lambda message, _: {**message.value, **changed_entries}


def _with_header(change_value: Callable[[dict[str, RpcJson]], dict[str, RpcJson]]) -> ValueOfLie:
    return lambda message, _: {
        **message.value,
        "header": {**message.value["header"], **change_value(message.value["header"])},
    }


def _with_certificate(change_value: Callable[[Certificate], Certificate]) -> ValueOfLie:
    def value(message: NodeMessage, _: LyingConnection) -> RpcJson:
        return _with_encoded_certificate(message, change_value(_certificate(message)))

    return value


def _certificate(message: NodeMessage) -> Certificate:
    return CERTIFICATE.decode(bytes.fromhex(message.value["certificate"][2:]))


def _with_encoded_certificate(message: NodeMessage, certificate: Certificate) -> RpcJson:
    return {**message.value, "certificate": "0x" + CERTIFICATE.encode(certificate).hex()}


async def _with_strangers(message: NodeMessage, connection: LyingConnection) -> RpcJson:
    return _with_encoded_certificate(message, await signed_by_strangers(_certificate(message), connection))


# A certificate needs more than two thirds of the stake, so one good signature must not do.
def _one_signature(certificate: Certificate) -> Certificate:
    signer_bits = int.from_bytes(certificate.signers, "little")
    first_signer = (signer_bits & -signer_bits).to_bytes(len(certificate.signers), "little")
    return replace(certificate, signers=first_signer, signatures=certificate.signatures[:1])


# A check that counts signatures instead of signers would accept this.
def _every_signature(certificate: Certificate) -> Certificate:
    signatures = certificate.signatures[:1] * ACTIVE_VALIDATORS_MAX
    return replace(certificate, signers=b"\xff" * BITMAP_BYTES_MAX, signatures=signatures)


# An old block is certified as well as a new one, so only its age tells a client that it is being held back.
def _older(blocks_back: int) -> ValueOfLie:
    """Return a lie that tells the certified header of some blocks earlier."""

    async def value(message: NodeMessage, connection: LyingConnection) -> RpcJson:
        return await connection.ask(CERTIFIED, max(1, int(message.value["header"]["number"], 16) - blocks_back))

    return value


async def _older_certificate(message: NodeMessage, connection: LyingConnection) -> RpcJson:
    return {**message.value, "certificate": (await _older(STALE_BLOCKS)(message, connection))["certificate"]}


def _with_proof_nodes(change_value: Callable[[list[str]], list[Any]]) -> ValueOfLie:
    return lambda message, _: {**message.value, "proof": change_value(message.value["proof"])}


# The proof is right for its own state root, so it must be checked against the root of the block that was asked for.
async def _proof_of_before(message: NodeMessage, connection: LyingConnection) -> Replies | None:
    *params, block = message.question.params
    if not isinstance(block, str):
        return TRUTH
    height = int((await connection.ask("chain_getHeader", block))["number"], 16)
    # No state is older than that of block 0.
    if not height:
        return TRUTH
    older_header = await connection.ask(CERTIFIED, max(1, height - BLOCKS_BEFORE))
    older_block = await connection.ask("chain_getBlockHash", int(older_header["header"]["number"], 16))
    return with_nodes(message, (await connection.ask(message.method, *params, older_block))["proof"])


def _message_count(connection: LyingConnection) -> int:
    """Return the number of messages on this connection, including this one."""
    connection.memory["messages"] = message_count = connection.memory.get("messages", 0) + 1
    return int(message_count)


def _delay_every_second(message: NodeMessage, connection: LyingConnection) -> Replies | None:
    if _message_count(connection) % 2:
        return TRUTH
    connection.say(message.content, OUT_OF_ORDER_SECONDS)
    return []


async def _answer_slowly(message: NodeMessage, _: LyingConnection) -> Replies:
    await asyncio.sleep(SLOW_SECONDS)
    return [message.content]


# The connection breaks after some answers, in the middle of a command, where a program could act twice.
def _cut_after_answers(_: NodeMessage, connection: LyingConnection) -> Replies | None:
    if _message_count(connection) <= ANSWERS_BEFORE_THE_CUT:
        return TRUTH
    connection.hang_up()
    return []


_IS_HEAD = of_methods("chain_subscribeFinalizedHeads", is_item=True)
_IS_READ = of_methods(*READ_METHODS)
_LONG_CERTIFICATE = "0x" + "00" * (100 * CERTIFICATE_BYTES_MAX)
_SHOUTED = {"code": -32000, "message": CLEARS_THE_SCREEN + "your account is empty\r\x1b[31m"}

NODE_LIES = (
    NodeLie("foreign_genesis", "Block 0 is another chain's.", BUYERS, NOT_BELIEVED,
            when=_is_genesis, value=lambda *_: FOREIGN_HASH),
    NodeLie("changed_genesis", "The node went away, and names another block 0 when it comes back.", (PROVIDER,),
            ("another chain", *NOT_BELIEVED), when=_is_genesis, value=lambda *_: FOREIGN_HASH, is_met_anew=True),
    NodeLie("other_rules", "The chain runs the next version of its rules.", BUYERS, ("the release that matches",),
            when=of_methods("state_getRuntimeVersion"),
            value=lambda message, _: {**message.value, "specVersion": message.value["specVersion"] + 1}),
    NodeLie("no_parameters", "The chain has no parameters.", BUYERS, _NONSENSE[1:],
            when=of_methods("ogpu_parameters"), value=lambda *_: {}),
    NodeLie("shouted_name", "The chain's name clears the screen.", BUYERS,
            when=of_methods("system_chain"), value=lambda *_: CLEARS_THE_SCREEN + "mainnet"),
    NodeLie("head_stands_still", "The node reports no new block.", (PROVIDER,), when=_IS_HEAD, replies=lambda *_: []),
    NodeLie("heads_go_back", "Each new block is one lower than the one before.", (PROVIDER,),
            when=_IS_HEAD, value=_one_lower),
    NodeLie("heads_without_number", "New blocks have no height.", (PROVIDER,),
            when=_IS_HEAD, value=lambda *_: {"number": None}),
    # --- final headers and their certificates
    NodeLie("signed_by_strangers", "Keys of no validators certify the final block.", EVERYBODY,
            NOT_BELIEVED, when=shows_certified, value=_with_strangers),
    NodeLie("signed_by_one", "The final block is certified by a single validator.", EVERYBODY, NOT_BELIEVED,
            when=shows_certified, value=_with_certificate(_one_signature)),
    NodeLie("signed_by_too_many", "The certificate bears one signature as many times as its form allows.",
            EVERYBODY, NOT_BELIEVED, when=shows_certified, value=_with_certificate(_every_signature)),
    NodeLie("certificate_of_before", "The newest header comes with the certificate of an older one.", EVERYBODY,
            NOT_BELIEVED, when=shows_certified, value=_older_certificate),
    NodeLie("certificate_without_end", "The certificate is longer than any.", EVERYBODY, NOT_BELIEVED,
            when=shows_certified, value=_with_entries(certificate=_LONG_CERTIFICATE)),
    NodeLie("header_of_another_state", "The final header commits to another state.", EVERYBODY, NOT_BELIEVED,
            when=shows_certified, value=_with_header(lambda _: {"stateRoot": FOREIGN_HASH})),
    NodeLie("future_head", "The final block has a height that the chain will have in weeks.", EVERYBODY, NOT_BELIEVED,
            when=shows_certified,
            value=_with_header(lambda header: {"number": hex(int(header["number"], 16) + FUTURE_BLOCKS)})),
    NodeLie("header_without_digest", "The final header names neither its author nor its slot.", EVERYBODY,
            NOT_BELIEVED, when=shows_certified, value=_with_header(lambda _: {"digest": {"logs": []}})),
    NodeLie("nothing_is_certified", "No block has a certificate.", BUYERS, ("no block is final yet", *NOT_BELIEVED),
            when=shows_certified, value=lambda *_: None),
    NodeLie("certificates_lost", "No block has a certificate any more.", (PROVIDER,), NOT_BELIEVED,
            when=shows_certified, value=lambda *_: None),
    NodeLie("stale_head", "The newest final block is half a minute old.", BUYERS,
            ("old: what it shows", *NOT_BELIEVED), when=shows_certified, value=_older(STALE_BLOCKS)),
    NodeLie("certified_goes_back", "The newest final block is an earlier one: a provider keeps the one it saw.",
            (PROVIDER,), when=shows_certified, value=_older(BLOCKS_BEFORE)),
    NodeLie("anew_from_before", "The node went away, and comes back with an earlier final block.", (PROVIDER,),
            ("an earlier answer had final block",), when=shows_certified, value=_older(BLOCKS_BEFORE),
            is_met_anew=True),
    # --- proofs
    NodeLie("proofs_with_holes", "Every second node of a proof is left out.", EVERYBODY, NOT_BELIEVED,
            when=is_proof, value=_with_proof_nodes(lambda nodes: nodes[1::2])),
    NodeLie("proofs_of_nothing", "A proof has no node at all.", EVERYBODY, NOT_BELIEVED,
            when=is_proof, value=_with_proof_nodes(lambda _: [])),
    NodeLie("proofs_cut", "The nodes of a proof end after their first bytes.", EVERYBODY, NOT_BELIEVED,
            when=is_proof, value=_with_proof_nodes(lambda nodes: [node[:10] for node in nodes])),
    NodeLie("proofs_of_many", "A proof has more nodes than any.", EVERYBODY, NOT_BELIEVED,
            when=is_proof, value=_with_proof_nodes(lambda nodes: [*nodes, *["0x00"] * NODES_TOO_MANY])),
    NodeLie("proofs_of_odd_nodes", "The nodes of a proof are numbers.", EVERYBODY, NOT_BELIEVED,
            when=is_proof, value=_with_proof_nodes(lambda _: [7, 8])),
    NodeLie("proofs_of_before", "Proofs are right, of an older state.", EVERYBODY, NOT_BELIEVED,
            when=is_proof, replies=_proof_of_before),
    # --- malformed answers
    NodeLie("nothing_at_all", "Every answer is null.", BUYERS, _NONSENSE, when=is_answer, value=lambda *_: None),
    NodeLie("odd_types", "Reads return any type but the right one.", EVERYBODY, (*_NONSENSE, "refused"),
            when=_IS_READ, value=odd_value),
    NodeLie("odd_items", "A provider's subscriptions carry any type but the right one; they are a bell and no more.",
            (PROVIDER,), when=lambda message: message.is_item, value=odd_value),
    NodeLie("no_json", "Every message is a web page.", BUYERS, _NO_RPC,
            replies=lambda *_: [b"<html><body>502 Bad Gateway</body></html>"]),
    NodeLie("no_text", "Every message is bytes that are no text.", BUYERS, _NO_RPC,
            replies=lambda *_: [b"\xff\xfe\x00\xd8"]),
    NodeLie("too_deep", "Answers are brackets within brackets.", EVERYBODY, (*_NO_RPC, "away"),
            when=_IS_READ, replies=lambda *_: [b"[" * NESTING_DEPTH]),
    NodeLie("huge", "Answers are larger than a program reads.", EVERYBODY, (*_NO_RPC, "away"),
            when=_IS_READ, replies=huge_answer),
    NodeLie("endless_number", "Answers are one number of thousands of digits.", BUYERS, _NO_RPC,
            replies=lambda *_: [b'{"id":1,"result":' + b"9" * DIGIT_COUNT + b"}"]),
    NodeLie("odd_error", "Errors are a text, where they should be an object.", BUYERS, _NO_RPC,
            when=is_answer, replies=lambda message, _: [message.failing("no")]),
    NodeLie("shouted_error", "Errors clear the screen.", BUYERS, ("refused",),
            when=is_answer, replies=lambda message, _: [message.failing(_SHOUTED)]),
    # --- delivery
    NodeLie("mute", "Nothing is ever answered.", BUYERS, ("did not answer",), replies=lambda *_: []),
    NodeLie("drops_some", "One message of four is lost.", BUYERS, ("did not answer", "reported nothing"),
            replies=lambda _, connection: TRUTH if _message_count(connection) % DROPPED_EVERY else []),
    NodeLie("falls_silent", "Nothing is answered for a while.", (PROVIDER,), replies=lambda *_: [],
            seconds=SILENT_SECONDS),
    NodeLie("doubled", "Everything arrives twice.", EVERYBODY,
            replies=lambda message, _: [message.content, message.content]),
    NodeLie("out_of_order", "Every second message is overtaken by those after it.", EVERYBODY,
            replies=_delay_every_second),
    NodeLie("slow", "Each message takes its time.", EVERYBODY, replies=_answer_slowly),
    NodeLie("to_somebody_else", "Answers name a question that was not asked.", BUYERS, ("did not answer",),
            when=is_answer, replies=lambda message, _: [{**message.content, "id": -1}]),
    NodeLie("cut_off", "The connection breaks after some answers.", BUYERS, ("broke", "closed"),
            replies=_cut_after_answers),
    NodeLie("cut_off_again_and_again", "The connection breaks, each time anew.", (PROVIDER,),
            ("the node is away", "away"), replies=_cut_after_answers),
)  # fmt: skip
