"""Chats whose provider or customer is killed with SIGKILL amid an answer."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from devnet.launcher import processes
from devnet.launcher.folder import DevnetError
from devnet.proofs.chats import sold_sessions
from devnet.proofs.chats.chat_program import ChatProgram
from devnet.proofs.chats.network import SETTLE_BLOCKS, ChatStage
from devnet.proofs.chats.sold_sessions import KeptSession, OneRun, OpenedSession
from devnet.stage.actors.purchase import name_of_account
from gpu_tasks.market.sessions.events import SessionHandedOver
from gpu_tasks.market.sessions.vouchers import amount_of
from gpu_tasks.sessions.messages import UNPAID_TOKENS_MAX

PLACES = 4
KILL_PIECES = 24
"""The pieces of text before the provider dies, and the most new ones before the customer does. Vouchers are there."""
POLL_SECONDS = 0.02
STREAM_SECONDS = 300.0
CLAIM_BLOCKS = 2 * SETTLE_BLOCKS
QUESTIONS = (
    "Explain in detail how rain forms, from the sea to the drop.",
    "Tell the history of the printing press, step by step.",
    "Describe a day in the life of a bee, hour by hour.",
)


@dataclass(slots=True)
class KilledChat:
    """The outcome of one session. Amounts are in grains."""

    kills: int = 0
    answers: int = 0
    whole_answers: int = 0
    """Those whose tokens are those of one run in one process."""
    tokens: int = 0
    """Received, by the customer's file."""
    unpaid_tokens: int = 0
    """Received beyond the vouchers of the claims. A kill loses those that were on their way."""
    is_text_right: bool = False
    """True if the last program showed the text of the file's tokens."""
    handed_over: int = 0
    legs: int = 1
    claimed: dict[str, int] = field(default_factory=dict)
    """By provider."""
    promised: dict[int, int] = field(default_factory=dict)
    """The amount of the customer's newest voucher, by period."""
    claimed_periods: dict[int, int] = field(default_factory=dict)
    repeated_claims: int = 0
    silent_seconds: float = 0.0
    """From the kill of the provider to the next piece of text."""
    seed: int = 0


def failures_of(chat: KilledChat) -> Iterator[str]:
    """Yield every failed requirement of both parts."""
    if chat.whole_answers != chat.answers:
        yield f"{chat.answers - chat.whole_answers} of {chat.answers} answers are not those of one run in one process"
    if not chat.is_text_right:
        yield "the program's text is not that of the tokens in its file"
    if chat.repeated_claims:
        yield f"{chat.repeated_claims} periods were claimed twice"
    for period, amount in chat.promised.items():
        claimed = chat.claimed_periods.get(period, 0)
        if not claimed:
            yield f"period {period} with vouchers for {amount} grains was never claimed"
        elif claimed > amount:
            yield f"period {period} was claimed for {claimed} grains, and its newest voucher promises {amount}"
    for period in chat.claimed_periods.keys() - chat.promised.keys():
        yield f"period {period} was claimed without a voucher of the customer"
    if not 0 <= chat.unpaid_tokens <= UNPAID_TOKENS_MAX * chat.kills:
        yield f"{chat.unpaid_tokens} received tokens are unpaid after {chat.kills} kills"


def provider_failures_of(chat: KilledChat) -> Iterator[str]:
    """Yield every failed requirement of a killed provider."""
    yield from failures_of(chat)
    if (chat.handed_over, chat.legs) != (1, 2):
        yield f"the session was handed over {chat.handed_over} times"
    if len([amount for amount in chat.claimed.values() if amount]) != 2:
        yield f"the former provider and the spare were not both paid: {chat.claimed}"


def customer_failures_of(chat: KilledChat) -> Iterator[str]:
    """Yield every failed requirement of a killed customer."""
    yield from failures_of(chat)
    if chat.kills < 1:
        yield "no program was killed amid an answer: raise --tokens"
    if chat.claimed_periods != chat.promised:
        yield f"the claims come to {chat.claimed_periods} grains, and the newest vouchers to {chat.promised}"


def kill_provider(stage: ChatStage) -> KilledChat:
    """Kill the provider amid an answer, and follow the chat to its spare and the session to its claims."""
    seat, chat = _session_with_spare(stage), KilledChat()
    words = stage.chat_words(seat, stage.options.tokens)
    with ChatProgram(stage, sold_sessions.log_file(stage, "killed-provider"), *words, question=QUESTIONS[0]) as program:
        _wait_for_pieces(program, KILL_PIECES)
        stage.kill(seat.provider)
        chat.kills, killed_at = 1, time.monotonic()
        stage.narrator.line(f"killed the provider of {seat.provider} with -9 after {program.pieces} pieces of text")
        text = program.last_text()
        chat.silent_seconds = program.longest_silence_from(killed_at)
    stage.start(seat.provider)
    _finish(stage, seat, chat, text)
    return chat


def kill_customer(stage: ChatStage) -> KilledChat:
    """Kill `ogpu chat` amid answers, start it again each time, and follow the session to its claims."""
    seat, chat = _session_with_spare(stage), KilledChat(seed=stage.options.seed)
    chance = random.Random(chat.seed)
    words, text = stage.chat_words(seat, stage.options.tokens), ""
    for number in range(stage.options.kills + 1):
        question = QUESTIONS[number % len(QUESTIONS)]
        log = sold_sessions.log_file(stage, f"killed-customer-{number}")
        # The known part of an interrupted answer comes at once, and says nothing about the stream.
        known = sold_sessions.tokens_amid_answer(stage, seat.session)
        with ChatProgram(stage, log, *words, question=question) as program:
            if number < stage.options.kills:
                _wait_for_pieces(program, known + chance.randrange(1, KILL_PIECES))
                time.sleep(chance.random() / 2)
                if not program.is_running:
                    continue
                stage.narrator.line(f"killed `ogpu chat` with -9 after {program.pieces} pieces of text")
                program.kill()
                chat.kills += 1
                continue
            # The rest of the interrupted answer comes first.
            text = program.last_text()
    _finish(stage, seat, chat, text)
    return chat


def _session_with_spare(stage: ChatStage) -> OpenedSession:
    stage.offer_places(dict.fromkeys(stage.sellers, PLACES))
    seat = stage.open_session()
    if seat.spare is None:
        raise DevnetError("the session has no spare, though three providers offer places")
    return seat


def _wait_for_pieces(program: ChatProgram, pieces: int) -> None:
    """Wait for pieces of text, or for the program's end."""
    is_there = processes.until(lambda: program.pieces >= pieces or not program.is_running, STREAM_SECONDS, POLL_SECONDS)
    if not is_there:
        raise DevnetError(f"`ogpu chat` has brought {program.pieces} pieces of text: {program.notes}")


def _finish(stage: ChatStage, seat: OpenedSession, chat: KilledChat, last_text: str) -> None:
    """Close the session, wait for its claims, and compare tokens, text and claims."""
    kept = sold_sessions.kept_session(stage, seat.session)
    record = sold_sessions.record_of(stage, seat.session)
    assert record is not None, "a session that nobody has closed is open"
    chat.promised = {
        voucher.period: amount_of(record.rate, record.input_share, voucher.totals) for voucher in kept.vouchers
    }
    stage.close(seat)
    trace = stage.trace(seat)
    # A period that is never claimed is a failed requirement, and no failure of the proof.
    with contextlib.suppress(DevnetError):
        is_claimed = f"every period of session {seat.text[:10]} is claimed"
        stage.wait_until(is_claimed, lambda: len(trace.periods) >= len(chat.promised), CLAIM_BLOCKS)
    for claim, _ in trace.periods:
        chat.repeated_claims += claim.period in chat.claimed_periods
        chat.claimed_periods[claim.period] = claim.amount
        name = name_of_account(claim.owner)
        chat.claimed[name] = chat.claimed.get(name, 0) + claim.amount
    chat.handed_over = len(trace.events(SessionHandedOver))
    chat.legs = 1 + chat.handed_over
    chat.unpaid_tokens = kept.tokens_received - kept.tokens_paid
    _compare_answers(stage, kept, chat, last_text)


def _compare_answers(stage: ChatStage, kept: KeptSession, chat: KilledChat, last_text: str) -> None:
    form = sold_sessions.model_form(stage.options.model)
    right = OneRun(form)
    chat.answers, chat.tokens = len(kept.turns), kept.tokens_received
    chat.whole_answers = sum(turn.is_over and right.tokens(turn.request) == turn.tokens for turn in kept.turns)
    pieces = form.pieces()
    chat.is_text_right = last_text == "".join([*map(pieces.push, kept.turns[-1].tokens), pieces.finish()])
