"""Lies about the chain and its final blocks, proofs that prove nothing, answers that are none or badly delivered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from consensus.certificates import BITMAP_BYTES_MAX, CERTIFICATE, Certificate
from consensus.parameters import ACTIVE_VALIDATORS_MAX
from devnet.proofs.liars.lie import TRUTH, Mouth, NodeLie, NodeMessage, Noticed, Program, Replies, lie, pause
from runtime.blocks.digest import CERTIFICATE_BYTES_MAX
from runtime.blocks.votes import ballot_payload
from runtime.cryptography.signatures import Scheme
from wallet.keypair import Keypair

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


CERTIFIED = "ogpu_certifiedHeader"
NOT_BELIEVED: Final = ("do not believe",)
BLOCKS_BEFORE = 8
STRANGERS = tuple(Keypair.from_seed(Scheme.ED25519, bytes([number]) * 32) for number in range(ACTIVE_VALIDATORS_MAX))


def shows_certified(message: NodeMessage) -> bool:
    """Whether a message shows a final header."""
    return message.method == CERTIFIED and isinstance(message.value, dict)


def height_of(message: NodeMessage) -> int:
    """Of the header that it shows."""
    return int(message.value["header"]["number"], 16)


def _certificate(message: NodeMessage) -> Certificate:
    return CERTIFICATE.decode(bytes.fromhex(message.value["certificate"][2:]))


def _with_certificate(message: NodeMessage, certificate: Certificate | bytes) -> Replies:
    raw = certificate if isinstance(certificate, bytes) else CERTIFICATE.encode(certificate)
    return [message.saying({**message.value, "certificate": "0x" + raw.hex()})]


def _with_header(message: NodeMessage, **changed: str) -> Replies:
    return [message.saying({**message.value, "header": {**message.value["header"], **changed}})]


@lie(WALLET, CUSTOMER, PROVIDER, words=NOT_BELIEVED)
async def signed_by_strangers(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """The final block is certified by people who are no validators."""
    if not shows_certified(message):
        return TRUTH
    genesis = bytes.fromhex((await mouth.ask("chain_getBlockHash", 0))[2:])
    certificate = _certificate(message)
    payload = ballot_payload(genesis, certificate.ballot)
    forged = tuple(key.sign(payload) for key, _ in zip(STRANGERS, certificate.signatures, strict=False))
    return _with_certificate(message, replace(certificate, signatures=forged))


@lie(WALLET, CUSTOMER, PROVIDER, words=NOT_BELIEVED)
def signed_by_one(message: NodeMessage, _: Mouth) -> Replies | None:
    """The final block is certified by a single validator."""
    if not shows_certified(message):
        return TRUTH
    certificate = _certificate(message)
    bits = int.from_bytes(certificate.signers, "little")
    first = (bits & -bits).to_bytes(len(certificate.signers), "little")
    return _with_certificate(message, replace(certificate, signers=first, signatures=certificate.signatures[:1]))


@lie(WALLET, CUSTOMER, PROVIDER, words=NOT_BELIEVED)
def signed_by_too_many(message: NodeMessage, _: Mouth) -> Replies | None:
    """The certificate bears as many signatures as its form allows, the same one again and again."""
    if not shows_certified(message):
        return TRUTH
    certificate = _certificate(message)
    signatures = certificate.signatures[:1] * ACTIVE_VALIDATORS_MAX
    return _with_certificate(message, replace(certificate, signers=b"\xff" * BITMAP_BYTES_MAX, signatures=signatures))


@lie(WALLET, CUSTOMER, PROVIDER, words=NOT_BELIEVED)
async def certificate_of_before(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """The newest header comes with the certificate of an older one."""
    if not shows_certified(message):
        return TRUTH
    older = await mouth.ask(CERTIFIED, max(1, height_of(message) - STALE_BLOCKS))
    return [message.saying({**message.value, "certificate": older["certificate"]})]


@lie(WALLET, CUSTOMER, PROVIDER, words=NOT_BELIEVED)
def certificate_without_end(message: NodeMessage, _: Mouth) -> Replies | None:
    """The certificate is longer than any."""
    return _with_certificate(message, b"\x00" * (100 * CERTIFICATE_BYTES_MAX)) if shows_certified(message) else TRUTH


@lie(WALLET, CUSTOMER, PROVIDER, words=NOT_BELIEVED)
def header_of_another_state(message: NodeMessage, _: Mouth) -> Replies | None:
    """The final header commits to another state."""
    return _with_header(message, stateRoot=FOREIGN) if shows_certified(message) else TRUTH


@lie(WALLET, CUSTOMER, PROVIDER, words=NOT_BELIEVED)
def future_head(message: NodeMessage, _: Mouth) -> Replies | None:
    """The final block has a height that the chain will have in weeks."""
    if not shows_certified(message):
        return TRUTH
    return _with_header(message, number=hex(height_of(message) + FUTURE_BLOCKS))


@lie(WALLET, CUSTOMER, PROVIDER, words=NOT_BELIEVED)
def header_without_digest(message: NodeMessage, _: Mouth) -> Replies | None:
    """The final header says neither who made it nor when."""
    if not shows_certified(message):
        return TRUTH
    header = {**message.value["header"], "digest": {"logs": []}}
    return [message.saying({**message.value, "header": header})]


@lie(WALLET, CUSTOMER, words=("no block is final yet", *NOT_BELIEVED))
def nothing_is_certified(message: NodeMessage, _: Mouth) -> Replies | None:
    """No block has a certificate."""
    return [message.saying(None)] if shows_certified(message) else TRUTH


@lie(PROVIDER, words=NOT_BELIEVED)
def certificates_lost(message: NodeMessage, _: Mouth) -> Replies | None:
    """No block has a certificate any more."""
    return [message.saying(None)] if shows_certified(message) else TRUTH


@lie(WALLET, CUSTOMER, words=("old: what it shows", *NOT_BELIEVED))
async def stale_head(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """The newest final block is one of half a minute ago."""
    if not shows_certified(message):
        return TRUTH
    return [message.saying(await mouth.ask(CERTIFIED, max(1, height_of(message) - STALE_BLOCKS)))]


@lie(PROVIDER, noticed=Noticed.HARMLESS)
async def certified_goes_back(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """The newest final block is one of some blocks before: what was seen stays seen."""
    return await _of_before(message, mouth)


@lie(PROVIDER, words=("was final before",), is_met_anew=True)
async def anew_from_before(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """The node went away, and its newest final block is one of some blocks before when it comes back."""
    return await _of_before(message, mouth)


async def _of_before(message: NodeMessage, mouth: Mouth) -> Replies | None:
    if not shows_certified(message):
        return TRUTH
    return [message.saying(await mouth.ask(CERTIFIED, max(1, height_of(message) - BLOCKS_BEFORE)))]


PROVING = ("state_getReadProof", "ogpu_callProof")
NODES_TOO_MANY = 120_000


def proves(message: NodeMessage) -> bool:
    """Whether a message is a proof, be it the one of who the first validators are."""
    return message.method in PROVING and isinstance(message.value, dict)


def with_nodes(message: NodeMessage, nodes: list[str]) -> Replies:
    """The message with another proof."""
    return [message.saying({**message.value, "proof": nodes})]


@lie(*Program, words=NOT_BELIEVED)
def proofs_with_holes(message: NodeMessage, _: Mouth) -> Replies | None:
    """Every second node of a proof is left out."""
    return with_nodes(message, message.value["proof"][1::2]) if proves(message) else TRUTH


@lie(*Program, words=NOT_BELIEVED)
def proofs_of_nothing(message: NodeMessage, _: Mouth) -> Replies | None:
    """A proof has no node at all."""
    return with_nodes(message, []) if proves(message) else TRUTH


@lie(*Program, words=NOT_BELIEVED)
def proofs_cut(message: NodeMessage, _: Mouth) -> Replies | None:
    """The nodes of a proof end after their first bytes."""
    return with_nodes(message, [node[:10] for node in message.value["proof"]]) if proves(message) else TRUTH


@lie(*Program, words=NOT_BELIEVED)
def proofs_of_many(message: NodeMessage, _: Mouth) -> Replies | None:
    """A proof has more nodes than any."""
    return with_nodes(message, [*message.value["proof"], *["0x00"] * NODES_TOO_MANY]) if proves(message) else TRUTH


@lie(*Program, words=NOT_BELIEVED)
def proofs_of_odd_nodes(message: NodeMessage, _: Mouth) -> Replies | None:
    """The nodes of a proof are numbers."""
    return [message.saying({**message.value, "proof": [7, 8]})] if proves(message) else TRUTH


@lie(*Program, words=NOT_BELIEVED)
async def proofs_of_before(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """Proofs are right, of an older state than the one that was asked for."""
    if not proves(message):
        return TRUTH
    *asked, at = message.question.params
    if not isinstance(at, str):
        return TRUTH
    newer = await mouth.ask("chain_getHeader", at)
    height = int(newer["number"], 16)
    if not height:
        return TRUTH
    older = await mouth.ask(CERTIFIED, max(1, height - BLOCKS_BEFORE))
    block = await mouth.ask("chain_getBlockHash", int(older["header"]["number"], 16))
    true = await mouth.ask(message.method, *asked, block)
    return with_nodes(message, true["proof"])


HUGE_BYTES = 17 * 1024 * 1024
DEPTH = 200_000
DIGITS = 6_000
ODD_VALUES: Final[tuple[Any, ...]] = (7, -1, 2.5, True, "no", [], {}, [None], {"number": []}, "0x", "0xzz")
READS = (
    "state_getStorage", "state_call", "state_getReadProof", "ogpu_callProof", "ogpu_certifiedHeader", "chain_getHeader",
)  # fmt: skip
FLIPPED_LENGTH_MIN = 66

_NONSENSE = ("makes no sense", "does not answer as a node of this chain does")
_NO_RPC = ("does not speak JSON-RPC", "broke", "closed")


@lie(WALLET, CUSTOMER, words=_NONSENSE)
def nothing_at_all(message: NodeMessage, _: Mouth) -> Replies | None:
    """Every answer is null."""
    return TRUTH if message.is_item else [message.saying(None)]


@lie(WALLET, CUSTOMER, PROVIDER, words=(*_NONSENSE, "refused"))
def odd_types(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """What is read is of any type but the right one."""
    if message.method not in READS:
        return TRUTH
    mouth.memory["odd"] = number = mouth.memory.get("odd", -1) + 1
    return [message.saying(ODD_VALUES[number % len(ODD_VALUES)])]


@lie(PROVIDER, noticed=Noticed.HARMLESS)
def odd_items(message: NodeMessage, mouth: Mouth) -> Replies | None:
    """What a provider subscribed to is of any type but the right one: it is a bell and no more."""
    if not message.is_item:
        return TRUTH
    mouth.memory["odd"] = number = mouth.memory.get("odd", -1) + 1
    return [message.saying(ODD_VALUES[number % len(ODD_VALUES)])]


@lie(WALLET, CUSTOMER, words=_NO_RPC)
def no_json(_message: NodeMessage, _: Mouth) -> Replies | None:
    """Every message is a web page."""
    return [b"<html><body>502 Bad Gateway</body></html>"]


@lie(WALLET, CUSTOMER, words=_NO_RPC)
def no_text(_message: NodeMessage, _: Mouth) -> Replies | None:
    """Every message is bytes that are no text."""
    return [b"\xff\xfe\x00\xd8"]


@lie(*Program, words=(*_NO_RPC, "away"))
def too_deep(message: NodeMessage, _: Mouth) -> Replies | None:
    """Answers are brackets within brackets."""
    return [b"[" * DEPTH] if message.method in READS else TRUTH


@lie(*Program, words=(*_NO_RPC, "away"))
def huge(message: NodeMessage, _: Mouth) -> Replies | None:
    """Answers are larger than a program reads."""
    return [b'{"id":1,"result":"' + b"a" * HUGE_BYTES + b'"}'] if message.method in READS else TRUTH


@lie(WALLET, CUSTOMER, words=_NO_RPC)
def endless_number(_message: NodeMessage, _: Mouth) -> Replies | None:
    """Answers are one number of thousands of digits."""
    return [b'{"id":1,"result":' + b"9" * DIGITS + b"}"]


@lie(WALLET, CUSTOMER, words=_NO_RPC)
def odd_error(message: NodeMessage, _: Mouth) -> Replies | None:
    """Errors are a text, where they should be an object."""
    return TRUTH if message.is_item else [message.failing("no")]


@lie(WALLET, CUSTOMER, words=("refused",))
def shouted_error(message: NodeMessage, _: Mouth) -> Replies | None:
    """Errors clear the screen of whoever prints them."""
    if message.is_item:
        return TRUTH
    return [message.failing({"code": -32000, "message": CLEARS_THE_SCREEN + "your account is empty\r\x1b[31m"})]


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


LIES = tuple(each for each in list(globals().values()) if isinstance(each, NodeLie))
