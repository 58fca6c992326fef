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
from gpu_tasks.provider.journal.pause_book import PauseBook
from gpu_tasks.workloads.registry import FORMS
from wallet.errors import WalletError
from wallet.rpc import NodeUnreachableError, RpcError

TORCH = "run `pip install torch` in this environment (on Linux, the CUDA build), and leave --backend out"
COLUMNS = ("check", "grade", "says", "todo")


def doctor(
    provider_options: ProviderOptions, backend: str | None, wish: str, engine_address: str, offline: bool
) -> None:
    """Print diagnoses. Exit with 1 if one of them is a problem."""
    found = asyncio.run(_diagnoses(provider_options, backend, wish, engine_address, offline=offline))
    provider_options.output.rows("Diagnoses", COLUMNS, [_row(each) for each in found])
    if any(each.grade is Grade.BAD for each in found):
        raise click.exceptions.Exit(EXIT_FAILED)


async def _diagnoses(
    provider_options: ProviderOptions, backend_name: str | None, wish: str, engine_address: str, *, offline: bool
) -> list[Diagnosis]:
    worker_walls, offered = walls_for(wish), hardware_of(provider_options)
    base_path, policy = made_base_path(provider_options.base_path), policy_of(provider_options)
    are_offered = offers_containers(policy)
    found = system_diagnoses(base_path, worker_walls.sandbox, worker_walls.problem, are_offered=are_offered)
    found += hardware_diagnoses(offered)
    found += container_diagnoses(await look_at_engine(engine_address), are_offered=are_offered)
    if are_offered:
        found.append(image_diagnosis(provider_options.base_path / ENGINE_FOLDER, policy.containers.container_policy()))
    asked = [] if offline else await _asked(provider_options)  # before the workers, whose trial takes a while
    for each in asked:
        if each.check in ("chain", "key") and each.grade is Grade.BAD:
            note(f"{each.says}. The check of this machine goes on")
    chosen = chosen_backend(backend_name, offered)
    grade = bad if backend_name is None else weak
    found += [grade("backend", idle_gpu_problem(hardware), TORCH) for hardware in idle_gpus(chosen, offered)]
    if is_possible(chosen, offered):
        found += await worker_diagnoses(
            offered, FORMS, provider_options.make_workers(chosen, worker_walls.sandbox), chosen
        )
    else:
        found.append(bad("workers", f"the backend {chosen} needs a GPU, and there is none", "--backend numpy"))
    return [*found, *asked]


async def _asked(provider_options: ProviderOptions) -> list[Diagnosis]:
    """Return the diagnoses of key and chain; one diagnosis if they cannot be used."""
    try:
        key = provider_options.key
    except WalletError as error:
        return [bad("key", str(error), "give --provider-key and --password-file")]
    try:
        live_chain = await LiveChain.connect(provider_options.url, key, provider_options.trust, note)
    except (ChainError, WalletError, NodeUnreachableError, RpcError) as error:
        return [bad("chain", str(error), "name the node with --url, or register the key with `ogpu-provider register`")]
    try:
        pause_notes = PauseBook(provider_options.base_path).read()

        def why(device_status: DeviceStatus) -> str:
            return why_paused(device_status, pause_notes.get(device_status.id), 0).why

        return await chain_diagnoses(live_chain, all_hardware(provider_options.base_path), why)
    except ChainError as error:
        return [bad("chain", str(error), "try again, or name another node with --url")]
    except OSError as error:
        raise ProviderError(
            f"the base path {provider_options.base_path} cannot be used: {error.strerror}", code="file_unusable"
        ) from None
    finally:
        await live_chain.close()


def _row(each: Diagnosis) -> dict[str, str]:
    return {"check": each.check, "grade": str(each.grade), "says": each.says, "todo": each.todo}
