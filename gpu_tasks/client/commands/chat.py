"""`ogpu chat`: questions and streamed answers in a session, on a terminal or through a pipe.

Invariant: standard output holds answers alone, or lines of JSON. Notes, costs and questions go to standard error.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import click

from cli.output import as_text, plain
from cli.prompts import require_agreement
from cli.session import CallFailedError, WalletSession, note
from gpu_tasks.client.buyer import buyer_for
from gpu_tasks.client.commands.calls import other_command
from gpu_tasks.client.commands.session_stream import form_of_session, present_provider, signer_of
from gpu_tasks.client.commands.sessions import (
    SessionWish,
    named_session,
    names_model,
    opened_id,
    plan_session,
    seated,
    send_unseen,
    sessions_folder,
)
from gpu_tasks.client.sessions.chat import SYSTEM, Chat
from gpu_tasks.client.sessions.session_client import NextProvider, ProviderGoneError, SessionClient
from gpu_tasks.client.sessions.session_money import left_for_tokens
from gpu_tasks.client.sessions.session_reads import KnownSession, SessionError, is_usable, session_of, sessions_of
from gpu_tasks.client.sessions.session_store import SessionFile
from gpu_tasks.client.spending import note_closing, note_session
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.sessions.records import SessionState, spare_of
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.sessions.provider_end import SessionRefusal
from gpu_tasks.workloads.form import RequestError
from wallet.amounts import Grains, counted
from wallet.client import ChainClient
from wallet.errors import WalletError, harmless
from wallet.keypair import Keypair
from wallet.rpc import NodeUnreachableError, RpcError

QUESTION_CHARACTERS_MAX = 256 * 1024
QUOTED_MAX = 120
"""The characters of an earlier question that a note repeats."""
PROMPT = "> "
Awaited = TypeVar("Awaited")
COST, QUIT = "/cost", "/quit"
COMMANDS = f"{COST} shows the cost, {QUIT} leaves, Ctrl-C cuts an answer"
LAST_ANSWERS = (
    "the rest of the deposit may be too small for another answer of this length. Use fewer --max-tokens, or open "
    "another session"
)
OVER = "session_over"
"""The code with which a provider ends the streams of a session that is over."""
ENDED = frozenset({"session_closing", "session_unknown"})
"""The codes of errors about a session that is over on the chain."""
REFUSALS = {
    "deposit_spent": "the session has too little left for such an answer. Ask for fewer tokens with --max-tokens, or "
    "close it and open another",
}
"""Refusals whose remedy the provider's words do not name."""


class TypedLines(Protocol):
    """A person's lines."""

    async def next(self) -> str | None:
        """Return the next line, or None at the end."""
        ...


@dataclass(frozen=True, slots=True)
class ChatWish:
    """The options of a chat."""

    wish: SessionWish
    session_text: str | None
    system: str | None
    temperature: str
    max_tokens: int
    seed: int | None
    is_kept: bool
    is_agreed: bool


def chat(
    session: WalletSession, /, model_text: str, question: str | None, key_text: str, session_text: str | None,
    system_text: str | None, is_kept: bool, is_agreed: bool, **given: Any,
) -> None:  # fmt: skip
    """Carry out `ogpu chat`."""
    wish = SessionWish(
        model_text, given["service"], given["deposit"], given["term"], given["rate"], given["budget_text"]
    )
    wanted = ChatWish(
        wish, session_text, system_text, given["temperature"], given["max_tokens"], given["seed"], is_kept, is_agreed
    )  # fmt: skip
    is_piped = not sys.stdin.isatty()
    question = _asked(question, _piped() if is_piped else None)

    async def body() -> None:
        keypair = session.key(key_text)
        async with await session.connect() as client:
            found = await _session_for(session, client, keypair, wanted, is_piped=is_piped)
            genesis, folder = client.genesis_hash, sessions_folder(session, client)
        with SessionFile(folder, found.id) as store, session.doing(None):
            stream = SessionClient(
                found.terms(genesis), form_of_session(found), store, signer_of(genesis, keypair),
                present_provider(session, found, keypair), _next_provider(session, found.id, keypair),
            )  # fmt: skip
            stream.on_break, stream.on_wait = _Breaks(), _tell_wait
            stream.require_open = partial(_require_open, session, found.id, keypair)
            if wanted.system is not None:
                store.keep_fact(SYSTEM, wanted.system)
            talk = Chat(
                stream,
                form_of_session(found),
                store,
                {"temperature": wanted.temperature},
                wanted.max_tokens,
                wanted.seed,
            )
            screen = Screen(is_json=session.output.as_json)
            try:
                await _converse(talk, stream, screen, found, question)
                await stream.settle()
            except SessionError as error:
                if error.code not in ENDED:
                    _tell_open(found)
                raise
            finally:
                await stream.close()
        await _leave(session, found, keypair, is_kept=is_kept)

    session.run_connecting(body)


def _piped() -> str:
    return sys.stdin.read(QUESTION_CHARACTERS_MAX + 1)


def _asked(argument: str | None, piped: str | None) -> str | None:
    """Return the question of the command line and of a pipe together, or None for a person at a terminal."""
    if argument is None and piped is None:
        return None
    question = "\n\n".join(each.strip("\n") for each in (argument, piped) if each is not None and each.strip())
    if len(question) > QUESTION_CHARACTERS_MAX:
        raise SessionError(
            f"a question has at most {QUESTION_CHARACTERS_MAX:,} characters. Shorten it", code="question_too_long"
        )
    if not question:
        raise SessionError(
            "there is no question. Name one after the model, pipe a text in, or use a terminal", code="no_question"
        )
    return question


# ------------------------------------------------------------------------------------------------------ the session


async def _session_for(
    session: WalletSession, client: ChainClient, keypair: Keypair, wanted: ChatWish, *, is_piped: bool
) -> KnownSession:
    """Return an open session of the model: the named one, the newest of this key, or a new one."""
    text = wanted.wish.model
    if wanted.session_text is not None:
        found = await named_session(session, client, wanted.session_text, keypair.account)
        if not names_model(text, found.record.workload, found.record.model):
            raise SessionError(
                f"the session is for the model 0x{found.record.model.hex()}, not {text}. Name its model",
                code="other_model",
            )
        _require_use(found, keypair)
    else:
        known = await sessions_of(client, keypair.account, sessions_folder(session, client))
        buyer = await buyer_for(client, keypair.account, wanted.wish.budget)
        usable = [
            each
            for each in known
            if is_usable(each)
            and each.record.signer == keypair.account
            and (buyer.budget is None or each.record.customer == buyer.customer)
            and wanted.wish.service in (None, each.record.service)
            and names_model(text, each.record.workload, each.record.model)
        ]
        found = usable[-1] if usable else await _opened(session, client, keypair, wanted, is_piped=is_piped)
    if found.record.state is SessionState.WAITING:
        note("waiting for the draw of a provider")
        found = await seated(session, client, found.id)
    note(f"session 0x{found.id.hex()}, {counted(found.blocks_left, 'block')} left")
    return found


def _require_use(found: KnownSession, keypair: Keypair) -> None:
    if found.record.signer != keypair.account:
        raise SessionError("another key signs the vouchers of this session. Name it with --key", code="other_signer")
    if not is_usable(found):
        raise _session_over(found)


def _session_over(found: KnownSession) -> SessionError:
    """Return the error about a session that takes no more questions, with the next step."""
    why = "its term has ended" if found.height >= found.record.expires_at else "it was closed"
    return SessionError(
        f"the session is over: {why}. The rest of its deposit returns after {found.waits_for or 'its last claim'}. "
        "Run `ogpu chat` without --session to open another one",
        code="session_closing",
    )


async def _opened(
    session: WalletSession, client: ChainClient, keypair: Keypair, wanted: ChatWish, *, is_piped: bool
) -> KnownSession:
    plan = await plan_session(client, wanted.wish, keypair.account)
    if not wanted.is_agreed:
        if is_piped:
            raise SessionError(
                "there is no open session, and no terminal to ask for confirmation. Add --yes to open one",
                code="no_terminal",
            )
        click.echo(
            "".join(f"{name.replace('_', ' ')}: {as_text(fact)}\n" for name, fact in plan.facts.items()), err=True
        )
        require_agreement("Open this session?", "add --yes to open one", SessionError)
    outcome = await send_unseen(session, client, plan.call(keypair.account, SealKey.of(keypair).public), keypair)
    note_session(session, client, plan.buyer, opened_id(outcome), plan.form.name, outcome.fee)
    return await session_of(client, opened_id(outcome))


def _next_provider(
    session: WalletSession, session_id: bytes, keypair: Keypair
) -> Callable[[int, str], Awaitable[NextProvider | None]]:
    async def hand_over(leg: int, reason: str) -> NextProvider | None:
        async with await session.connect() as client:
            found = await session_of(client, session_id)
            if not is_usable(found):
                raise _session_over(found)
            if len(found.record.legs) == leg + 1:
                if spare_of(found.record) is None:
                    return None
                note(f"the provider is gone ({harmless(reason)}). Handing the session over to its spare")
                try:
                    outcome = await send_unseen(session, client, Sessions.hand_over(session=session_id), keypair)
                except CallFailedError as error:
                    note(f"the spare cannot go on: {error}")
                    return None
                note_closing(session, client, found, outcome.fee, sessions_folder(session, client))
                found = await session_of(client, session_id)
        return present_provider(session, found, keypair)

    return hand_over


def _tell_wait(reason: str) -> None:
    note(f"waiting for {reason}")


async def _require_open(session: WalletSession, session_id: bytes, keypair: Keypair) -> None:
    """Raise SessionError, with the next step, once the session is over on the final chain."""
    try:
        async with await session.connect() as client:
            found = await session_of(client, session_id)
    except (NodeUnreachableError, RpcError):
        return  # a chat needs no node while its provider answers
    _require_use(found, keypair)


async def _leave(session: WalletSession, found: KnownSession, keypair: Keypair, *, is_kept: bool) -> None:
    if is_kept:
        _tell_open(found)
        return
    async with await session.connect() as client:
        if not await _is_open(client, found.id):
            note("the session is over already. The rest of its deposit returns after the provider's last claim")
            return
        note("closing the session")
        outcome = await send_unseen(session, client, Sessions.close(session=found.id), keypair)
        note_closing(session, client, await _as_now(client, found), outcome.fee, sessions_folder(session, client))
    note("the session is closed. The rest of its deposit returns after the provider's last claim")


def _tell_open(found: KnownSession) -> None:
    command = other_command("session", "close", f"0x{found.id.hex()}")
    note(f"the session stays open, and its place costs {as_text(Grains(found.record.place_rate))} a block at "
         f"least. Close it with `{command}`")  # fmt: skip


async def _is_open(client: ChainClient, session_id: bytes) -> bool:
    try:
        return is_usable(await session_of(client, session_id))
    except SessionError:
        return False


async def _as_now(client: ChainClient, found: KnownSession) -> KnownSession:
    """Return a session as it is now, or as it was if it has ended."""
    try:
        return await session_of(client, found.id)
    except SessionError:
        return found


class _Breaks:
    """Tells of breaks, each reason once until another one comes."""

    def __init__(self) -> None:
        self._told = ""

    def __call__(self, reason: str) -> None:
        if reason != self._told:
            self._told = reason
            if reason.startswith(OVER):
                note("the provider says that the session is over. Asking the chain")
                return
            note(f"the line to the provider broke: {harmless(reason)}. Trying again")


# ----------------------------------------------------------------------------------------------------- the conversation


class Screen:
    """The output of a chat."""

    def __init__(self, *, is_json: bool) -> None:
        """With `is_json`, each line is an object: pieces of text, then the answer with its cost."""
        self.is_json = is_json
        self._text: list[str] = []

    def piece(self, text: str) -> None:
        """Show a piece of an answer."""
        self._text.append(text)
        if text and self.is_json:
            click.echo(json.dumps({"text": text}))
        elif text:
            # The model chose these characters, so none may reach the terminal as a command.
            click.echo(harmless(text), nl=False)
            sys.stdout.flush()

    def end(self, talk: Chat, left: int) -> None:
        """Show the end of an answer, with its tokens and its cost."""
        answer, self._text = "".join(self._text), []
        cost = talk.cost
        if self.is_json:
            facts = {
                "answer": answer, "tokens_in": cost.tokens_in, "tokens_out": cost.tokens_out,
                "cost": Grains(cost.grains), "for_tokens": Grains(left),
            }  # fmt: skip
            click.echo(json.dumps({name: plain(value) for name, value in facts.items()}))
            return
        click.echo()
        tokens = f"{counted(cost.tokens_in, 'token')} in, {cost.tokens_out:,} out"
        click.echo(f"[{tokens}, {as_text(Grains(cost.grains))}; {as_text(Grains(left))} left for tokens]", err=True)

    def broken(self) -> None:
        """End the line of an answer that an error cut."""
        if self._text and not self.is_json:
            click.echo()
        self._text = []


class Interrupts:
    """Ctrl-C: the first one cuts the present answer, and a second one, or one between answers, leaves."""

    def __init__(self, cut: Callable[[], Awaitable[None]]) -> None:
        """`cut` ends the present answer."""
        self.leaving = asyncio.Event()
        self.is_answering = False
        self._cut = cut
        self._cutting: asyncio.Future[None] | None = None

    def happen(self) -> None:
        """Take a Ctrl-C."""
        if self.is_answering and self._cutting is None:
            self._cutting = asyncio.ensure_future(self._cut())
        else:
            self.leaving.set()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """An answer is under way."""
        self.is_answering, self._cutting = True, None
        try:
            yield
        finally:
            self.is_answering = False

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Take the signals of this process."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self.happen)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)


async def _converse(
    talk: Chat, stream: SessionClient, screen: Screen, found: KnownSession, question: str | None
) -> None:
    """Answer one question, or those of a person until they leave."""
    interrupts = Interrupts(stream.cut)

    def left() -> int:
        return left_for_tokens(found.record, stream.vouchers)

    with interrupts.caught():
        if question is None:
            await asyncio.gather(stream.enter(), asyncio.to_thread(talk.prepare))
            click.echo(f"Type a question. {COMMANDS}.", err=True)
            async with leaving_when_over(stream, interrupts):
                await conversation(talk, screen, Terminal(), interrupts, left)
            return
        if talk.is_amid_answer:
            note(
                f"an earlier program stopped amid an answer. It comes first. The question: {_shortened(talk.question)}"
            )
            await answer_to(talk, screen, interrupts, left, None)
        await answer_to(talk, screen, interrupts, left, question)


@asynccontextmanager
async def leaving_when_over(stream: SessionClient, interrupts: Interrupts) -> AsyncIterator[None]:
    """Leave as soon as the session is over, also between two questions. Raise its error then."""
    watching = asyncio.create_task(stream.until_over())
    watching.add_done_callback(lambda _: interrupts.leaving.set())
    try:
        yield
        if watching.done():
            watching.result()
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def conversation(
    talk: Chat, screen: Screen, lines: TypedLines, interrupts: Interrupts, left: Callable[[], int]
) -> None:
    """Answer a person's questions until they leave. An answer that was cut by the end of a program goes on first."""
    question: str | None = None
    is_answering = talk.is_amid_answer
    if is_answering:
        note(f"an earlier program stopped amid an answer. It comes first. The question: {_shortened(talk.question)}")
    while not interrupts.leaving.is_set():
        if is_answering:
            try:
                await answer_to(talk, screen, interrupts, left, question)
            except SessionError as error:
                if error.code not in _GOES_ON:
                    raise
                note(f"{error} [{error.code}]")
        question = await _unless(interrupts.leaving, lines.next())
        is_answering = False
        word = QUIT if question is None else question.strip()
        if word == QUIT:
            return
        if word == COST:
            click.echo(f"{as_text(Grains(left()))} left for tokens", err=True)
        elif _is_mistyped(word):
            note(f"{word} is no command, so nothing was sent or paid. {COMMANDS}")
        is_answering = word not in ("", COST) and not _is_mistyped(word)


def _shortened(question: str) -> str:
    line = harmless(" ".join(question.split()))
    return line if len(line) <= QUOTED_MAX else f"{line[:QUOTED_MAX]}…"


def _is_mistyped(word: str) -> bool:
    """Return True for a word after a slash alone: a person who types it wants a command, and no answer to pay."""
    return word != COST and word.startswith("/") and word[1:].isalpha()


_GOES_ON = frozenset({"bad_request", "question_too_long"})
"""Refusals after which another question may be answered."""


async def answer_to(
    talk: Chat, screen: Screen, interrupts: Interrupts, left: Callable[[], int], question: str | None
) -> None:
    """Show the answer to a question, or without one the rest of the last answer. Raise SessionError."""
    try:
        pieces = talk.go_on() if question is None else talk.ask(question)
        with interrupts.answering():
            await _unless(interrupts.leaving, _shown(pieces, screen))
    except RequestError as error:
        raise SessionError(str(error), code="question_too_long") from None
    except SessionRefusal as refusal:
        screen.broken()
        words = REFUSALS.get(refusal.code, f"the provider refuses: {harmless(str(refusal))}")
        raise SessionError(words, code=refusal.code) from None
    except ProviderGoneError as error:
        screen.broken()
        raise SessionError(str(error), code=error.code) from None
    except WalletError:
        screen.broken()
        raise
    if not interrupts.leaving.is_set():
        screen.end(talk, left())
        if left() <= talk.answer_price:
            note(LAST_ANSWERS)


async def _shown(pieces: AsyncGenerator[str, None], screen: Screen) -> None:
    async with aclosing(pieces):
        async for text in pieces:
            screen.piece(text)


async def _unless(leaving: asyncio.Event, doing: Awaitable[Awaited]) -> Awaited | None:
    """Return the result, or None as soon as the person leaves."""
    task, left = asyncio.ensure_future(doing), asyncio.ensure_future(leaving.wait())
    try:
        await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        left.cancel()
        await asyncio.gather(task, left, return_exceptions=True)


class Terminal:
    """The lines of a person at the terminal. A thread that waits for a line would keep the program from ending."""

    async def next(self) -> str | None:
        """See `TypedLines`."""
        click.echo(PROMPT, nl=False, err=True)
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(sys.stdin.fileno(), ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(sys.stdin.fileno())
        line = sys.stdin.readline(QUESTION_CHARACTERS_MAX)
        return line.rstrip("\n") if line else None
