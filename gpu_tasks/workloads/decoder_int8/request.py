"""Requests and answers of `decoder-int8` as canonical SCALE bytes: token ids in, token ids out. It needs no NumPy."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Annotated

from gpu_tasks.workloads.decoder_int8.config import CONTEXT_MAX
from runtime.encoding.codec import U8, U16, U32, Bounded, DecodeError, Fixed, codec, struct

WORKLOAD_ID = blake2b(b"ogpu/workload/decoder-int8/1", digest_size=32).digest()
WORKLOAD_NAME = "decoder-int8"

TEMPERATURE_MAX = 10_000
TOP_P_ONE = 1000
STOPS_MAX = 16
STOP_TOKENS_MAX = 32

LENGTH_REACHED, STOPPED = 0, 1
"""Why a text ended: at `max_tokens`, or with one of `stops`."""
LOGPROB_UNIT = 1 << 16


@struct
class GenerationRequest:
    """A request: continue `prompt` by at most `max_tokens` tokens."""

    prompt: Annotated[tuple[U32, ...], Bounded(CONTEXT_MAX)]
    max_tokens: U16
    temperature_milli: U16
    """1000 is temperature 1; 0 always takes the most likely token."""
    top_p_milli: U16
    """1 to 1000: tokens are drawn from the most likely ones that together have this probability."""
    seed: Annotated[bytes, Fixed(32)]
    stops: Annotated[tuple[Annotated[tuple[U32, ...], Bounded(STOP_TOKENS_MAX)], ...], Bounded(STOPS_MAX)]
    """The text ends with the first of these token sequences, which the answer includes."""
    has_logprobs: bool
    drawn: U16 = 0
    """The number of the prompt's last tokens that belong to the answer. Draws and stop sequences go on behind them."""


@struct
class GenerationOutput:
    """An answer."""

    tokens: Annotated[tuple[U32, ...], Bounded(CONTEXT_MAX)]
    finish: U8
    negative_logprobs: Annotated[tuple[U32, ...], Bounded(CONTEXT_MAX)]
    """Of each token, if asked for: `-ln(probability)` in units of 2**-16, before temperature and top-p."""


REQUEST = codec(GenerationRequest)
OUTPUT = codec(GenerationOutput)


def decode_request(encoded: bytes, context: int, vocabulary: int) -> GenerationRequest:
    """Return the request in `encoded`. Raise DecodeError unless a model of this shape can serve it."""
    request = REQUEST.decode(encoded)
    if not request.prompt:
        raise DecodeError("a prompt without tokens")
    if not request.max_tokens or len(request.prompt) + request.max_tokens > context:
        raise DecodeError(
            f"prompt and answer of {len(request.prompt)} and {request.max_tokens} tokens, beyond {context}"
        )
    if request.temperature_milli > TEMPERATURE_MAX or not 1 <= request.top_p_milli <= TOP_P_ONE:
        raise DecodeError("a temperature or top-p out of range")
    if request.drawn >= len(request.prompt):
        raise DecodeError(f"{request.drawn} tokens of the answer in a prompt of {len(request.prompt)}")
    if any(not stop for stop in request.stops):
        raise DecodeError("a stop sequence without tokens")
    if any(token >= vocabulary for tokens in (request.prompt, *request.stops) for token in tokens):
        raise DecodeError(f"a token id beyond the vocabulary of {vocabulary}")
    return request


def ended(request: GenerationRequest, tokens: Sequence[int]) -> int | None:
    """Return why an answer ends with these new tokens, or None if it goes on."""
    end = tuple(tokens[-STOP_TOKENS_MAX:])
    if request.drawn and len(end) < STOP_TOKENS_MAX:
        end = (*request.prompt[-min(request.drawn, STOP_TOKENS_MAX) :], *end)
    if any(end[-len(stop) :] == stop for stop in request.stops):
        return STOPPED
    return LENGTH_REACHED if len(tokens) == request.max_tokens else None


def cut(request: GenerationRequest, tokens: Sequence[int]) -> tuple[GenerationRequest, GenerationOutput]:
    """Return the request whose whole answer is these first tokens of an answer, and that answer.

    A finished answer keeps its request. Raise DecodeError for tokens that no answer of any model begins with.
    """
    if request.has_logprobs:
        raise DecodeError("a streamed answer has no log-probabilities")
    if not 1 <= len(tokens) <= request.max_tokens:
        raise DecodeError(f"{len(tokens)} tokens of an answer of 1 to {request.max_tokens}")
    # Few tokens end a stop sequence, so an answer of 8,192 tokens is checked in a millisecond.
    last = {stop[-1] for stop in request.stops}
    ends = (place + 1 for place, token in enumerate(tokens[:-1]) if token in last)
    if any(ended(request, tokens[max(0, end - STOP_TOKENS_MAX) : end]) == STOPPED for end in ends):
        raise DecodeError("tokens behind a stop sequence")
    finish = ended(request, tokens)
    if finish is None:
        request, finish = replace(request, max_tokens=len(tokens)), LENGTH_REACHED
    return request, GenerationOutput(tuple(tokens), finish, ())


def continued(request: GenerationRequest, tokens: Sequence[int]) -> GenerationRequest:
    """Return the request for the rest of an answer that begins with these tokens.

    Raise DecodeError for tokens that no answer begins with, or that end it.
    """
    cut(request, tokens)
    if ended(request, tokens) is not None:
        raise DecodeError("the answer has ended")
    return replace(
        request,
        prompt=(*request.prompt, *tokens),
        max_tokens=request.max_tokens - len(tokens),
        drawn=request.drawn + len(tokens),
    )


def output_bytes_max(request: GenerationRequest) -> int:
    """Return the greatest length of an answer in bytes: two lists with their lengths, and `finish`."""
    return 9 + request.max_tokens * (8 if request.has_logprobs else 4)
