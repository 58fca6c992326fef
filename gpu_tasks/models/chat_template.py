"""Chat messages to the text that a model continues, by the Jinja template of the model's author.

A template is a stranger's program. It runs in a process with limits on processor time, memory and output, because
Jinja's sandbox limits none of them.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from gpu_tasks.models.text import TextError

CHAT_TEMPLATE_MAX = 2**16
"""Characters of a template."""
MESSAGES_MAX = 4_096
REQUEST_BYTES_MAX = 8 * 2**20
ANSWER_BYTES_MAX = 16 * 2**20
WALL_SECONDS = 30.0
PROGRAM = Path(__file__).with_name("template_renderer.py")
_NO_VARIABLES: Mapping[str, object] = {}


def render_chat(
    template: str,
    messages: Sequence[Mapping[str, object]],
    *,
    generation_prompt: bool = True,
    variables: Mapping[str, object] = _NO_VARIABLES,
) -> str:
    """Render a single chat. `ChatTemplate` renders many without a new process for each."""
    with ChatTemplate(template, variables) as chat_template:
        return chat_template.render(messages, generation_prompt=generation_prompt)


class ChatTemplate:
    """A template and the process that renders it. The process starts with the first chat. Threads may share this."""

    def __init__(self, template: str, variables: Mapping[str, object] = _NO_VARIABLES) -> None:
        """`variables` are other values for the template, such as `bos_token`. Raise TextError for a long template."""
        if len(template) > CHAT_TEMPLATE_MAX:
            raise TextError(
                "chat_template_limit",
                f"the chat template has {len(template)} characters; at most {CHAT_TEMPLATE_MAX} are allowed",
            )
        self._template = template
        self._variables = variables
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def render(self, messages: Sequence[Mapping[str, object]], *, generation_prompt: bool = True) -> str:
        """Return the text of a chat. Raise TextError if the template refuses it or exceeds a limit.

        `generation_prompt`: end with the start of the assistant's answer.
        """
        if len(messages) > MESSAGES_MAX:
            raise TextError(
                "text_length", f"the chat has {len(messages)} messages; at most {MESSAGES_MAX} are rendered"
            )
        variables = {**self._variables, "messages": list(messages), "add_generation_prompt": generation_prompt}
        try:
            request = json.dumps({"template": self._template, "variables": variables}).encode() + b"\n"
        except (TypeError, ValueError, RecursionError) as error:
            raise TextError("chat_template", f"the chat is not JSON: {str(error)[:100]}") from None
        if len(request) > REQUEST_BYTES_MAX:
            raise TextError(
                "text_length", f"the chat has {len(request)} bytes; at most {REQUEST_BYTES_MAX} are rendered"
            )
        # The pipe carries one exchange at a time: two threads would read each other's answers.
        with self._lock:
            answer = self._answer(request)
        if "text" not in answer:
            raise TextError(answer["code"], f"the chat template fails: {answer['error']}")
        return answer["text"]

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _answer(self, request: bytes) -> dict[str, str]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            # `-I` and an empty environment: code that leaves the sandbox finds no secret variable and no nearby module.
            self._process = subprocess.Popen(  # noqa: S603 - our own program by its path
                [sys.executable, "-I", "-X", "utf8", str(PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        try:
            answer_line = _exchanged(self._process, request, time.monotonic() + WALL_SECONDS)
        # After an interruption the pipe may hold the rest of an answer, and the next chat would get it.
        except BaseException:
            self._end()
            raise
        if not answer_line.endswith(b"\n"):
            self._end()
            raise TextError("chat_template_limit", "the chat template takes too much time or memory")
        answer: dict[str, str] = json.loads(answer_line)
        return answer

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            # Closes the pipes too.
            self._process.__exit__(None, None, None)
            self._process = None


def _exchanged(process: subprocess.Popen[bytes], request: bytes, deadline: float) -> bytes:
    """Send a request and return the answer: a line, or less if the process ended or the time was up.

    The process reads all of a request before it writes, so neither waits for the other.
    """
    if process.stdin is None or process.stdout is None:
        raise AssertionError
    try:
        process.stdin.write(request)
        process.stdin.flush()
    except BrokenPipeError:
        return b""
    poller, answer = select.poll(), bytearray()
    poller.register(process.stdout, select.POLLIN)
    # A template that leaves the sandbox writes as much as it likes, so the answer has a limit on this side too.
    while not answer.endswith(b"\n") and len(answer) <= ANSWER_BYTES_MAX:
        if not poller.poll(max(0.0, deadline - time.monotonic()) * 1_000):
            break
        answer_part = os.read(process.stdout.fileno(), 2**16)
        if not answer_part:
            break
        answer += answer_part
    return bytes(answer)
