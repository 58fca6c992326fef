"""Lies of blob stores, and every lie by name."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from devnet.proofs.liars import node_lies, state_lies
from devnet.proofs.liars.lie import Lie, Noticed, Store, StoreAnswer, StoreLie
from gpu_tasks.data.sealing import address_of

DRIP_SECONDS = 1.0
MUTE_SECONDS = 60.0
ENDLESS_PART_BYTES = 256 * 1024
ENDLESS_BYTES = 64 * 1024 * 1024
SOMEWHERE_ELSE = "http://127.0.0.1:9/blobs"


def _always_answering(status: int, answer_text: str = "", **headers: str) -> StoreAnswer:
    async def answer(_request: web.Request, _: Store) -> web.StreamResponse:
        return web.Response(status=status, text=answer_text, headers=headers)

    return answer


# A time-out between two bytes never ends this. Only a limit on the whole transfer does.
async def _drip(request: web.Request, store: Store) -> web.StreamResponse:
    true_answer = await store.answer(request)
    assert isinstance(true_answer.body, bytes)
    lying_answer = web.StreamResponse(status=true_answer.status, headers={"Content-Length": str(len(true_answer.body))})
    await lying_answer.prepare(request)
    for body_byte in true_answer.body:
        await lying_answer.write(bytes([body_byte]))
        await asyncio.sleep(DRIP_SECONDS)
    return lying_answer


async def _break(request: web.Request, _: Store) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _stay_mute(request: web.Request, store: Store) -> web.StreamResponse:
    await asyncio.sleep(MUTE_SECONDS)
    return await _break(request, store)


# Blobs are addressed by their hash, so a changed byte is noticed by the reader alone.
async def _other_bytes(request: web.Request, store: Store) -> web.StreamResponse:
    true_answer = await store.answer(request)
    assert isinstance(true_answer.body, bytes)
    return web.Response(
        status=true_answer.status,
        body=true_answer.body[:-1] + bytes([true_answer.body[-1] ^ 1]) if true_answer.body else b"",
    )


# A store's status 201 proves nothing: only reading the blob back does.
async def _discard(request: web.Request, _: Store) -> web.StreamResponse:
    if request.method != "PUT":
        return web.Response(status=404)
    return web.Response(status=201, text=address_of(await request.read()).hex())


# Without a declared length, a reader must stop by itself.
async def _answer_endlessly(request: web.Request, _: Store) -> web.StreamResponse:
    lying_answer = web.StreamResponse()
    await lying_answer.prepare(request)
    for _part_number in range(ENDLESS_BYTES // ENDLESS_PART_BYTES):
        await lying_answer.write(bytes(ENDLESS_PART_BYTES))
    return lying_answer


_STORE_LIES = (
    StoreLie("drips", "Blobs come a byte a second.", _drip),
    StoreLie("full", "Nothing more is taken.", _always_answering(507, "the store is full"), ("PUT",)),
    StoreLie("gone", "Every connection breaks.", _break),
    StoreLie("silent", "Nothing is answered.", _stay_mute),
    StoreLie("other_bytes", "Blobs come with one byte changed.", _other_bytes, ("GET",)),
    StoreLie("throws_away", "Blobs are taken, and never there.", _discard, ("GET", "HEAD", "PUT")),
    StoreLie("endless", "Blobs do not end.", _answer_endlessly, ("GET",)),
    StoreLie("sends_on", "Everything is somewhere else.", _always_answering(307, Location=SOMEWHERE_ELSE)),
    StoreLie("all_full", "No store takes anything.", _always_answering(507, "\x1b[2Jthe store is full"), ("PUT",),
             ("no store took",), everywhere=True),
)  # fmt: skip
_ALL_LIES: Final[tuple[Lie, ...]] = (*state_lies.STATE_LIES, *node_lies.NODE_LIES, *_STORE_LIES)
LIES_BY_NAME: Final[dict[str, Lie]] = {lie.name: lie for lie in _ALL_LIES}
BAD_STORES: Final = dict(zip(("Bob", "Charlie", "Dave"), _STORE_LIES, strict=False))
"""The bad stores of the long run, by provider: one drips, one is full, one is gone."""
# Lies about non-final state: the pool, a status before finality. No proof exists, so they count as unnoticed and not
# as missed. Their cost is judged like every other lie's.
UNPROVABLE: Final = tuple(name for name, lie in LIES_BY_NAME.items() if lie.noticed is Noticed.UNPROVABLE)
PROOF_WORDS: Final = ("do not believe", "is another chain", "old: what it shows")
"""Words of programs about a lie that a proof refutes."""
