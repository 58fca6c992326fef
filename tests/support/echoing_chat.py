"""A toy chat over `echoing_provider`: the answer is the number of messages and the last question, in letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from echoing_session import EchoForm, asking
from gpu_tasks.workloads.form import ChatMessage, RequestError, TextPieces, WorkloadForm

MESSAGES_MAX = 6


class EchoChatForm(EchoForm):
    """`EchoForm` with the methods of a `WorkloadForm` that a chat uses."""

    def encode_chat(
        self, messages: Sequence[ChatMessage], cost_max: int, options: Mapping[str, str], seed: bytes
    ) -> bytes:
        """Return the request for the last message. A long chat, or a question with an X, does not fit."""
        assert len(seed) == 32
        assert [message.role for message in messages[-3:]] in (
            ["user"], ["system", "user"], ["user", "assistant", "user"]
        )  # fmt: skip
        if len(messages) > MESSAGES_MAX or "X" in messages[-1].content:
            raise RequestError("too long")
        return asking(f"{len(messages)} {messages[-1].content}".encode()[:cost_max])

    def pieces(self) -> TextPieces:
        """Return a decoder of ASCII."""
        return _Letters()


class _Letters(TextPieces):
    def push(self, token: int) -> str:
        return chr(token)

    def finish(self) -> str:
        return ""


def chat_form() -> WorkloadForm:
    """Return the form."""
    return cast("WorkloadForm", EchoChatForm())
