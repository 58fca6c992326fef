"""Requests that begin and end at any time, decoded side by side in the lanes of one cache.

Invariant: the tokens of a lane are those of `generated` for its request alone, for any arrivals and ends in the other
lanes (`transformer`: a position depends only on its own prefix).
"""

from collections.abc import Collection, Sequence

import numpy as np

from gpu_tasks.workloads.decoder_int8.config import cache_bytes, pass_bytes
from gpu_tasks.workloads.decoder_int8.decoding import LaneText, logit_rows
from gpu_tasks.workloads.decoder_int8.effort import LANES
from gpu_tasks.workloads.decoder_int8.request import decode_request
from gpu_tasks.workloads.decoder_int8.transformer import KeyValueCache, LoadedDecoder, forward
from gpu_tasks.workloads.integer_arrays import BackendArray
from gpu_tasks.workloads.streamed import Lanes, LaneTokens
from runtime.encoding.codec import DecodeError

PIECE = 64
"""Positions of a prompt that are read at once. A token of SmolLM2-135M took 10.3 ms of one core of an EPYC in pieces of
32, 8.5 in pieces of 64 and 7.6 in pieces of 128."""
STEPS_A_PIECE = 4
"""Steps of the other lanes between two pieces. They take as long as a piece, so each side has half of the time."""


class LiveLanes(Lanes):
    """The lanes of one model. See `Lanes` for the methods."""

    def __init__(self, model: LoadedDecoder, places: int, room_bytes: int) -> None:
        """Take the number of lanes, and the memory for them beside the model. Raise MemoryError if they do not fit."""
        needed = places * model.shape.context * cache_bytes(model.shape) + pass_bytes(model.shape)
        if places > LANES or needed > room_bytes:
            raise MemoryError(
                f"{places} lanes need {needed >> 20:,} MiB beside the model; at most {LANES} lanes and "
                f"{room_bytes >> 20:,} MiB are possible"
            )
        self._model = model
        self._exponentials = model.backend.take(model.exponentials)
        self._cache = KeyValueCache(model, places, model.shape.context)
        self._free = list(range(places))
        self._texts: dict[int, LaneText] = {}
        """By lane."""
        self._read: dict[int, int] = {}
        """Positions of each prompt that are in the cache, by lane, in the order of their turns; whole prompts leave."""
        self._steps = 0
        """Steps since the last piece of a prompt."""

    def begin(self, encoded_request: bytes) -> int:
        """Decode a request, and let its prompt wait for its turn."""
        request = decode_request(encoded_request, self._model.shape.context, self._model.shape.vocabulary)
        if request.has_logprobs:
            raise DecodeError("a streamed answer has no log-probabilities")
        # The lowest lane: neighbours are a slice of the cache, whose keys are not copied.
        lane = min(self._free)
        self._free.remove(lane)
        self._texts[lane], self._read[lane] = LaneText(lane, request), 0
        return lane

    def drop(self, lane: int) -> None:
        """Free a lane. The keys and values of its text stay until the next one overwrites them."""
        del self._texts[lane]
        self._read.pop(lane, None)
        self._free.append(lane)

    def step(self, paused: Collection[int] = ()) -> list[LaneTokens]:
        """Draw a token in each lane behind its prompt, and read a piece of a prompt if its turn has come."""
        running = sorted(lane for lane in self._texts if lane not in self._read and lane not in paused)
        progress = self._next_tokens(running) if running else []
        reader = self._next_reader(paused, is_alone=not running)
        return progress if reader is None else [*progress, *self._piece(reader)]

    def _next_tokens(self, lanes: Sequence[int]) -> list[LaneTokens]:
        texts = [self._texts[lane] for lane in lanes]
        tokens = np.array([[text.tokens[-1]] for text in texts], dtype=np.int64)
        positions = np.array([text.position() for text in texts], dtype=np.int64)
        self._steps += 1
        return self._drawn(lanes, forward(self._model, tokens, self._cache, positions, lanes)[:, 0])

    def _next_reader(self, paused: Collection[int], *, is_alone: bool) -> int | None:
        """Return the lane whose prompt is read next: a new one at once, any other one in its turn."""
        waiting = [lane for lane in self._read if lane not in paused]
        new = [lane for lane in waiting if not self._read[lane]]
        # A short prompt does not wait behind a long one, and a long one does not stop the texts of others.
        if new or (waiting and (is_alone or self._steps >= STEPS_A_PIECE)):
            return (new or waiting)[0]
        return None

    def _piece(self, lane: int) -> list[LaneTokens]:
        """Read a piece of a prompt, and draw the first token behind its end."""
        prompt, start = self._texts[lane].request.prompt, self._read.pop(lane)
        piece = np.array([prompt[start : start + PIECE]], dtype=np.int64)
        stream = forward(self._model, piece, self._cache, np.array([start]), [lane])
        self._steps = 0
        if start + PIECE < len(prompt):
            self._read[lane] = start + PIECE
            return [LaneTokens(lane, (), None)]
        return self._drawn([lane], stream[:, -1])

    def _drawn(self, lanes: Sequence[int], ends: BackendArray) -> list[LaneTokens]:
        """Draw a token for each lane from its final stream [lanes, width], and free the lanes whose answers end."""
        progress = []
        for lane, logits in zip(lanes, logit_rows(self._model, ends), strict=True):
            text = self._texts[lane]
            output = text.take(logits, self._exponentials)
            progress.append(LaneTokens(lane, (text.tokens[-1],), None if output is None else output.finish))
            if output is not None:
                self.drop(lane)
        return progress
