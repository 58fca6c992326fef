"""A genesis hash as an option of a command line, for every program that keeps to a chain."""

from __future__ import annotations

import click

HASH_BYTES = 32


class GenesisHash(click.ParamType[bytes]):
    """0x and 64 hexadecimal digits on the command line, bytes in the program."""

    name = "HASH"

    def convert(self, value: str | bytes, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """32 bytes."""
        if isinstance(value, bytes):
            return value
        try:
            found = bytes.fromhex(value.removeprefix("0x"))
        except ValueError:
            found = b""
        if len(found) != HASH_BYTES:
            self.fail(f"{value!r} is no genesis hash: 0x and 64 hexadecimal digits", param, ctx)
        return found


GENESIS = GenesisHash()
