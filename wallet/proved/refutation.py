"""Refutations of a node's answers: the reason where it is found, and a sentence that names node and subject."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from runtime.encoding.codec import DecodeError
from runtime.frame.storage import StateCorrupted
from runtime.state.trie_proof import InvalidProof
from wallet.errors import WalletError


class RefutedError(Exception):
    """A claim is false or not proved; the message says which, without the node's name."""


class NodeRefutedError(WalletError):
    """The node's answer is false, or the node does not prove it."""


def require(is_true: bool, reason: str) -> None:
    """Raise RefutedError with this reason unless `is_true`."""
    if not is_true:
        raise RefutedError(reason)


@contextmanager
def about(url: str, matter: str) -> Iterator[None]:
    """Turn a refutation inside into one sentence about the node at `url`, as NodeRefutedError."""
    try:
        yield
    except (RefutedError, InvalidProof, DecodeError, StateCorrupted) as error:
        raise NodeRefutedError(f"do not believe the node at {url} about {matter}: {error}") from error
