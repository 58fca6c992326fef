"""The list of workloads, and the only module that names them.

Invariant: no two share a name or an id. Nothing here loads NumPy or a model before a workload is opened.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gpu_tasks.workloads.decoder_int8.request import WORKLOAD_ID as DECODER_ID
from gpu_tasks.workloads.decoder_int8.request import WORKLOAD_NAME as DECODER
from gpu_tasks.workloads.embed_int8.request import WORKLOAD_ID as ENCODER_ID
from gpu_tasks.workloads.embed_int8.request import WORKLOAD_NAME as ENCODER
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.matmul_hash.form import MatmulHashForm
from gpu_tasks.workloads.render_tile.form import TileForm
from gpu_tasks.workloads.train_int8.form import TrainingForm
from gpu_tasks.workloads.workload import Workload
from runtime.encoding.types import GRAINS_PER_OGPU

FORMS: tuple[WorkloadForm, ...] = (TrainingForm(), MatmulHashForm(), TileForm())
"""The forms of the workloads without a model file."""
MODEL_WORKLOADS = {DECODER: DECODER_ID, ENCODER: ENCODER_ID}
"""The ids of the workloads that compute any model in a file of theirs, by name. `model_forms` has their forms."""

METRIC_UNITS = {"train-int8": "thousandths of a bit a held-out byte", "render-tile": "pixels left to render"}
"""The unit of a state's metric, by the name of each form that runs in steps."""


class SaleTerms(NamedTuple):
    """Terms of a service on a development chain."""

    ask: int
    """Grains per thousand cost units."""
    cost_max: int
    """The greatest cost of a request, in cost units."""


USUAL_TERMS = SaleTerms(GRAINS_PER_OGPU // 100, 10_000)
SALE_TERMS = {"render-tile": SaleTerms(GRAINS_PER_OGPU // 1_000, 4_000_000_000)}
"""Terms by name, for the forms whose cost units are smaller than usual."""


def form_of(workload_id: bytes) -> WorkloadForm | None:
    """Return the form of a workload without a model file, or None."""
    return next((form for form in FORMS if form.workload_id == workload_id), None)


def workload_names() -> Mapping[bytes, str]:
    """Return the names of the workloads, without their models, by id."""
    of_forms = {form.workload_id: form.name for form in FORMS}
    return of_forms | {known_id: name for name, known_id in MODEL_WORKLOADS.items()}


def workload_name(workload_id: bytes) -> str | None:
    """Return the name of a workload, without its model, or None if this program does not have it."""
    return workload_names().get(workload_id)


def form_named(name: str) -> WorkloadForm:
    """Return the form of a workload without a model file.

    Raise LookupError, with the known names, if there is none.
    """
    for form in FORMS:
        if form.name == name:
            return form
    known = [*(form.name for form in FORMS), *(f"{workload}:MODEL" for workload in MODEL_WORKLOADS)]
    raise LookupError(f"no workload {name!r}; there are {', '.join(known)}")


def open_workload(name: str, backend_name: str = "numpy") -> Workload:
    """Return the workload `name` on a conforming backend.

    Raise LookupError for another name, and as `WorkloadForm.open`.
    """
    return form_named(name).open(backend_name)
