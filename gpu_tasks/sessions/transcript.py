"""The requests and answers of one period of a session, as both ends have them, and the totals that a voucher signs.

Each request is an item of the period's claim. The last answer may be unfinished. Its item is the request cut to the
tokens so far, which the workload computes to exactly these tokens. Before the first token the item has no output.

Invariants: totals depend on the items alone, so equal transcripts have equal totals. Totals name one cut of a
transcript (`Place`), because every token moves the place on.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from gpu_tasks.batches.leaves import Leaf, leaf_of
from gpu_tasks.batches.outcomes import Completed
from gpu_tasks.batches.sum_tree import Totals, totals_of
from gpu_tasks.market.sessions.vouchers import item_salt

ITEMS_MAX = 256
"""The most requests of a period. The totals of so many take about a millisecond."""
TOKEN_BYTES = 4
_U32 = "I"
ANY_TOKEN = 0


class StreamedForm(Protocol):
    """A workload whose answers arrive token by token (`WorkloadForm`)."""

    def prefix(self, request: bytes, tokens: Sequence[int]) -> tuple[bytes, bytes]:
        """Return the request cut to these tokens of its answer, and its output."""
        ...

    def cost_in(self, encoded_request: bytes) -> int:
        """Return the number of input tokens. Raise DecodeError for an invalid request."""
        ...

    def cost_asked(self, encoded_request: bytes) -> int:
        """Return the most output tokens. Raise DecodeError for an invalid request."""
        ...


def require_answerable(form: StreamedForm, request: bytes) -> None:
    """Raise DecodeError for a request that no session can answer.

    It would have no right answer, so a claim with its prompt would be refuted.
    """
    form.prefix(request, (ANY_TOKEN,))


class Place(NamedTuple):
    """A cut of a transcript: the number of requests, and the tokens of the last one's answer."""

    requests: int
    tokens: int


@dataclass(slots=True)
class Exchange:
    """A request and its answer so far."""

    request: bytes
    tokens: list[int] = field(default_factory=list)
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class SessionName:
    """The identity of a period: its chain, and the id of its claim. `secret` salts the leaves."""

    genesis: bytes
    claim: bytes
    secret: bytes


class Transcript:
    """The exchanges of a period."""

    def __init__(self, name: SessionName, form: StreamedForm, exchanges: Sequence[Exchange] = ()) -> None:
        """Start a period, or go on with exchanges from the disk."""
        self.name = name
        self.exchanges = list(exchanges)
        self._form = form
        self._leaves: list[Leaf] = []
        """Of the exchanges before the last one."""

    @property
    def place(self) -> Place:
        """The end of the transcript."""
        return Place(len(self.exchanges), len(self.exchanges[-1].tokens) if self.exchanges else 0)

    @property
    def is_answering(self) -> bool:
        """True while the last answer is unfinished."""
        return bool(self.exchanges) and not self.exchanges[-1].is_over

    @property
    def tokens_out(self) -> int:
        """The tokens of all answers."""
        return sum(len(exchange.tokens) for exchange in self.exchanges)

    def ask(self, request: bytes) -> None:
        """Append a request."""
        assert not self.is_answering, "an answer ends before the next request"
        self.exchanges.append(Exchange(request))

    def answer(self, tokens: Sequence[int], *, is_last: bool) -> None:
        """Append tokens of the last answer."""
        assert self.is_answering, "tokens belong to an open answer"
        self.exchanges[-1].tokens += tokens
        self.exchanges[-1].is_over = is_last

    def cut_to(self, place: Place) -> None:
        """Forget everything behind a place. An answer that ends there is over."""
        assert place <= self.place, "a transcript has the place"
        del self.exchanges[place.requests :]
        del self._leaves[max(0, place.requests - 1) :]
        if self.exchanges:
            del self.exchanges[-1].tokens[place.tokens :]
            self.exchanges[-1].is_over = True

    def totals(self, place: Place | None = None) -> Totals:
        """Return the totals at a place of the transcript, or at its end. It has at least one request there."""
        place = self.place if place is None else place
        for index in range(len(self._leaves), len(self.exchanges) - 1):
            exchange = self.exchanges[index]
            self._leaves.append(self._leaf(index, exchange.request, exchange.tokens))
        last = self.exchanges[place.requests - 1]
        leaf = self._leaf(place.requests - 1, last.request, last.tokens[: place.tokens])
        return totals_of([*self._leaves[: place.requests - 1], leaf])

    def item(self, index: int) -> tuple[bytes, Completed]:
        """Return an item of the claim: its request, cut to its tokens, and its outcome."""
        exchange = self.exchanges[index]
        return self._item(exchange.request, exchange.tokens)

    def leaves(self) -> tuple[Leaf, ...]:
        """Return the leaves of all items."""
        return tuple(self._leaf(index, each.request, each.tokens) for index, each in enumerate(self.exchanges))

    def place_of(self, totals: Totals) -> Place | None:
        """Return the place with these totals, or None if they are not of this transcript."""
        before = sum(len(exchange.tokens) for exchange in self.exchanges[: max(0, totals.requests - 1)])
        place = Place(totals.requests, totals.tokens_out - before)
        if not 1 <= totals.requests <= len(self.exchanges) or place.tokens < 0:
            return None
        if place.tokens > len(self.exchanges[totals.requests - 1].tokens):
            return None
        return place if self.totals(place) == totals else None

    def _leaf(self, index: int, request: bytes, tokens: Sequence[int]) -> Leaf:
        """Return the leaf of a request with these tokens of its answer."""
        cut, outcome = self._item(request, tokens)
        return leaf_of(self.name.genesis, self.name.claim, item_salt(self.name.secret, cut), index, outcome)

    def _item(self, request: bytes, tokens: Sequence[int]) -> tuple[bytes, Completed]:
        cut, output = self._form.prefix(request, tokens) if tokens else (request, b"")
        return cut, Completed(output, self._form.cost_in(cut), len(tokens))


def packed_tokens(tokens: Sequence[int]) -> bytes:
    """Return tokens as they are on disk: 32 bits each, little-endian."""
    return _little_endian(array(_U32, tokens)).tobytes()


def unpacked_tokens(packed: bytes) -> list[int]:
    """Return the tokens of `packed_tokens`."""
    return _little_endian(array(_U32, packed)).tolist()


def _little_endian(numbers: array[int]) -> array[int]:
    assert numbers.itemsize == TOKEN_BYTES, "an unsigned int has 32 bits on every supported machine"
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
