"""The forms of all workloads on this machine: those of the registry, and one for each model file.

A service names a workload and a model. Programs of customers and providers find its form here.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path  # deterministic: a file whose bytes the model's id covers

from gpu_tasks.models.errors import ModelError
from gpu_tasks.models.model_file import ModelHeader, read_header
from gpu_tasks.models.model_store import BUILT_IN_FOLDER, FILE_SUFFIX, ModelStore, default_folder
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.decoder_int8.form import DecoderForm
from gpu_tasks.workloads.decoder_int8.request import WORKLOAD_NAME as DECODER
from gpu_tasks.workloads.embed_int8.form import EmbeddingForm
from gpu_tasks.workloads.embed_int8.request import WORKLOAD_NAME as ENCODER
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.workload import Workload

_MODEL_FORMS: Mapping[str, Callable[[ModelHeader, Path], WorkloadForm]] = {
    DECODER: DecoderForm,
    ENCODER: EmbeddingForm,
}


def _built_in() -> Iterator[WorkloadForm]:
    for path in sorted(BUILT_IN_FOLDER.glob(f"*{FILE_SUFFIX}")):
        header = read_header(path)
        yield _MODEL_FORMS[header.workload](header, path)


PACKAGE_FORMS: tuple[WorkloadForm, ...] = (*_built_in(), *registry.FORMS)
"""The forms that every machine has: those of the models in this package, and those of the registry."""


def forms() -> tuple[WorkloadForm, ...]:
    """Return the form of every workload, and of every model in this user's store. Raise ModelError."""
    store = _store()
    published = {form.model_id for form in PACKAGE_FORMS}
    added = (header for header in store.models() if header.model_id not in published)
    of_models = (form_of_model(header, store.path(header.model_id)) for header in added)
    return (*PACKAGE_FORMS, *(form for form in of_models if form is not None))


def form_of(workload_id: bytes, model_id: bytes) -> WorkloadForm | None:
    """Return the form of a service's workload.

    Return None if this program does not have it, or if this user's store does not have its model. A workload of the
    registry may have another model than the service: compare `model_id`.
    """
    if workload_id not in registry.MODEL_WORKLOADS.values():
        return registry.form_of(workload_id)
    try:
        path = _store().path(model_id)
        found = form_of_model(read_header(path), path)
    except ModelError:
        return None
    # Any account may offer one workload with a model of another. No provider could compute it.
    return found if found is not None and found.workload_id == workload_id else None


def form_of_model(header: ModelHeader, path: Path) -> WorkloadForm | None:
    """Return the form of the workload that computes the model of a file, or None if this program does not have it."""
    make_form = _MODEL_FORMS.get(header.workload)
    return None if make_form is None else make_form(header, path)


def form_named(name: str) -> WorkloadForm:
    """Return the form of a workload, such as `matmul-hash` or `decoder-int8:smollm2-135m-instruct`.

    A model is named by its name or by the first digits of its id. The name of a built-in model is never another's.
    Raise LookupError, with the known names, if there is none.
    """
    workload, _, model = name.partition(":")
    of_package = next((form for form in PACKAGE_FORMS if form.name == name), None)
    if of_package is not None:
        return of_package
    if not model or workload not in _MODEL_FORMS:
        return registry.form_named(name)
    try:
        store = _store()
        header = store.find(model)
        if header.workload != workload:
            raise LookupError(f"{model} is a model of {header.workload}; give {header.workload}:{model}")
        return _MODEL_FORMS[workload](header, store.path(header.model_id))
    except ModelError as error:
        raise LookupError(str(error)) from None


def open_workload(name: str, backend_name: str = "numpy") -> Workload:
    """Return the workload `name` on a conforming backend. Raise LookupError, and as `WorkloadForm.open`."""
    return form_named(name).open(backend_name)


def _store() -> ModelStore:
    return ModelStore(default_folder())
