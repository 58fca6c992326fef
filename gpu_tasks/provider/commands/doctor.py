"""`doctor`: the problems of machine, key and chain that keep the daemon from earning."""

from __future__ import annotations

import asyncio

import click

from cli.session import EXIT_FAILED, note
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.provider.chain.live import LiveChain
from gpu_tasks.provider.chain.port import ChainError
from gpu_tasks.provider.commands.containers import ENGINE_FOLDER, offers_containers, policy_of
from gpu_tasks.provider.commands.options import (
    ProviderError,
    ProviderOptions,
    hardware_of,
    idle_gpu_problem,
    made_base_path,
)
from gpu_tasks.provider.commands.walls import walls_for
from gpu_tasks.provider.doctor.chain import chain_diagnoses
from gpu_tasks.provider.doctor.machine import (
    container_diagnoses,
    hardware_diagnoses,
    image_diagnosis,
    system_diagnoses,
    worker_diagnoses,
)
from gpu_tasks.provider.duties.resumer import why_paused
from gpu_tasks.provider.execution.containers.ability import look_at_engine
from gpu_tasks.provider.execution.diagnoses import Diagnosis, Grade, bad, weak
from gpu_tasks.provider.execution.gpu import all_hardware
from gpu_tasks.provider.execution.worker_start import chosen_backend, idle_gpus, is_possible
from gpu_tasks.provider.journal.pause_book import pause_notes
from gpu_tasks.workloads.model_forms import PACKAGE_FORMS
from wallet.errors import WalletError
from wallet.rpc import NodeUnreachableError, RpcError

TORCH = "run `pip install torch` in this environment (on Linux, the CUDA build), and leave --backend out"
COLUMNS = ("check", "grade", "says", "todo")


def doctor(options: ProviderOptions, backend: str | None, wish: str, engine_address: str, offline: bool) -> None:
    """Print diagnoses. Exit with 1 if one of them is a problem."""
    diagnoses = asyncio.run(_diagnoses(options, backend, wish, engine_address, offline=offline))
    output = options.output
    columns = (*COLUMNS, "code") if output.as_json else COLUMNS
    output.rows("Diagnoses", columns, [_diagnosis_row(diagnosis) for diagnosis in diagnoses])
    if any(diagnosis.grade is Grade.BAD for diagnosis in diagnoses):
        raise click.exceptions.Exit(EXIT_FAILED)


async def _diagnoses(
    options: ProviderOptions, backend_name: str | None, sandbox_wish: str, engine_address: str, *, offline: bool
) -> list[Diagnosis]:
    walls, offered_hardware = walls_for(sandbox_wish), hardware_of(options)
    base_path, policy = made_base_path(options.base_path), policy_of(options)
    are_offered = offers_containers(policy)
    diagnoses = system_diagnoses(base_path, walls.sandbox, walls.problem, are_offered=are_offered)
    diagnoses += hardware_diagnoses(offered_hardware)
    diagnoses += container_diagnoses(await look_at_engine(engine_address), are_offered=are_offered)
    if are_offered:
        diagnoses.append(image_diagnosis(options.base_path / ENGINE_FOLDER, policy.containers.container_policy()))
    chain_findings = [] if offline else await _chain_findings(options)  # before the workers, whose trial takes a while
    for diagnosis in chain_findings:
        if diagnosis.check in ("chain", "key") and diagnosis.grade is Grade.BAD:
            note(f"{diagnosis.says}. The check of this machine goes on")
    # The operator's own choice of a slow backend is no problem, only a warning.
    chosen_name = chosen_backend(backend_name, offered_hardware)
    backend_grade = bad if backend_name is None else weak
    diagnoses += [
        backend_grade("backend", idle_gpu_problem(hardware), TORCH)
        for hardware in idle_gpus(chosen_name, offered_hardware)
    ]
    if is_possible(chosen_name, offered_hardware):
        diagnoses += await worker_diagnoses(
            offered_hardware, PACKAGE_FORMS, options.make_workers(chosen_name, walls.sandbox), chosen_name
        )
    else:
        diagnoses.append(bad("workers", f"the backend {chosen_name} needs a GPU, and there is none", "--backend numpy"))
    return [*diagnoses, *chain_findings]


async def _chain_findings(options: ProviderOptions) -> list[Diagnosis]:
    """Return the diagnoses of key and chain; one diagnosis if they cannot be used."""
    try:
        provider_key = options.key
    except WalletError as error:
        return [bad("key", str(error), "give --provider-key and --password-file")]
    try:
        chain = await LiveChain.connect(options.url, provider_key, options.trust, note)
    except (ChainError, WalletError, NodeUnreachableError, RpcError) as error:
        return [bad("chain", str(error), "name the node with --url, or register the key with `ogpu-provider register`")]
    try:
        device_notes = pause_notes(options.base_path)

        def why(status: DeviceStatus) -> str:
            return why_paused(status, device_notes.get(status.id), 0).why

        return await chain_diagnoses(chain, all_hardware(options.base_path), why)
    except ChainError as error:
        return [bad("chain", str(error), "try again, or name another node with --url")]
    except OSError as error:
        raise ProviderError(
            f"the base path {options.base_path} cannot be used: {error.strerror}", code="file_unusable"
        ) from None
    finally:
        await chain.close()


def _diagnosis_row(diagnosis: Diagnosis) -> dict[str, str]:
    return {
        "check": diagnosis.check,
        "grade": str(diagnosis.grade),
        "says": diagnosis.says,
        "todo": diagnosis.todo,
        "code": diagnosis.code,
    }
