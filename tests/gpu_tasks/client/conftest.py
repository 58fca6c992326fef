"""Fixtures for the tests of `ogpu`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_tasks.client.tasks import orders
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.tasks.order import StoredInput
from planted_tasks import stored_in
from played_node import has_begun
from wallet_runner import chain


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A chain that grows from the first call on: a first input has to be sealed at a height that is final."""
    with chain(tmp_path, beat_seconds=0.05, grows=has_begun) as address:
        yield address


@pytest.fixture
def stored_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs are taken for stored wherever they should be."""

    async def put(self: BlobClient, blob: bytes, endpoints: list[str], copies: int) -> list[str]:
        return endpoints

    monkeypatch.setattr(BlobClient, "put", put)


@pytest.fixture
def nothing_final(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs are sealed as of block 0: the played chain learns of no other that is final."""
    monkeypatch.setattr(orders, "StoredInput", lambda root, blob, _: StoredInput(root, blob, 0))


@pytest.fixture
def blobs(monkeypatch: pytest.MonkeyPatch) -> dict[bytes, bytes]:
    """The content of every blob store."""
    found: dict[bytes, bytes] = {}
    stored_in(found, monkeypatch)
    return found
