"""The services and policies of a devnet: a service of every workload, and bids for every kind of task.

Always: every form of the package has a service; service 0 is the preset's, and stays what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from genesis import dev_accounts
from genesis.presets import RATE_MAX, TEXTGEN_WORKLOAD
from gpu_tasks.provider.programs.means import CONTAINER_KIND, ProgramMeans
from gpu_tasks.provider.tasks.policy import BidPolicy, price_of
from gpu_tasks.provider.tasks.policy_file import write_policy
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.registry import FORMS, SALE_TERMS, USUAL_TERMS, SaleTerms
from runtime.cryptography.ss58 import encode as ss58
from wallet.private_file import make_folder

SELLERS = 3
"""Providers of each further service: each starts a worker for it, and two race while others judge."""
RAMP_BLOCKS, COMMIT_WINDOW_BLOCKS = 10, 60
LEAST_PRICE = "0.1 oGPU/h"
IMAGES = tuple(
    f"docker.io/{name}"
    for name in ("library/alpine", "library/busybox", "library/debian", "library/python", "library/ubuntu",
                 "pytorch/pytorch")
)  # fmt: skip
"""Repositories with permitted images; every image sent as an archive is permitted too."""


def add_services(patch: dict[str, Any], owner: str) -> None:
    """Put a service of each other workload into a preset, offered by its first devices."""
    market = patch["inferenceMarket"]
    devices = [offer["device"] for offer in market["offers"]][:SELLERS]
    for form in _others():
        number, terms = len(market["services"]), SALE_TERMS.get(form.name, USUAL_TERMS)
        market["services"].append(_service(form, owner, terms))
        market["offers"] += [{"service": number, "device": device, "ask": terms.ask} for device in devices]


def write_policies(homes: Sequence[Path]) -> None:
    """Have the providers of these base paths bid for every kind of task, as far as their machine can do it."""
    kinds = (*(form.name for form in FORMS if form.is_stepwise), CONTAINER_KIND)
    containers = ProgramMeans(images=IMAGES, any_archive=True)
    policy = BidPolicy(kinds=kinds, least_price=price_of(LEAST_PRICE), gangs=True, containers=containers)
    for home in homes:
        make_folder(home)
        write_policy(home, policy)


def _others() -> tuple[WorkloadForm, ...]:
    """Return the workloads that no preset sells."""
    return tuple(form for form in FORMS if form.workload_id != TEXTGEN_WORKLOAD)


def _service(form: WorkloadForm, owner: str, terms: SaleTerms) -> dict[str, Any]:
    return {
        "owner": ss58(dev_accounts.stash(owner)),
        "name": form.name,
        "workload": "0x" + form.workload_id.hex(),
        "model": "0x" + form.model_id.hex(),
        "price_min": terms.ask,
        "price_max": RATE_MAX,
        "ramp": RAMP_BLOCKS,
        "commit_window": COMMIT_WINDOW_BLOCKS,
        "tokens_max": terms.cost_max,
    }
