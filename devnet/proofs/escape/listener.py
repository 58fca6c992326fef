"""`python -m devnet.proofs.escape.listener PORT ADDRESS…`: somebody who answers there, until he is ended."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence


async def listen(port: int, addresses: Sequence[str]) -> None:
    """Say a word to everybody, and hang up."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"reached\n")
        writer.close()

    server = await asyncio.start_server(answer, list(addresses), port)
    print("listening", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(listen(int(sys.argv[1]), sys.argv[2:]))
