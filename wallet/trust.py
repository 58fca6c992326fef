"""What a program goes by when it meets a node, and how a command line says it. Light: command lines import it first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

HASH_BYTES = 32


def hash_typed(text: str) -> bytes | None:
    """The 32 bytes that a person means by 64 hexadecimal digits, with or without 0x; None for anything else."""
    try:
        found = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        return None
    return found if len(found) == HASH_BYTES else None


@dataclass(frozen=True, slots=True)
class Trust:
    """The folder that knows the chain, a genesis hash that was given beforehand, or the node's word."""

    folder: Path
    genesis: bytes | None = None
    is_blind: bool = False
    checkpoint: bytes | None = None
    """The hash of a recent final block that somebody vouches for."""


class BlockHash(click.ParamType[bytes]):
    """0x and 64 hexadecimal digits on the command line, bytes in the program."""

    name = "HASH"

    def __init__(self, what: str) -> None:
        """`what` the hash is of, for a person."""
        self._what = what

    def convert(self, value: str | bytes, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """32 bytes."""
        if isinstance(value, bytes):
            return value
        found = hash_typed(value)
        if found is None:
            self.fail(f"{value!r} is no {self._what} hash: 0x and 64 hexadecimal digits", param, ctx)
        return found


genesis_option = click.option(
    "--genesis", type=BlockHash("genesis"), help="The chain's genesis hash: no other chain is accepted."
)
checkpoint_option = click.option(
    "--checkpoint",
    type=BlockHash("block"),
    help="Of a recent final block, from somebody you trust: after two weeks away.",
)
trust_option = click.option("--trust-node", is_flag=True, help="Believe the node without proof; no chain is kept to.")
