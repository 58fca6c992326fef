"""Which workloads there are: the one place that names them, for programs that know none.

Always: no two share a name or an id; nothing here loads NumPy or a model before a workload is opened.
"""

from typing import NamedTuple

from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.matmul_hash.form import MatmulHashForm
from gpu_tasks.workloads.render_tile.form import TileForm
from gpu_tasks.workloads.textgen_int8.form import TextGenerationForm
from gpu_tasks.workloads.train_int8.form import TrainingForm
from gpu_tasks.workloads.workload import Workload
from runtime.encoding.types import GRAINS_PER_OGPU

FORMS: tuple[WorkloadForm, ...] = (TextGenerationForm(), TrainingForm(), MatmulHashForm(), TileForm())

METRIC_UNITS = {"train-int8": "thousandths of a bit a held-out byte", "render-tile": "pixels left to render"}
"""What the metric of a run's state counts, by the names of the forms that run in steps."""


class SaleTerms(NamedTuple):
    """Terms of a service on a development chain."""

    ask: int
    """Grains for a thousand cost units."""
    cost_max: int
    """Cost units of a request, at most."""


USUAL_TERMS = SaleTerms(GRAINS_PER_OGPU // 100, 10_000)
SALE_TERMS = {"render-tile": SaleTerms(GRAINS_PER_OGPU // 1_000, 4_000_000_000)}
"""By the names of the forms whose cost units are smaller than usual."""


def form_of(workload_id: bytes) -> WorkloadForm | None:
    """The form of the workload that a service asks for; None for one that this program does not know."""
    return next((form for form in FORMS if form.workload_id == workload_id), None)


def form_named(name: str) -> WorkloadForm:
    """The form of the workload `name`; LookupError that says which there are."""
    for form in FORMS:
        if form.name == name:
            return form
    raise LookupError(f"no workload {name!r}; there are {', '.join(form.name for form in FORMS)}")


def open_workload(name: str, backend: str = "numpy") -> Workload:
    """The workload `name` on a backend, conforming or not at all: LookupError, and as `WorkloadForm.open`."""
    return form_named(name).open(backend)
