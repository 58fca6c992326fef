"""Commands about model files on this machine: list, show, verify, export, add, remove."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, DownloadColumn, TextColumn
from rich.progress import Progress as ProgressBar

from cli.output import Output
from cli.prompts import require_agreement
from cli.session import WalletSession, note
from gpu_tasks.client.output_files import OutputFile
from gpu_tasks.models import model_file
from gpu_tasks.models.errors import ModelError
from gpu_tasks.models.model_file import TOKENIZER, ByteProgress, ModelHeader
from gpu_tasks.models.model_store import FILE_SUFFIX, ModelMissingError, ModelStore, default_folder
from gpu_tasks.workloads import model_forms

ID_BYTES_SHOWN = 8
COLUMNS = ("name", "workload", "licence", "bytes", "id")
MEGABYTE = 1_000_000


def store_in(models_folder: Path | None) -> ModelStore:
    """Return the store of `--models`, or the usual one."""
    return ModelStore(models_folder or default_folder())


def has_bar(output: Output) -> bool:
    """Return whether a bar is shown. Without a terminal, rich would leave an empty line in the output."""
    return output.console.is_terminal and not output.as_json


@contextmanager
def byte_bar(output: Output, doing: str, bytes_total: int) -> Iterator[ByteProgress]:
    """Show a bar of bytes at a terminal, except under `--json`."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with ProgressBar(*columns, console=output.console, disable=not has_bar(output), transient=True) as bar:
        shown = bar.add_task(doing, total=bytes_total)
        yield lambda byte_count: bar.advance(shown, byte_count)


def facts_of(header: ModelHeader) -> dict[str, Any]:
    """Return what identifies a model."""
    return {
        "name": header.name,
        "id": header.model_id,
        "workload": header.workload,
        "licence": header.licence or None,
        "bytes": header.file_bytes,
    }


def show_model(output: Output, header: ModelHeader, **more: Any) -> None:
    """Show a model with more facts. People read its size in megabytes."""
    facts = facts_of(header)
    if not output.as_json:
        facts["size"] = megabytes(facts.pop("bytes"))
    output.facts(facts | more)


def list_models(session: WalletSession, models_folder: Path | None) -> None:
    """Carry out `ogpu model list`."""
    store = store_in(models_folder)
    rows = [facts_of(header) | {"built_in": store.is_built_in(header.model_id)} for header in store.models()]
    for damaged in store.damaged():
        note(f"{damaged.error}. It is left out")
    if not rows:
        note(f"there are no models in {store.folder}. Install one with `ogpu model fetch` or `ogpu model import`")
    show_rows(session.output, rows, "built_in")


def show_rows(output: Output, rows: Sequence[Mapping[str, Any]], *more_columns: str) -> None:
    """Show models. Tables for people have short ids and sizes in megabytes."""
    if output.as_json:
        output.rows("Models", (*COLUMNS, *more_columns), rows)
        return
    shown = [{**row, "id": row["id"][:ID_BYTES_SHOWN], "size": megabytes(row["bytes"])} for row in rows]
    columns = ["size" if name == "bytes" else name for name in COLUMNS]
    output.rows("Models", (*columns, *more_columns), shown)


def show(session: WalletSession, model_text: str, models_folder: Path | None) -> None:
    """Carry out `ogpu model show`."""
    store = store_in(models_folder)
    header = store.find(model_text)
    path = store.path(header.model_id)
    section_bytes = {section.name: section.length for section in header.sections}
    shown_sections = ", ".join(f"{name} {megabytes(length)}" for name, length in section_bytes.items())
    show_model(
        session.output,
        header,
        revision=header.revision or None,
        source=header.source or None,
        built_in=store.is_built_in(header.model_id),
        file=str(path),
        sections=section_bytes if session.output.as_json else shown_sections,
        **workload_facts(header, path),
    )


def workload_facts(header: ModelHeader, path: Path) -> Mapping[str, int | str]:
    """Return the facts that the model's workload reads from its config. Raise ModelFileError for a malformed one."""
    form = model_forms.form_of_model(header, path)
    if form is None:
        note(f"this version has no workload {header.workload}, and shows no shape")
        return {}
    return form.model_facts()


def verify(session: WalletSession, model_text: str, models_folder: Path | None) -> None:
    """Carry out `ogpu model verify`."""
    path = _file_named(store_in(models_folder), model_text)
    header = model_file.read_header(path)
    with byte_bar(session.output, f"verifying {header.name}", header.file_bytes) as progress:
        verified = model_file.verify(path, progress)
    show_model(session.output, verified, file=str(path), sound=True)


def _file_named(store: ModelStore, model_text: str) -> Path:
    """Return the file of a model in the store; else the file with this path. Raise ModelMissingError."""
    try:
        return store.path(store.find(model_text).model_id)
    except ModelMissingError:
        path = Path(model_text)
        if path.is_file() or "/" in model_text:
            return path
        raise


def export(
    session: WalletSession, model_text: str, target: Path | None, tokenizer_target: Path | None,
    models_folder: Path | None, *, is_forced: bool,
) -> None:  # fmt: skip
    """Carry out `ogpu model export`."""
    if target is None and tokenizer_target is None:
        raise click.UsageError("give FILE for the model, or --tokenizer FILE")
    store = store_in(models_folder)
    header = store.find(model_text)
    path = store.path(header.model_id)
    written: dict[str, str] = {}
    if tokenizer_target is not None:
        tokenizer = model_file.read_section(path, TOKENIZER)
        if not tokenizer:
            raise ModelError(f"{header.name} reads text as bytes, without a tokenizer", code="no_tokenizer")
        written["tokenizer"] = str(OutputFile(tokenizer_target, is_forced).write("tokenizer.json", tokenizer))
    if target is not None:
        with byte_bar(session.output, f"copying {header.name}", header.file_bytes) as progress:
            model_path = OutputFile(target, is_forced).fill(
                f"{header.model_id.hex()}{FILE_SUFFIX}",
                lambda stream: model_file.copy_verified(path, stream, progress),
            )
        written["file"] = str(model_path)
    show_model(session.output, header, **written)


def add(session: WalletSession, path: Path, models_folder: Path | None) -> None:
    """Carry out `ogpu model add`."""
    store = store_in(models_folder)
    header = model_file.read_header(path)
    with byte_bar(session.output, f"adding {header.name}", header.file_bytes) as progress:
        added = store.add(path, progress)
    show_model(session.output, added, file=str(store.path(added.model_id)))


def remove(session: WalletSession, model_text: str, models_folder: Path | None, *, is_agreed: bool) -> None:
    """Carry out `ogpu model remove`."""
    store = store_in(models_folder)
    header = store.find(model_text)
    if not is_agreed:
        require_agreement(
            f"Remove {header.name} 0x{header.model_id.hex()} ({megabytes(header.file_bytes)})?",
            "add --yes to remove the model",
        )
    store.remove(header.model_id)
    show_model(session.output, header, removed=True)


def megabytes(byte_count: int) -> str:
    """Return a size for people."""
    return f"{byte_count / MEGABYTE:,.1f} MB" if byte_count >= MEGABYTE // 10 else f"{byte_count:,} bytes"
