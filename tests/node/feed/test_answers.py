"""What the node answers to the RPC process, within its limits."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from node.feed import messages as feed
from node.feed.answers import PROOF_KEYS_MAX, Answers
from node.pool.refusal import PoolRefusalError


def answers() -> Answers:
    view = SimpleNamespace(chain=SimpleNamespace(prove=lambda block, keys: [block, b"%d" % len(keys)]))
    return Answers(view, list)  # type: ignore[arg-type]  # only proofs are asked for


@pytest.mark.trio
async def test_proofs_are_of_so_many_keys_at_most() -> None:
    most = [b"k"] * PROOF_KEYS_MAX
    assert await answers().answer(feed.Prove(1, b"b", most)) == [b"b", b"%d" % PROOF_KEYS_MAX]
    with pytest.raises(PoolRefusalError) as refused:
        await answers().answer(feed.Prove(1, b"b", [*most, b"k"]))
    assert refused.value.code == -32602
