"""Many requests at once: texts of any lengths, decoded side by side in lanes of one cache.

A completed text leaves its lane to the next request, so texts that end early do not leave the device idle.

Invariant: a request's result is that of `decoding.generate` for it alone, for any content of the other lanes.
(`transformer`: a position depends only on its own prefix.) The cache never has more texts than lanes. No pass reads
more than `READ_PER_LANE` positions for each lane, for any number and length of requests. That bounds a pass's memory,
and a pass that exceeds a CPU's caches is slower.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpu_tasks.workloads.textgen_int8.decoding import input_tokens, next_tokens
from gpu_tasks.workloads.textgen_int8.integer_ops import Ints
from gpu_tasks.workloads.textgen_int8.model import BOUNDARY
from gpu_tasks.workloads.textgen_int8.request import CompletionRequest
from gpu_tasks.workloads.textgen_int8.transformer import (
    Cache,
    Loaded,
    empty_cache,
    forward,
    forward_each,
    moved,
    narrowed,
)

REFILL_PART = 4
"""The part of the lanes that must be free before they are filled again: one in so many. Prompts are then also read
several at once."""
READ_PER_LANE = 16
"""Positions: 512 at once with 32 lanes, where NumPy reads fastest. A longer prompt is read alone."""


@dataclass(slots=True)
class _Text:
    """A request in a lane: its place among the requests, and its completion so far."""

    place: int
    request: CompletionRequest
    output: bytearray = field(default_factory=bytearray)

    def take(self, token: int) -> bool:
        """Append the next token. Return True if the text has ended."""
        if token == BOUNDARY:
            return True
        self.output.append(token)
        return len(self.output) == self.request.max_tokens


def generated(
    model: Loaded, requests: Sequence[CompletionRequest], lanes: int | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yield each request's place and completion, in the order of completion, with `lane_count` texts side by side.

    Without `lane_count`, use the backend's best number.
    """
    run = _Run(model, requests, max(1, min(lanes or model.backend.lanes, len(requests))))
    while run.waiting or run.texts:
        yield from run.fill()
        yield from run.step()


class _Run:
    """Requests on their way through the lanes. Prompts of similar length are read together, so that few are padded."""

    def __init__(self, model: Loaded, requests: Sequence[CompletionRequest], lanes: int) -> None:
        self._loaded_model = model
        self._cache = empty_cache(model, lanes)
        self._free_lanes = list(range(lanes))
        self._refilled_at = max(1, lanes // REFILL_PART)
        # Neighbours have prompts of like lengths, so a group that is read together is hardly padded.
        shortest_first = sorted(range(len(requests)), key=lambda place: len(requests[place].prompt))
        self.waiting = deque(_Text(place, requests[place]) for place in shortest_first)
        self.texts: dict[int, _Text] = {}
        """By lane."""

    def fill(self) -> list[tuple[int, bytes]]:
        """Start waiting texts in the free lanes, once enough lanes are free.

        Return the completions that end at once.
        """
        # Not for every free lane: reading a prompt stops the decoding of all other lanes.
        if not self.waiting or (self.texts and len(self._free_lanes) < self._refilled_at):
            return []
        new = [self.waiting.popleft() for _ in range(min(len(self._free_lanes), len(self.waiting)))]
        return [
            ended for texts in _prompt_groups(new, READ_PER_LANE * self._lanes()) for ended in self._begin_texts(texts)
        ]

    def _begin_texts(self, texts: Sequence[_Text]) -> list[tuple[int, bytes]]:
        """Read prompts in one pass, and draw the first token of each."""
        free_lanes = [self._free_lanes.pop() for _ in texts]
        cache = empty_cache(self._loaded_model, len(texts))
        logits = _last_logits(self._loaded_model, [text.request.prompt for text in texts], cache)
        # Read into a cache of their own first: the lanes that decode are at other positions.
        moved(self._cache, np.array(free_lanes), cache)
        return self._take_tokens(dict(zip(free_lanes, texts, strict=True)), logits)

    def step(self) -> list[tuple[int, bytes]]:
        """Compute one more token of every text, and return the completions that end."""
        if not self.texts:
            return []
        self._narrow_cache()
        lanes = sorted(self.texts)
        # Every lane takes part, a free one with an unused token, so that no text has to be moved at each step.
        tokens, positions = np.zeros(self._lanes(), dtype=np.int64), np.zeros(self._lanes(), dtype=np.int64)
        for lane in lanes:
            text = self.texts[lane]
            tokens[lane], positions[lane] = (text.output[-1], len(text.request.prompt) + len(text.output))
        logits = forward_each(self._loaded_model, tokens, self._cache, positions)
        return self._take_tokens({lane: self.texts[lane] for lane in lanes}, logits[lanes])

    def _narrow_cache(self) -> None:
        """Drop the free lanes once no request waits and half are free, since a free lane costs as much as a text."""
        if self.waiting or 2 * len(self.texts) > self._lanes():
            return
        lanes = sorted(self.texts)
        self._cache = narrowed(self._cache, np.array(lanes))
        self.texts = {place: self.texts[lane] for place, lane in enumerate(lanes)}
        self._free_lanes = []

    def _take_tokens(self, texts_by_lane: dict[int, _Text], logits: Ints) -> list[tuple[int, bytes]]:
        """Add a token to each text, and return the completions that end. The other texts stay in their lanes."""
        requests = [text.request for text in texts_by_lane.values()]
        tokens = next_tokens(
            logits,
            [request.temperature_milli for request in requests],
            [request.seed for request in requests],
            [len(text.output) for text in texts_by_lane.values()],
        )
        ended = []
        for (lane, text), token in zip(texts_by_lane.items(), tokens, strict=True):
            if text.take(token):
                ended.append((text.place, bytes(text.output)))
                self.texts.pop(lane, None)
                self._free_lanes.append(lane)
            else:
                self.texts[lane] = text
        return ended

    def _lanes(self) -> int:
        return len(self._free_lanes) + len(self.texts)


def _prompt_groups(texts: Sequence[_Text], positions: int) -> Iterator[Sequence[_Text]]:
    """Yield parts of texts, which are sorted by prompt length, each with at most `positions` positions or one text."""
    first = 0
    for number, text in enumerate(texts):
        if (number + 1 - first) * (1 + len(text.request.prompt)) > positions and number > first:
            yield texts[first:number]
            first = number
    if first < len(texts):
        yield texts[first:]


def _last_logits(model: Loaded, prompts: Sequence[bytes], cache: Cache) -> Ints:
    """Return the logits after each prompt, int64[batch, 257]. Padding after a shorter prompt is ignored."""
    longest = max(len(prompt) for prompt in prompts)
    # A position depends on its prefix alone, so padding behind a prompt changes none of its bits.
    padded = np.concatenate([input_tokens(prompt.ljust(longest, b"\0")) for prompt in prompts])
    logits = forward(model, padded, cache)
    last_positions: Ints = logits[np.arange(len(prompts)), [len(prompt) for prompt in prompts]]
    return last_positions
