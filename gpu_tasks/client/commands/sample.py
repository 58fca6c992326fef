"""`ogpu task sample`: a trained model continues a text on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from cli.session import WalletSession
from gpu_tasks.client.commands.id_prefixes import known_task, named_task, require_customer
from gpu_tasks.client.commands.task_runs import require_training, trained_model
from gpu_tasks.client.input_files import read_input
from gpu_tasks.client.tasks.exports import ExportError, read_safetensors
from gpu_tasks.client.tasks.results import fetch_result
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.form import ModelTensor, WorkloadForm
from runtime.encoding.codec import DecodeError
from wallet.client import ChainClient
from wallet.errors import harmless

MODEL_ENDING = ".safetensors"
MODEL_BYTES_MAX = 1 << 24
SEED_BYTES = 32


def sample(session: WalletSession, source: str, key_text: str | None, prompt: str, max_tokens: int, seed: int) -> None:
    """Carry out `ogpu task sample`."""
    form, tensors = (
        _exported_model(Path(source)) if source.endswith(MODEL_ENDING) else _task_model(session, source, key_text)
    )
    try:
        # A shell may pass bytes that are no UTF-8 (PEP 383), and the model continues bytes.
        continuation = form.sample(tensors, os.fsencode(prompt), max_tokens, seed.to_bytes(SEED_BYTES, "little"))
    except ImportError as error:
        reason = f"this machine lacks a library: {error}. Run `pip install '.[provider]'`"
        raise ExportError(reason, code="library_missing") from None
    except DecodeError as error:
        raise ExportError(f"{source} is not a model of {form.name}: {error}", code="no_model") from None
    if continuation is None:
        raise ExportError(f"{form.name} trains no model that continues a text", code="no_model")
    text = continuation.decode(errors="replace")
    if session.output.as_json:
        session.output.facts({"model": source, "workload": form.name, "prompt": prompt, "seed": seed, "text": text})
    else:
        # A model of bytes can produce control sequences.
        click.echo(harmless(prompt + text))


def _exported_model(path: Path) -> tuple[WorkloadForm, Sequence[ModelTensor]]:
    """Return the workload and the model of an exported file."""
    tensors, metadata = read_safetensors(read_input(path, MODEL_BYTES_MAX))
    form = next(
        (workload_form for workload_form in registry.FORMS if workload_form.name == metadata.get("workload")), None
    )
    if form is None:
        raise ExportError(f"{path} names no workload that this program knows", code="no_model")
    return form, tensors


def _task_model(
    session: WalletSession, source: str, key_text: str | None
) -> tuple[WorkloadForm, Sequence[ModelTensor]]:
    """Fetch, open and check the result of a task, and return its workload and its model."""
    if key_text is None:
        raise click.UsageError("give --key for a task, or name a .safetensors file")
    models: list[tuple[WorkloadForm, Sequence[ModelTensor]]] = []

    async def body(client: ChainClient) -> None:
        task_id, keypair = await named_task(session, client, source, key_text), session.key(key_text)
        final_hash = await client.finalized()
        task = await known_task(client, task_id, final_hash)
        require_training(task)
        require_customer(task, keypair.account, "opens its result")
        providers = await market_reads.providers(client, final_hash)
        async with BlobClient(private=market_reads.is_development(client)) as blob_client:
            fetched_run = await fetch_result(blob_client, keypair, task, providers)
            models.append(await trained_model(blob_client, keypair, task, providers, fetched_run))

    session.run(body)
    return models[0]
