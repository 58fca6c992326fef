"""Lies of blob stores, and every lie by name."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from devnet.proofs.liars import node_lies, state_lies
from devnet.proofs.liars.lie import Lie, Noticed, OfRequest, Store, StoreLie
from gpu_tasks.data.sealing import address_of

DRIP_SECONDS = 1.0
MUTE_SECONDS = 60.0
ENDLESS_PART_BYTES = 256 * 1024
ENDLESS_BYTES = 64 * 1024 * 1024
SOMEWHERE_ELSE = "http://127.0.0.1:9/blobs"


def _answering(status: int, text: str = "", **headers: str) -> OfRequest:
    async def answer(_request: web.Request, _: Store) -> web.StreamResponse:
        return web.Response(status=status, text=text, headers=headers)

    return answer


async def _drips(request: web.Request, store: Store) -> web.StreamResponse:
    true = await store.answer(request)
    assert isinstance(true.body, bytes)
    answer = web.StreamResponse(status=true.status, headers={"Content-Length": str(len(true.body))})
    await answer.prepare(request)
    for byte in true.body:
        await answer.write(bytes([byte]))
        await asyncio.sleep(DRIP_SECONDS)
    return answer


async def _breaks(request: web.Request, _: Store) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _mute(request: web.Request, store: Store) -> web.StreamResponse:
    await asyncio.sleep(MUTE_SECONDS)
    return await _breaks(request, store)


async def _other_bytes(request: web.Request, store: Store) -> web.StreamResponse:
    true = await store.answer(request)
    assert isinstance(true.body, bytes)
    return web.Response(status=true.status, body=true.body[:-1] + bytes([true.body[-1] ^ 1]) if true.body else b"")


async def _throws_away(request: web.Request, _: Store) -> web.StreamResponse:
    if request.method != "PUT":
        return web.Response(status=404)
    return web.Response(status=201, text=address_of(await request.read()).hex())


async def _endless(request: web.Request, _: Store) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    for _part in range(ENDLESS_BYTES // ENDLESS_PART_BYTES):
        await answer.write(bytes(ENDLESS_PART_BYTES))
    return answer


_OF_STORES = (
    StoreLie("drips", "Blobs come a byte a second.", _drips),
    StoreLie("full", "Nothing more is taken.", _answering(507, "the store is full"), ("PUT",)),
    StoreLie("gone", "Every connection breaks.", _breaks),
    StoreLie("silent", "Nothing is answered.", _mute),
    StoreLie("other_bytes", "Blobs come with one byte changed.", _other_bytes, ("GET",)),
    StoreLie("throws_away", "Blobs are taken, and never there.", _throws_away, ("GET", "HEAD", "PUT")),
    StoreLie("endless", "Blobs do not end.", _endless, ("GET",)),
    StoreLie("sends_on", "Everything is somewhere else.", _answering(307, Location=SOMEWHERE_ELSE)),
    StoreLie("all_full", "No store takes anything.", _answering(507, "\x1b[2Jthe store is full"), ("PUT",),
             ("could not be stored",), everywhere=True),
)  # fmt: skip
_ALL: Final[tuple[Lie, ...]] = (*state_lies.LIES, *node_lies.LIES, *_OF_STORES)
LIES: Final[dict[str, Lie]] = {lie.name: lie for lie in _ALL}
BAD_STORES: Final = dict(zip(("Bob", "Charlie", "Dave"), _OF_STORES, strict=False))
"""The bad stores of the long run, by provider: one drips, one is full, one is gone."""
UNPROVABLE: Final = tuple(name for name, lie in LIES.items() if lie.noticed is Noticed.UNPROVABLE)
"""Lies about non-final state: the pool, a status before finality.

No proof exists, so they count as unnoticed and not as missed. Their cost is judged like every other lie's.
"""
PROOF_WORDS: Final = ("do not believe", "is another chain", "old: what it shows")
"""Words of programs about a lie that a proof refutes."""
