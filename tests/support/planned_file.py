"""A file of five lines with its plan, without a chain."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from io import BytesIO
from pathlib import Path

from gpu_tasks.client.buyer import Buyer
from gpu_tasks.client.units.file_plan import FilePlan, FileWish, Sold, plan_file
from gpu_tasks.client.units.posting import Wish
from gpu_tasks.market.inference.services import ServiceTerms
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.model_forms import form_named

FORM = form_named("decoder-int8:ogpu-bytes")
SOLD = ServiceTerms(
    b"writer",
    FORM.workload_id,
    FORM.model_id,
    1,
    10**9,
    ramp=0,
    commit_window=30,
    tokens_max=256,
    input_share=250_000,
    pace=64,
)
WISH = Wish(0, 8, {}, 1, 1_000_000, 2)


def wanted(folder: Path, text: str = "a\nb\nc\nd\ne\n", window: str | None = None) -> FileWish:
    stream = BytesIO(text.encode())
    return FileWish(stream, None, folder / "out", folder / "errors", folder / "records", "", window)


def planned(
    wish: FileWish,
    price_max: int = 10**9,
    *,
    is_sold: bool = True,
    device_class: str = WISH.device_class,
    form: WorkloadForm = FORM,
) -> FilePlan:
    async def usual(*_: object) -> int:
        assert is_sold
        return price_max

    async def sold() -> Sold:
        assert is_sold, "asked for where a record has it"
        return form, SOLD

    return asyncio.run(
        plan_file(b"g" * 32, Buyer.alone(b"a" * 32), replace(WISH, device_class=device_class), wish, sold, usual)
    )
