"""The effort and memory of requests, by their lengths and the model's shape alone. It needs no NumPy.

Both are upper limits: an answer may end before its greatest length.
"""

from collections.abc import Iterator, Sequence

from gpu_tasks.workloads.decoder_int8.config import CACHE_BYTES, READ_MAX, DecoderShape, cache_bytes, pass_bytes
from gpu_tasks.workloads.decoder_int8.request import TOP_P_ONE, GenerationRequest
from gpu_tasks.workloads.form import Effort
from gpu_tasks.workloads.integer_transformer.effort import PASS_POSITIONS, SCORE_OPERATIONS

LANES = 64
"""The most texts that are decoded side by side."""
DRAW_OPERATIONS, TOP_P_OPERATIONS = 800, 800
"""Of each token of the vocabulary, for a draw, and for top-p beside it: each took 45 ns (see `SCORE_OPERATIONS`)."""


def room_bytes_max(shape: DecoderShape) -> int:
    """Return the memory beside the model that texts side by side can use: keys and values, and a pass."""
    return CACHE_BYTES + pass_bytes(shape)


def affordable_lanes(shape: DecoderShape, positions: int, room_bytes: int) -> int:
    """Return the number of texts of up to `positions` positions that fit into the memory side by side, at least 1."""
    kept = min(room_bytes - pass_bytes(shape), CACHE_BYTES)
    return max(1, min(LANES, kept // (positions * cache_bytes(shape))))


def groups(shape: DecoderShape, lengths: Sequence[int], lanes: int, room_bytes: int) -> Iterator[list[int]]:
    """Yield the places of texts that share one cache: all of them, or those of like lengths in positions.

    Every lane has room for the longest text, so one long text among many short ones would leave them few lanes.
    """
    if lengths and affordable_lanes(shape, max(lengths), room_bytes) >= min(lanes, len(lengths)):
        yield list(range(len(lengths)))
        return
    for bits in sorted({length.bit_length() for length in lengths}):
        yield [place for place, length in enumerate(lengths) if length.bit_length() == bits]


def request_bytes(shape: DecoderShape, request: GenerationRequest) -> int:
    """Return the memory of one request alone, beside the model: its keys and values, and a pass."""
    return positions_of(request) * cache_bytes(shape) + pass_bytes(shape)


def positions_of(request: GenerationRequest) -> int:
    """Return the greatest number of positions of prompt and answer."""
    return len(request.prompt) + request.max_tokens


def effort(shape: DecoderShape, requests: Sequence[GenerationRequest], room_bytes: int) -> Effort:
    """Return the most work of these requests, computed side by side in this memory."""
    lengths = [positions_of(request) for request in requests]
    parts = [
        _effort_of_group(shape, [requests[place] for place in places], room_bytes)
        for places in groups(shape, lengths, LANES, room_bytes)
    ]
    return Effort(sum(part.reading for part in parts), sum(part.stepping for part in parts))


def _effort_of_group(shape: DecoderShape, requests: Sequence[GenerationRequest], room_bytes: int) -> Effort:
    s = shape
    matrices = s.width * (2 * s.heads + 2 * s.key_heads) * s.head_width + 3 * s.width * s.hidden
    weights, head = s.layers * matrices, s.vocabulary * s.width
    score = s.layers * s.heads * (2 * s.head_width + SCORE_OPERATIONS)
    longest, prompts = max(map(positions_of, requests)), [len(request.prompt) for request in requests]
    answers, longest_answer = (
        sum(request.max_tokens for request in requests),
        max(request.max_tokens for request in requests),
    )
    lanes = min(len(requests), affordable_lanes(s, longest, room_bytes))
    steps = longest_answer if lanes == len(requests) else longest_answer + answers // lanes
    # A lane without a text costs as much as one with a text.
    stepped = min(steps * lanes, 2 * answers)
    # A pass computes the scores of all its tokens with all positions up to its end.
    scores = stepped * longest + sum(prompt * (prompt + READ_MAX) // 2 for prompt in prompts)
    passes = steps + sum(prompt // READ_MAX for prompt in prompts)
    # One text after the other, on the CPU: a customer who asks for draws must not cost more than was admitted.
    draws = s.vocabulary * sum(request.max_tokens * _draw_operations(request) for request in requests)
    reading = (sum(prompts) + stepped) * weights + (len(requests) + stepped) * head + scores * score
    return Effort(reading, passes * PASS_POSITIONS * (weights + head) + draws)


def _draw_operations(request: GenerationRequest) -> int:
    if not request.temperature_milli:
        return 0
    return DRAW_OPERATIONS + (TOP_P_OPERATIONS if request.top_p_milli < TOP_P_ONE else 0)
