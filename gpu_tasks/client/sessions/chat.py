"""A chat over a session: turns become requests, and tokens become text. It prints nothing.

Invariant: the disk has the whole chat, so another process, or another provider, goes on where this one stopped.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.client.sessions.session_client import SessionClient
from gpu_tasks.client.sessions.session_store import ChatTurn, SessionFile
from gpu_tasks.workloads.form import ChatMessage, RequestError, WorkloadForm
from runtime.cryptography.hashing import blake2_256

SYSTEM = "system"
"""The fact with the chat's system text."""
SEED_BYTES = 32
GREETING = "Hello"
"""A question that no provider gets."""
SEED_PREFIX = b"ogpu/chat-seed/1"


@dataclass(frozen=True, slots=True)
class AnswerCost:
    """The tokens of an answer, and the price of its vouchers."""

    tokens_in: int
    tokens_out: int
    grains: int


class Chat:
    """The turns of a session, and the next question."""

    def __init__(
        self,
        client: SessionClient,
        form: WorkloadForm,
        store: SessionFile,
        options: Mapping[str, str],
        max_tokens: int,
        seed: int | None = None,
    ) -> None:
        """`options` are those of the workload, and `max_tokens` limits each answer.

        With a `seed`, equal chats draw equal answers.
        """
        self._client, self._form, self._store = client, form, store
        self._options, self._max_tokens, self._seed = dict(options), max_tokens, seed
        self.cost = AnswerCost(0, 0, 0)
        """Of the newest answer."""

    @property
    def is_amid_answer(self) -> bool:
        """True if an earlier process stopped amid an answer."""
        return bool(self._store.turns) and not self._store.turns[-1].is_over

    @property
    def question(self) -> str:
        """The newest question."""
        return self._store.turns[-1].question

    @property
    def answer_price(self) -> int:
        """The grains of a whole answer, beside its question."""
        return self._client.terms.amount(Totals(1, 0, self._max_tokens, bytes(32)))

    def ask(self, question: str) -> AsyncGenerator[str, None]:
        """Yield the text of an answer, piece by piece. Raise as `SessionClient.ask`, and RequestError."""
        self._store.begin_turn(question, self.request(question))
        return self.go_on()

    async def go_on(self) -> AsyncGenerator[str, None]:
        """Yield the text of the newest answer from its beginning. The text of known tokens comes at once."""
        turn = self._store.turns[-1]
        pieces, before = self._form.pieces(), self._client.spent
        for token in turn.tokens:
            yield pieces.push(token)
        async with aclosing(self._client.go_on()) as parts:
            async for arrived in parts:
                for token in arrived.tokens:
                    yield pieces.push(token)
        yield pieces.finish()
        self.cost = AnswerCost(self._form.cost_in(turn.request), len(turn.tokens), self._client.spent - before)

    def prepare(self) -> None:
        """Load the tokenizer and start the chat template, so that the first question does not wait. Threads may."""
        # Wrong options are told with the first question.
        with suppress(RequestError):
            self._form.encode_chat([ChatMessage("user", GREETING)], 1, self._options, bytes(SEED_BYTES))

    def request(self, question: str) -> bytes:
        """Return the request for a question after all turns, without the oldest ones if the context is too short.

        Raise RequestError for a question that does not fit alone.
        """
        told = self._store.fact(SYSTEM)
        system = [ChatMessage("system", told)] if told else []
        seed = self._next_seed()
        # A turn without an answer has nothing to show the model.
        past = [turn for turn in self._store.turns if turn.tokens]
        for first in range(len(past) + 1):
            messages = [
                *system,
                *(message for turn in past[first:] for message in self._messages(turn)),
                ChatMessage("user", question),
            ]
            try:
                return self._form.encode_chat(messages, self._max_tokens, self._options, seed)
            except RequestError:
                if first == len(past):
                    raise
        raise AssertionError("the last try returns or raises")

    def _next_seed(self) -> bytes:
        """Return the seed of the next question's draws."""
        if self._seed is None:
            return secrets.token_bytes(SEED_BYTES)
        place = len(self._store.turns).to_bytes(4, "little")
        return blake2_256(SEED_PREFIX + self._seed.to_bytes(8, "little", signed=True) + place)

    def _messages(self, turn: ChatTurn) -> tuple[ChatMessage, ChatMessage]:
        pieces = self._form.pieces()
        text = "".join([*map(pieces.push, turn.tokens), pieces.finish()])
        return ChatMessage("user", turn.question), ChatMessage("assistant", text)
