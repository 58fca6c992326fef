"""Many requests at once: texts of any lengths, decoded side by side in lanes of one cache.

A text that ends leaves its lane to the next request, so that the device is as busy with texts that end early as with
such as do not. Always: what a request gives is what `decoding.generate` gives for it alone, whatever stands beside it
(`transformer`: a position depends on its own prefix and on nothing else of a batch); never more texts are in the cache
than there are lanes, and no pass reads more than `READ_PER_LANE` positions for each lane, however many requests there
are and however long: what a pass holds in memory is bounded, and a pass that the caches of a CPU do not hold is slower.
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
"""Lanes are filled anew once so many parts of them are free: prompts are read several at once too."""
READ_PER_LANE = 16
"""Positions: 512 at once with 32 lanes, where NumPy reads fastest; a single prompt that is longer is read alone."""


@dataclass(slots=True)
class _Text:
    """A request in a lane: its place among the requests, and its completion so far."""

    place: int
    request: CompletionRequest
    output: bytearray = field(default_factory=bytearray)

    def take(self, token: int) -> bool:
        """Note the next token; whether the text has ended."""
        if token == BOUNDARY:
            return True
        self.output.append(token)
        return len(self.output) == self.request.max_tokens


def generated(
    model: Loaded, requests: Sequence[CompletionRequest], lanes: int | None = None
) -> Iterator[tuple[int, bytes]]:
    """The completion of each request with its place, as they are done; `lanes`: as many as suit the backend."""
    run = _Run(model, requests, max(1, min(lanes or model.use.lanes, len(requests))))
    while run.waiting or run.texts:
        yield from run.fill()
        yield from run.step()


class _Run:
    """Requests on their way through the lanes; those that read most wait together, so that few prompts are padded."""

    def __init__(self, model: Loaded, requests: Sequence[CompletionRequest], lanes: int) -> None:
        self._model = model
        self._cache = empty_cache(model, lanes)
        self._free = list(range(lanes))
        self._refilled_at = max(1, lanes // REFILL_PART)
        order = sorted(range(len(requests)), key=lambda place: len(requests[place].prompt))
        self.waiting = deque(_Text(place, requests[place]) for place in order)
        self.texts: dict[int, _Text] = {}
        """By lane."""

    def fill(self) -> list[tuple[int, bytes]]:
        """Begin as many of the texts that wait as there are free lanes, once enough are."""
        if not self.waiting or (self.texts and len(self._free) < self._refilled_at):
            return []
        new = [self.waiting.popleft() for _ in range(min(len(self._free), len(self.waiting)))]
        return [ended for texts in _passes(new, READ_PER_LANE * self._lanes()) for ended in self._begin(texts)]

    def _begin(self, texts: Sequence[_Text]) -> list[tuple[int, bytes]]:
        """Read prompts in one pass, and draw the first token of each."""
        lanes = [self._free.pop() for _ in texts]
        cache = empty_cache(self._model, len(texts))
        logits = _last_logits(self._model, [text.request.prompt for text in texts], cache)
        moved(self._cache, np.array(lanes), cache)
        return self._taken(dict(zip(lanes, texts, strict=True)), logits)

    def step(self) -> list[tuple[int, bytes]]:
        """One more token of every text."""
        if not self.texts:
            return []
        self._narrow()
        lanes = sorted(self.texts)
        # every lane takes part, one that is free with a token that nobody reads: so no text is moved at each step
        tokens, at = np.zeros(self._lanes(), dtype=np.int64), np.zeros(self._lanes(), dtype=np.int64)
        for lane in lanes:
            text = self.texts[lane]
            tokens[lane], at[lane] = text.output[-1], len(text.request.prompt) + len(text.output)
        logits = forward_each(self._model, tokens, self._cache, at)
        return self._taken({lane: self.texts[lane] for lane in lanes}, logits[lanes])

    def _narrow(self) -> None:
        """Leave the free lanes behind, once nobody waits for them and half are free: each costs what a text costs."""
        if self.waiting or 2 * len(self.texts) > self._lanes():
            return
        lanes = sorted(self.texts)
        self._cache = narrowed(self._cache, np.array(lanes))
        self.texts = {place: self.texts[lane] for place, lane in enumerate(lanes)}
        self._free = []

    def _taken(self, texts: dict[int, _Text], logits: Ints) -> list[tuple[int, bytes]]:
        """The completions that end with these tokens; the other texts stay in their lanes."""
        asked = [text.request for text in texts.values()]
        tokens = next_tokens(
            logits,
            [request.temperature_milli for request in asked],
            [request.seed for request in asked],
            [len(text.output) for text in texts.values()],
        )
        ended = []
        for (lane, text), token in zip(texts.items(), tokens, strict=True):
            if text.take(token):
                ended.append((text.place, bytes(text.output)))
                self.texts.pop(lane, None)
                self._free.append(lane)
            else:
                self.texts[lane] = text
        return ended

    def _lanes(self) -> int:
        return len(self._free) + len(self.texts)


def _passes(texts: Sequence[_Text], positions: int) -> Iterator[Sequence[_Text]]:
    """Texts by rising length of their prompts, in parts of which none reads more positions, or has a single text."""
    begin = 0
    for end, text in enumerate(texts):
        if (end + 1 - begin) * (1 + len(text.request.prompt)) > positions and end > begin:
            yield texts[begin:end]
            begin = end
    if begin < len(texts):
        yield texts[begin:]


def _last_logits(model: Loaded, prompts: Sequence[bytes], cache: Cache) -> Ints:
    """The logits behind each prompt, int64[batch, 257]; shorter ones are read with what stands behind them ignored."""
    longest = max(len(prompt) for prompt in prompts)
    padded = np.concatenate([input_tokens(prompt.ljust(longest, b"\0")) for prompt in prompts])
    logits = forward(model, padded, cache)
    ends: Ints = logits[np.arange(len(prompts)), [len(prompt) for prompt in prompts]]
    return ends
