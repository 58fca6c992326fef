"""Somebody else at the same broker, where everybody may publish: forges, replays, floods."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

from gpu_tasks.data.sealing import SealKey
from gpu_tasks.telemetry.broker import broker_connection, parse_broker
from gpu_tasks.telemetry.envelope import (
    Channel,
    TaskSubject,
    TelemetryMessage,
    TelemetryTopics,
    payload_of,
    read_message,
    sign_message,
)
from gpu_tasks.telemetry.notes import EventNote, NoteField
from runtime.cryptography.signatures import Scheme
from wallet.keypair import Keypair

FORGED_EVENT = "computed_by_a_stranger"
FORGERIES = 30
REPLAYS = 5
FLOOD_SECONDS = 6.0
APART_SECONDS = 0.2


async def forge(url: str, genesis: bytes, task: bytes, customer: Keypair) -> None:
    """Messages that no provider told: noise, a stranger's signature, a true message with another number, or moved."""
    topics, key = TelemetryTopics(genesis), Keypair.from_seed(Scheme.ED25519, os.urandom(32))
    here = TaskSubject(task, 0)
    note = EventNote(FORGED_EVENT, (NoteField("milestone", "999"),))
    payload = payload_of(note, SealKey.of(customer).public)
    async with broker_connection(parse_broker(url, private=True), private=True) as client:
        await client.subscribe(topics.task(task), 1)
        true = bytes((await anext(client.messages)).payload)
        for number in range(FORGERIES):
            told = _some(true, topics, task)
            mine = replace(told, provider_key=key.public_key, payload=payload, number=told.number + 1)
            bent = replace(told, payload=payload, number=told.number + 1)
            await client.publish(topics.of(here, Channel.STATUS), os.urandom(200), 1)
            await client.publish(topics.of(here, Channel.STATUS), sign_message(mine, genesis, key.sign), 1)
            await client.publish(topics.of(here, Channel.STATUS), sign_message(bent, genesis, key.sign), 1)
            await client.publish(topics.of(TaskSubject(task, number % 4), Channel.LOG), true, 1)
            await asyncio.sleep(APART_SECONDS)


async def replay(url: str, genesis: bytes, task: bytes) -> None:
    """Some of what is told of a task, again and again."""
    topics, kept = TelemetryTopics(genesis), []
    async with broker_connection(parse_broker(url, private=True), private=True) as client:
        await client.subscribe(topics.task(task), 1)
        for _ in range(6):
            message = await anext(client.messages)
            kept.append((str(message.topic), bytes(message.payload)))
        for _ in range(REPLAYS):
            for topic, payload in kept:
                await client.publish(topic, payload, 1)
            await asyncio.sleep(APART_SECONDS)


async def flood(url: str, genesis: bytes, task: bytes) -> None:
    """As much noise as the broker takes for a while."""
    topic = TelemetryTopics(genesis).of(TaskSubject(task, 0), Channel.STATUS)
    loop = asyncio.get_running_loop()
    end = loop.time() + FLOOD_SECONDS
    async with broker_connection(parse_broker(url, private=True), private=True) as client:
        while loop.time() < end:
            await asyncio.gather(*(client.publish(topic, os.urandom(1_000), 0) for _ in range(100)))


def _some(raw: bytes, topics: TelemetryTopics, task: bytes) -> TelemetryMessage:
    """A message of a task, whatever its channel."""
    for channel in Channel:
        topic = topics.of(TaskSubject(task, 0), channel)
        try:
            return replace(read_message(raw, topic, topics), channel=Channel.STATUS)
        except ValueError:
            continue
    raise AssertionError("what the provider told belongs somewhere")
