"""The least size of a body's chunks."""

import pytest

from http_server.server import ChunkBudget, TinyChunksError

FREE_CHUNKS, CHUNK_BYTES_MIN = 64, 128


@pytest.mark.parametrize(
    ("sizes", "taken"),
    [
        ([1] * FREE_CHUNKS, FREE_CHUNKS),
        ([1] * 1_000, FREE_CHUNKS),
        ([CHUNK_BYTES_MIN] * 1_000, 1_000),
        ([CHUNK_BYTES_MIN - 1] * 1_000, FREE_CHUNKS),
        ([1_000_000, *[1] * 10_000], 1_000_000 // (CHUNK_BYTES_MIN - 1)),  # on average
    ],
)
def test_tiny_chunks_are_refused_on_average(sizes: list[int], taken: int) -> None:
    budget, count = ChunkBudget(), 0
    try:
        for size in sizes:
            budget.take(size, is_end=True)
            count += 1
    except TinyChunksError:
        assert taken < len(sizes)
    assert count == pytest.approx(taken, rel=0.01)


def test_a_body_that_is_not_in_chunks_may_come_byte_by_byte() -> None:
    budget = ChunkBudget()
    for _ in range(10_000):
        budget.take(1, is_end=False)
