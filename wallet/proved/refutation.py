"""What a node said is not so: the reason where it is found, and one sentence that names the node and the matter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from runtime.encoding.codec import DecodeError
from runtime.frame.storage import StateCorrupted
from runtime.state.trie_proof import InvalidProof
from wallet.errors import WalletError


class RefutedError(Exception):
    """A claim is false or not shown; the message says which, without a name."""


class NodeRefutedError(WalletError):
    """The node's answer cannot be true, or it does not show that it is."""


def require(holds: bool, reason: str) -> None:
    """RefutedError with this reason unless something holds."""
    if not holds:
        raise RefutedError(reason)


@contextmanager
def about(url: str, matter: str) -> Iterator[None]:
    """What is refuted inside becomes one sentence about the node at `url`."""
    try:
        yield
    except (RefutedError, InvalidProof, DecodeError, StateCorrupted) as error:
        raise NodeRefutedError(f"do not believe the node at {url} about {matter}: {error}") from error
