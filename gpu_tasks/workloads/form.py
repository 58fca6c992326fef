"""A workload as the programs of customers and providers use it: names, request form, display, unit of cost.

Invariant: nothing here needs NumPy or a model in memory, so a wallet-sized program can post work. Programs take a form
from `registry` by the chain's workload id and name no workload in their code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gpu_tasks.batches.outcomes import BatchOutcome, Completed, RefusedRequest
from gpu_tasks.workloads.workload import Workload


def outcomes_of(
    form: WorkloadForm, requests: Sequence[bytes], outputs: Sequence[bytes | None]
) -> tuple[BatchOutcome, ...]:
    """Return each request's outcome, with its tokens. In `encoded_outputs`, None marks an invalid request."""
    return tuple(
        RefusedRequest() if output is None else Completed(output, form.cost_in(request), form.cost(output))
        for request, output in zip(requests, outputs, strict=True)
    )


class RequestError(ValueError):
    """The text is not a valid request of this workload. The message says why and what to do."""


class NotStreamedError(NotImplementedError):
    """The workload does not stream its answers."""


@dataclass(frozen=True, slots=True)
class Option:
    """A setting of a customer for every request of a post, such as a temperature."""

    name: str
    default: str
    doc: str


class ChatMessage(NamedTuple):
    """A message of a chat."""

    role: str
    """`system`, `developer`, `user` or `assistant`."""
    content: str


def chat_text(messages: Sequence[ChatMessage]) -> str:
    """Return a chat as plain text that a model continues: each message as `role: content`, then `assistant:`.

    A content that looks like a message of another role is read as one.
    """
    return "\n".join([*(f"{message.role}: {message.content}" for message in messages), "assistant:"])


@dataclass(frozen=True, slots=True)
class ModelTensor:
    """An array of a trained model, for other programs."""

    name: str
    shape: tuple[int, ...]
    data: bytes
    """32-bit floats, little-endian, row by row."""


class Effort(NamedTuple):
    """The most work of some requests, in multiplications or operations that take as long.

    The sum is the cost of the requests, in one unit for all requests of a workload.
    """

    reading: int
    """Work that a processor does as fast as it multiplies."""
    stepping: int
    """The share of steps that wait for each other, beside that."""


class TextPieces(Protocol):
    """The text of a stream of tokens, piece by piece. No piece ends within a character."""

    def push(self, token: int) -> str:
        """Return the text that becomes certain with the next token."""
        ...

    def finish(self) -> str:
        """Return the rest of the text at the end of the stream."""
        ...


class WorkloadForm(Protocol):
    """One workload, as programs see it.

    Costs are whole numbers of `cost_unit`, which the chain limits by `tokens_max`.
    """

    name: str
    """The name for people, such as `matmul-hash`."""
    workload_id: bytes
    """32 bytes that identify the computation with all its rules."""
    model_id: bytes
    """32 bytes: the id of the model file that this package publishes, or zeros for a workload without a model."""
    cost_unit: str
    """The counted unit in the singular: `token`."""
    is_stepwise: bool = False
    """True if the workload runs in steps from one state to the next. Only such work has milestones and can be taken
    over by a standby."""
    is_streamed: bool = False
    """True if the workload streams its answers (`StreamedWorkload`). Only such work is sold in sessions."""
    backends: tuple[str, ...]
    """The kinds of backend: `numpy`, which every machine has, and optional ones such as `torch`."""
    options: tuple[Option, ...] = ()
    """The customer's settings beside the text."""
    check_ppm: int = 1_000_000
    """The cost of `Workload.check` over the cost of `run`, in millionths. A check that computes again costs as much."""

    def encode(self, text: str, cost_max: int, options: Mapping[str, str], seed: bytes) -> bytes:
        """Return the request for `input_text`, with a cost of at most `cost_max`. Raise RequestError if none exists.

        `options` holds texts by name; an absent option takes its default. `seed` is 32 random bytes for the request's
        random choices.
        """
        ...

    def encode_chat(
        self, messages: Sequence[ChatMessage], cost_max: int, options: Mapping[str, str], seed: bytes
    ) -> bytes:
        """Return the request for the next message of a chat, as `encode`. A model without roles continues its text."""
        return self.encode(chat_text(messages), cost_max, options, seed)

    def show_request(self, encoded_request: bytes) -> str:
        """Return the request as text for people. Raise DecodeError for bytes that are no request."""
        ...

    def show_output(self, encoded_output: bytes) -> str:
        """Return the output as text for people, for any bytes."""
        ...

    def cost_in(self, encoded_request: bytes) -> int:
        """Return the cost of a request's input in `cost_unit`: its input tokens.

        Raise DecodeError for an invalid request.
        """
        return 0

    def cost_asked(self, encoded_request: bytes) -> int:
        """Return a request's greatest cost in `cost_unit`, before it runs. Raise DecodeError for an invalid request."""
        ...

    def output_bytes(self, encoded_request: bytes) -> int:
        """Return the greatest length of its output in bytes, before it runs.

        Raise DecodeError for an invalid request.
        """
        ...

    def segments(self, encoded_request: bytes) -> int:
        """Return the number of segments in the run's trace, or 0. Raise DecodeError for an invalid request."""
        return 0

    def model_tensors(self, encoded_request: bytes, state: bytes) -> tuple[ModelTensor, ...]:
        """Return the trained model in a state of a request's run, empty for a workload that trains none.

        Raise DecodeError for a state of another request.
        """
        return ()

    def sample(self, tensors: Sequence[ModelTensor], prompt: bytes, length: int, seed: bytes) -> bytes | None:
        """Return `length` bytes with which a trained model continues a prompt; None if the workload trains none.

        Raise DecodeError for tensors of another model, and ImportError where a library is missing.
        """
        return None

    def memory_bytes(self) -> int:
        """Return the memory of a worker for the model, beside the usual."""
        return 0

    def room_bytes(self) -> int:
        """Return the memory that requests side by side can use, beside the model."""
        return 0

    def request_bytes(self, encoded_request: bytes) -> int:
        """Return the memory that one request needs alone, beside the model. Raise DecodeError for an invalid one."""
        return 0

    def effort(self, requests: Sequence[bytes], room_bytes: int) -> Effort:
        """Return the most work of requests that are computed together in `room_bytes`. An invalid one takes none.

        A workload without a model has no effort: the usual limits suffice for each of its requests.
        """
        return Effort(0, 0)

    def probe(self, reading: int, steps: int) -> bytes | None:
        """Return a request that reads so many tokens and takes so many steps, to measure a machine's pace.

        Return None if the model has no such request, or the workload no effort.
        """
        return None

    def prefix(self, request: bytes, tokens: Sequence[int]) -> tuple[bytes, bytes]:
        """Return the request cut to these first tokens of its answer, and the output of `Workload.run` for it.

        A finished answer keeps its request. Raise DecodeError for an invalid request, for one whose answers cannot be
        cut, and for tokens that no answer begins with. Only for a streamed workload.
        """
        raise NotStreamedError(self.name)

    def continued(self, request: bytes, tokens: Sequence[int]) -> bytes:
        """Return the request for the rest of an answer that begins with these tokens.

        Its answer is the rest of the whole one, token by token. Raise DecodeError as `prefix` does, and for tokens
        that end the answer. Only for a streamed workload.
        """
        raise NotStreamedError(self.name)

    def standard_request(self, seed: bytes, tokens_in: int, tokens_out: int) -> bytes:
        """Return a request with so many tokens that follow from `seed`. Its answer has exactly `tokens_out` tokens.

        The answer is drawn, so that few answers are likely. Raise RequestError if the model has no such request. Only
        for a streamed workload.
        """
        raise NotStreamedError(self.name)

    def pieces(self) -> TextPieces:
        """Return a decoder of streamed tokens. Its pieces are together `show_output` of the whole answer.

        Bytes that form no character may show as another number of replacement characters. Only for a streamed workload.
        """
        raise NotStreamedError(self.name)

    def model_facts(self) -> Mapping[str, int | str]:
        """Return facts about the model for people, by name.

        `context_tokens` and `kv_bytes_per_token` are among them where the model has a context. Raise ModelFileError
        for a malformed model file.
        """
        return {}

    def cost(self, encoded_output: bytes) -> int:
        """Return the cost of an output in `cost_unit`.

        Its attestation states this number, at most the unit's `tokens_max`.
        """
        ...

    def open(self, backend_name: str) -> Workload:
        """Return the workload with its published model on `backend_name`: a kind, or a kind and `-<device>`.

        The workload has passed its conformance vectors. Raise LookupError for a backend that the workload does not
        have, ImportError where a library is missing, and NonConformingBackendError if this machine's results differ
        from the published ones.
        """
        ...


def settings(options: tuple[Option, ...], given: Mapping[str, str]) -> dict[str, str]:
    """Return the value of every option, given or default.

    Raise RequestError with the valid names for an unknown one.
    """
    names = [option.name for option in options]
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise RequestError(f"there is no option {unknown[0]!r} here; there are: {', '.join(names) or 'none'}")
    return {option.name: given.get(option.name, option.default) for option in options}


def thousandths(name: str, text: str, most: int) -> int:
    """Return a decimal option in thousandths, exactly, at most `most` of them. Raise RequestError, which names it."""
    # A float could round a decimal to another thousandth, and the request would have other bytes.
    whole, _, decimals = text.partition(".")
    is_number = text.isascii() and whole.isdigit() and len(whole) <= 2 and (decimals or "0").isdigit()
    result = int(whole) * 1000 + int(f"{decimals:0<3}") if is_number and len(decimals) <= 3 else None
    if result is None or result > most:
        raise RequestError(f"{name} is 0 to {most // 1000} with at most three decimals, not {text!r}")
    return result


def yes_or_no(option: Option, text: str) -> bool:
    """Return whether an option is set. Raise RequestError, which names it, for another word."""
    if text not in {"yes", "no"}:
        raise RequestError(f"the option {option.name} is yes or no, not {text!r}")
    return text == "yes"
