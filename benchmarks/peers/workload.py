"""The distribution of transfers: senders to connections, and each connection's transfers to JSON-RPC batches.

Invariant: a sender uses one connection, and its transfers go out in the order of their nonces, so no node ever sees a
gap. Every measured node gets the same distribution.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Transfer(NamedTuple):
    """A sender's transfer with this nonce, both counted from 0."""

    sender: int
    nonce: int


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of the load: transfers in a batch, and connections, each with one batch in flight."""

    transfers: int
    senders: int
    batch: int
    connections: int

    def __post_init__(self) -> None:
        """Raise ValueError if the transfers cannot be distributed evenly."""
        if self.transfers % self.senders:
            raise ValueError(f"{self.transfers} transfers are not the same number for each of {self.senders} senders")
        if not 1 <= self.connections <= self.senders:
            raise ValueError(f"{self.connections} connections for {self.senders} senders leave one without a sender")

    @property
    def each(self) -> int:
        """The number of a sender's transfers."""
        return self.transfers // self.senders

    @property
    def label(self) -> str:
        """The shape's name: 500x8 is batches of 500 over 8 connections."""
        return f"{self.batch}x{self.connections}"

    def all_transfers(self) -> Iterator[Transfer]:
        """Yield every transfer once, grouped by nonce."""
        return (Transfer(sender, nonce) for nonce in range(self.each) for sender in range(self.senders))


def deal(shape: Shape) -> list[list[list[Transfer]]]:
    """Return each connection's batches in the order of sending."""
    hands: list[list[Transfer]] = [[] for _ in range(shape.connections)]
    for transfer in shape.all_transfers():
        hands[transfer.sender % shape.connections].append(transfer)
    return [[hand[start : start + shape.batch] for start in range(0, len(hand), shape.batch)] for hand in hands]


def request(method: str, parameters: Sequence[object], number: int) -> dict[str, object]:
    """Return one JSON-RPC call."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}


def bodies(shape: Shape, method: str, signed: Mapping[Transfer, str]) -> list[list[bytes]]:
    """Return the encoded requests, so that the client only sends and reads during the measurement."""
    return [
        [
            _body([request(method, [signed[transfer]], number) for number, transfer in enumerate(batch)])
            for batch in hand
        ]
        for hand in deal(shape)
    ]


def _body(requests: list[dict[str, object]]) -> bytes:
    return json.dumps(requests, separators=(",", ":")).encode()
