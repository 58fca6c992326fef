"""Requests to answers, side by side in lanes of one cache; and the check of an answer by one prefill.

Invariant: an answer depends on its request alone, for any content of the other lanes (`transformer`: a position depends
only on its own prefix). `effort` limits the positions of a pass and the lanes. That bounds memory for any number and
length of requests.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpu_tasks.workloads.decoder_int8.config import LOGIT_ROWS, READ_MAX
from gpu_tasks.workloads.decoder_int8.effort import LANES, affordable_lanes, groups, positions_of, room_bytes_max
from gpu_tasks.workloads.decoder_int8.request import GenerationOutput, GenerationRequest, ended
from gpu_tasks.workloads.decoder_int8.sampling import next_token
from gpu_tasks.workloads.decoder_int8.transformer import (
    KeyValueCache,
    LoadedDecoder,
    StreamSamples,
    forward,
    logits_of,
)
from gpu_tasks.workloads.integer_arrays import BackendArray, Integers
from gpu_tasks.workloads.sampling import fingerprint
from gpu_tasks.workloads.workload import OutputCheck

REFILL_PART = 4
"""The part of the lanes that must be free before they are filled again: one in so many."""


@dataclass(slots=True)
class LaneText:
    """A request in a lane: its place among the requests, and its answer so far."""

    place: int
    request: GenerationRequest
    tokens: list[int] = field(default_factory=list)
    negative_logprobs: list[int] = field(default_factory=list)

    def position(self) -> int:
        """Return the position of the last token."""
        return len(self.request.prompt) + len(self.tokens) - 1

    def take(self, logits: Integers, exponentials: Integers) -> GenerationOutput | None:
        """Append the next token. Return the answer if it ends the text."""
        token, negative_logprob = next_token(logits, exponentials, self.request, self.request.drawn + len(self.tokens))
        self.tokens.append(token)
        if self.request.has_logprobs:
            self.negative_logprobs.append(negative_logprob)
        finish = ended(self.request, self.tokens)
        return None if finish is None else GenerationOutput(tuple(self.tokens), finish, tuple(self.negative_logprobs))


def generated(
    model: LoadedDecoder, requests: Sequence[GenerationRequest], lanes: int = LANES, room_bytes: int | None = None
) -> Iterator[tuple[int, GenerationOutput]]:
    """Yield each request's place and answer, in the order of completion.

    At most `lanes` texts are computed side by side, and as few as fit into `room_bytes`.
    """
    room = room_bytes_max(model.shape) if room_bytes is None else room_bytes
    for places in groups(model.shape, [positions_of(request) for request in requests], lanes, room):
        run = _Run(model, [requests[place] for place in places], lanes, room)
        while run.waiting or run.texts:
            yield from ((places[number], output) for number, output in run.fill())
            yield from ((places[number], output) for number, output in run.step())


class _Run:
    """Requests on their way through the lanes. Prompts of similar length are read together, so that few are padded."""

    def __init__(
        self, model: LoadedDecoder, requests: Sequence[GenerationRequest], lanes: int, room_bytes: int
    ) -> None:
        self._model = model
        self._exponentials = model.backend.take(model.exponentials)
        positions = max(map(positions_of, requests))
        lanes = min(lanes, affordable_lanes(model.shape, positions, room_bytes), len(requests))
        self._cache = KeyValueCache(model, lanes, positions)
        self._free_lanes = list(range(lanes))
        self._refilled_at = max(1, lanes // REFILL_PART)
        # Neighbours have prompts of like lengths, so a group that is read together is hardly padded.
        shortest_first = sorted(range(len(requests)), key=lambda place: len(requests[place].prompt))
        self.waiting = deque(LaneText(place, requests[place]) for place in shortest_first)
        self.texts: dict[int, LaneText] = {}
        """By lane."""

    def fill(self) -> list[tuple[int, GenerationOutput]]:
        """Start waiting texts in the free lanes, once enough lanes are free. Return the answers that end at once."""
        # Not for every free lane: reading a prompt stops the decoding of all other lanes.
        if not self.waiting or (self.texts and len(self._free_lanes) < self._refilled_at):
            return []
        new = [self.waiting.popleft() for _ in range(min(len(self._free_lanes), len(self.waiting)))]
        return [answer for texts in _prompt_groups(new) for answer in self._begin(texts)]

    def _begin(self, texts: Sequence[LaneText]) -> list[tuple[int, GenerationOutput]]:
        """Read the prompts of a group, and draw the first token of each."""
        self._free_lanes.sort(reverse=True)
        lanes = [self._free_lanes.pop() for _ in texts]
        prompts = [text.request.prompt for text in texts]
        longest = max(len(prompt) for prompt in prompts)
        # A position depends on its prefix alone, so padding behind a prompt changes none of its bits.
        padded = np.array([[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts], dtype=np.int64)
        last = np.array([len(prompt) - 1 for prompt in prompts])
        ends = _read(self._model, padded, self._cache, last, lanes)
        return self._take_tokens(dict(zip(lanes, texts, strict=True)), ends)

    def step(self) -> list[tuple[int, GenerationOutput]]:
        """Compute one more token of every text, and return the answers that end."""
        if not self.texts:
            return []
        self._narrow()
        count = len(self._free_lanes) + len(self.texts)
        # Every lane takes part, a free one with an unused token, so that no text has to be moved at each step.
        tokens, positions = np.zeros((count, 1), dtype=np.int64), np.zeros(count, dtype=np.int64)
        for lane, text in self.texts.items():
            tokens[lane, 0], positions[lane] = text.tokens[-1], text.position()
        lanes = sorted(self.texts)
        ends = forward(self._model, tokens, self._cache, positions)[lanes, 0]
        return self._take_tokens({lane: self.texts[lane] for lane in lanes}, ends)

    def _narrow(self) -> None:
        """Drop the free lanes once no request waits and half are free, since a free lane costs as much as a text."""
        if self.waiting or len(self.texts) > len(self._free_lanes):
            return
        lanes = sorted(self.texts)
        self._cache.narrow(lanes)
        self.texts = {place: self.texts[lane] for place, lane in enumerate(lanes)}
        self._free_lanes = []

    def _take_tokens(self, texts: dict[int, LaneText], ends: BackendArray) -> list[tuple[int, GenerationOutput]]:
        """Draw a token for each text from its final stream [texts, width]. Return the answers that end."""
        answers = []
        for (lane, text), logits in zip(texts.items(), logit_rows(self._model, ends), strict=True):
            answer = text.take(logits, self._exponentials)
            if answer is None:
                self.texts[lane] = text
            else:
                answers.append((text.place, answer))
                self.texts.pop(lane, None)
                self._free_lanes.append(lane)
        return answers


def _prompt_groups(texts: Sequence[LaneText]) -> Iterator[Sequence[LaneText]]:
    """Yield parts of texts, which are sorted by prompt length, each with at most READ_MAX positions or one text."""
    first = 0
    for number, text in enumerate(texts):
        if (number + 1 - first) * len(text.request.prompt) > READ_MAX and number > first:
            yield texts[first:number]
            first = number
    if first < len(texts):
        yield texts[first:]


def _read(
    model: LoadedDecoder, tokens: Integers, cache: KeyValueCache, last: Integers, lanes: Sequence[int]
) -> BackendArray:
    """Read int64[texts, length] tokens into lanes of a cache, in passes of READ_MAX positions.

    Return the stream at `last` of each text.
    """
    texts, length = tokens.shape
    ends = model.backend.numbers((texts, model.shape.width))
    step = max(1, READ_MAX // texts)
    for start in range(0, length, step):
        stream = forward(model, tokens[:, start : start + step], cache, np.full(texts, start), lanes)
        here = np.flatnonzero((start <= last) & (last < start + step))
        ends[here] = stream[here, last[here] - start]
    return ends


def logit_rows(model: LoadedDecoder, streams: BackendArray) -> Iterator[Integers]:
    """Yield the logits of each row of a final stream [positions, width], a few rows at a time."""
    for start in range(0, len(streams), LOGIT_ROWS):
        yield from logits_of(model, streams[start : start + LOGIT_ROWS])


def _streams(
    model: LoadedDecoder, tokens: Sequence[int], first: int, samples: StreamSamples | None = None
) -> Iterator[BackendArray]:
    """Yield the final stream of one text in parts [positions, width], from position `first` on."""
    cache = KeyValueCache(model, 1, len(tokens))
    for start in range(0, len(tokens), READ_MAX):
        part = np.array([tokens[start : start + READ_MAX]], dtype=np.int64)
        stream = forward(model, part, cache, np.array([start]), samples=samples)[0]
        if start + READ_MAX > first:
            yield stream[max(0, first - start) :]


def verify_output(
    model: LoadedDecoder,
    request: GenerationRequest,
    claimed: GenerationOutput,
    samples: StreamSamples | None = None,
) -> OutputCheck:
    """Check that an answer equals the result of `generated`, bit for bit, by one prefill.

    The check is complete: an answer that ends early must end with a stop sequence. `recomputed` counts the compared
    tokens, and `first_wrong` is the first that differs.
    """
    if not 1 <= len(claimed.tokens) <= request.max_tokens:
        return OutputCheck(valid=False, recomputed=0, first_wrong=0)
    exponentials = model.backend.take(model.exponentials)
    text = LaneText(0, request)
    read = (*request.prompt, *claimed.tokens[:-1])
    bounded = [min(token, model.shape.vocabulary - 1) for token in read]
    streams = _streams(model, bounded, len(request.prompt) - 1, samples)
    for logits in (row for part in streams for row in logit_rows(model, part)):
        index = len(text.tokens)
        answer = text.take(logits, exponentials)
        is_last = index + 1 == len(claimed.tokens)
        is_right = text.tokens[index] == claimed.tokens[index] and (answer is not None) == is_last
        if not is_right or (answer is not None and answer != claimed):
            return OutputCheck(valid=False, recomputed=index + 1, first_wrong=index)
    return OutputCheck(valid=True, recomputed=len(claimed.tokens), first_wrong=None)


def fingerprint_of(model: LoadedDecoder, request: GenerationRequest, output: GenerationOutput, seed: bytes) -> bytes:
    """Return the fingerprint of an answer, by one prefill: a channel of every layer and position that was read."""
    tokens = (*request.prompt, *output.tokens[:-1])
    samples = StreamSamples(model, seed, len(tokens))
    for _ in _streams(model, tokens, len(tokens), samples):
        pass
    return fingerprint(seed, samples.layers)
