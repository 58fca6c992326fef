"""Which workloads this daemon has, found by what a service on the chain promises: it knows none by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpu_tasks.market.inference.services import ServiceTerms
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.registry import FORMS, form_named


class UnknownWorkloadError(Exception):
    """A service promises work that this daemon does not have; the text names it."""


class Workloads:
    """Forms, by the services that they serve."""

    def __init__(self, forms: Iterable[WorkloadForm] = FORMS) -> None:
        """All that this package has, or fewer."""
        self._forms = {form.workload_id: form for form in forms}

    @classmethod
    def named(cls, names: Sequence[str]) -> Workloads:
        """Only those that the operator named, or all if none was; LookupError for a name that is none."""
        return cls([form_named(name) for name in names] if names else FORMS)

    @property
    def stepwise(self) -> tuple[str, ...]:
        """The names of those that run in steps: only such are sold by auction."""
        return tuple(form.name for form in self._forms.values() if form.is_stepwise)

    def in_steps(self, workload: bytes) -> WorkloadForm:
        """The form of a task's work; UnknownWorkloadError if this daemon has none that runs in steps."""
        form = self._forms.get(workload)
        if form is None or not form.is_stepwise:
            raise UnknownWorkloadError(
                f"workload 0x{workload.hex()[:8]}.. is none of those in steps that this daemon has "
                f"({', '.join(self.stepwise) or 'none'})"
            )
        return form

    def of(self, terms: ServiceTerms) -> WorkloadForm:
        """The form of a service's work. UnknownWorkloadError if workload or model is another than this daemon's."""
        form = self._forms.get(terms.workload)
        names = ", ".join(known.name for known in self._forms.values())
        if form is None:
            raise UnknownWorkloadError(
                f"workload 0x{terms.workload.hex()[:8]}.. is none that this daemon has (it has {names})"
            )
        # The right program with other weights gives other results: whoever serves such a service is slashed.
        if form.model_id != terms.model:
            raise UnknownWorkloadError(
                f"model 0x{terms.model.hex()[:8]}.. of {form.name} is not this daemon's (it has "
                f"0x{form.model_id.hex()[:8]}..)"
            )
        return form
