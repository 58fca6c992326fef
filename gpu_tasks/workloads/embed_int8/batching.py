"""Many texts at once, in passes of texts of like lengths, so that few positions are padded.

Invariant: a text's vector is that of the text alone (see `transformer`), and no pass exceeds `POSITIONS_A_PASS`
positions, unless one text is longer. That bounds a pass's memory.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from gpu_tasks.workloads.embed_int8.config import POSITIONS_A_PASS
from gpu_tasks.workloads.embed_int8.request import OUTPUT, EmbeddingOutput, EmbeddingRequest
from gpu_tasks.workloads.embed_int8.transformer import LoadedEncoder, vectors


def embedded(model: LoadedEncoder, requests: Sequence[EmbeddingRequest]) -> Iterator[tuple[int, bytes]]:
    """Yield each request's place and answer, in the order of completion."""
    for places in _passes([len(request.tokens) for request in requests]):
        texts = [requests[place].tokens for place in places]
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        padded = np.zeros((len(texts), int(lengths.max())), dtype=np.int64)
        for row, text in zip(padded, texts, strict=True):
            row[: len(text)] = text
        for place, text, vector in zip(places, texts, vectors(model, padded, lengths), strict=True):
            yield place, OUTPUT.encode(EmbeddingOutput(len(text), vector.astype("<i2").tobytes()))


def _passes(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the places of the texts of each pass, the longest first."""
    waiting = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    while waiting:
        count = max(1, POSITIONS_A_PASS // lengths[waiting[0]])
        yield waiting[:count]
        del waiting[:count]
