"""Which transfer goes where: senders dealt out to connections, each connection's transfers cut into JSON-RPC batches.

What always holds: a sender keeps to one connection, and its transfers go out in the order of their nonces, so no node
ever sees a gap; the same deal is used for every node that is measured.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Transfer(NamedTuple):
    """The transfer of a sender with that nonce, both counted from 0."""

    sender: int
    nonce: int


@dataclass(frozen=True, slots=True)
class Shape:
    """How transfers are handed in: so many in a batch, over so many connections, each with one batch under way."""

    transfers: int
    senders: int
    batch: int
    connections: int

    def __post_init__(self) -> None:
        """Refuse what cannot be dealt out evenly."""
        if self.transfers % self.senders:
            raise ValueError(f"{self.transfers} transfers are not the same number for each of {self.senders} senders")
        if not 1 <= self.connections <= self.senders:
            raise ValueError(f"{self.connections} connections for {self.senders} senders leave one without a sender")

    @property
    def each(self) -> int:
        """How many transfers a sender makes."""
        return self.transfers // self.senders

    @property
    def label(self) -> str:
        """As people say it: 500x8."""
        return f"{self.batch}x{self.connections}"

    def all_transfers(self) -> Iterator[Transfer]:
        """Every transfer once, those of equal nonces together."""
        return (Transfer(sender, nonce) for nonce in range(self.each) for sender in range(self.senders))


def deal(shape: Shape) -> list[list[list[Transfer]]]:
    """For each connection its batches, in the order in which they go out."""
    hands: list[list[Transfer]] = [[] for _ in range(shape.connections)]
    for transfer in shape.all_transfers():
        hands[transfer.sender % shape.connections].append(transfer)
    return [[hand[start : start + shape.batch] for start in range(0, len(hand), shape.batch)] for hand in hands]


def request(method: str, parameters: Sequence[object], number: int) -> dict[str, object]:
    """One JSON-RPC call."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}


def bodies(shape: Shape, method: str, signed: Mapping[Transfer, str]) -> list[list[bytes]]:
    """The requests, ready to send, so that while the clock runs the client does nothing but send and read."""
    return [
        [
            _body([request(method, [signed[transfer]], number) for number, transfer in enumerate(batch)])
            for batch in hand
        ]
        for hand in deal(shape)
    ]


def _body(requests: list[dict[str, object]]) -> bytes:
    return json.dumps(requests, separators=(",", ":")).encode()
