"""Lies of blob stores: they drip, are full, gone, mute, endless, send on, and answer other bytes."""

from __future__ import annotations

import asyncio

from aiohttp import web

from devnet.proofs.liars.lie import Noticed, Store, StoreLie, lie_of_store
from gpu_tasks.data.sealing import address_of

DRIP_SECONDS = 1.0
MUTE_SECONDS = 60.0
ENDLESS_PART_BYTES = 256 * 1024
ENDLESS_BYTES = 64 * 1024 * 1024
SOMEWHERE_ELSE = "http://127.0.0.1:9/blobs"


def _abort(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


@lie_of_store()
async def drips(request: web.Request, store: Store) -> web.StreamResponse:
    """Blobs come a byte a second."""
    true = await store.answer(request)
    assert isinstance(true.body, bytes)
    answer = web.StreamResponse(status=true.status, headers={"Content-Length": str(len(true.body))})
    await answer.prepare(request)
    for byte in true.body:
        await answer.write(bytes([byte]))
        await asyncio.sleep(DRIP_SECONDS)
    return answer


@lie_of_store("PUT")
async def full(_request: web.Request, _: Store) -> web.StreamResponse:
    """Nothing more is taken."""
    return web.Response(status=507, text="the store is full")


@lie_of_store()
async def gone(request: web.Request, _: Store) -> web.StreamResponse:
    """Every connection breaks."""
    return _abort(request)


@lie_of_store()
async def silent(request: web.Request, _: Store) -> web.StreamResponse:
    """Nothing is answered."""
    await asyncio.sleep(MUTE_SECONDS)
    return _abort(request)


@lie_of_store("GET")
async def other_bytes(request: web.Request, store: Store) -> web.StreamResponse:
    """Blobs come with one byte changed."""
    true = await store.answer(request)
    assert isinstance(true.body, bytes)
    return web.Response(status=true.status, body=true.body[:-1] + bytes([true.body[-1] ^ 1]) if true.body else b"")


@lie_of_store("GET", "HEAD", "PUT")
async def throws_away(request: web.Request, _: Store) -> web.StreamResponse:
    """Blobs are taken, and never there."""
    if request.method != "PUT":
        return web.Response(status=404)
    return web.Response(status=201, text=address_of(await request.read()).hex())


@lie_of_store("GET")
async def endless(request: web.Request, _: Store) -> web.StreamResponse:
    """Blobs do not end."""
    answer = web.StreamResponse()
    await answer.prepare(request)
    for _part in range(ENDLESS_BYTES // ENDLESS_PART_BYTES):
        await answer.write(bytes(ENDLESS_PART_BYTES))
    return answer


@lie_of_store()
async def sends_on(_request: web.Request, _: Store) -> web.StreamResponse:
    """Everything is somewhere else."""
    return web.Response(status=307, headers={"Location": SOMEWHERE_ELSE})


@lie_of_store("PUT", everywhere=True, noticed=Noticed.NAMED, words=("could not be stored",))
async def all_full(_request: web.Request, _: Store) -> web.StreamResponse:
    """No store takes anything."""
    return web.Response(status=507, text="\x1b[2Jthe store is full")


LIES = tuple(each for each in list(globals().values()) if isinstance(each, StoreLie))
