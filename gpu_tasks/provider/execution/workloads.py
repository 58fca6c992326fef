"""The workloads of this daemon, found by a service's workload and model, not by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from gpu_tasks.models.catalogue import install_advice
from gpu_tasks.workloads import model_forms, registry
from gpu_tasks.workloads.form import WorkloadForm
from wallet.errors import CodedError


class UnknownWorkloadError(CodedError):
    """A service requires a workload or model that this daemon does not have. The text names it."""


class NamedWorkload(Protocol):
    """A record with a workload and a model: the terms of a service, or a session."""

    @property
    def workload(self) -> bytes:
        """The id of the workload."""
        ...

    @property
    def model(self) -> bytes:
        """The id of the model."""
        ...


class Workloads:
    """The workload forms, by workload id."""

    def __init__(self, forms: Iterable[WorkloadForm] | None = None) -> None:
        """`forms` are the known workloads: all of this package and of this user's models by default."""
        known_forms = model_forms.forms() if forms is None else forms
        self._takes_new_models = forms is None
        self._forms = {(form.workload_id, form.model_id): form for form in known_forms}

    @classmethod
    def named(cls, names: Sequence[str]) -> Workloads:
        """Return the workloads that the operator named, or all without names.

        Raise LookupError for an unknown name.
        """
        return cls([model_forms.form_named(name) for name in names] if names else None)

    @property
    def stepwise(self) -> tuple[str, ...]:
        """The names of the workloads that run in steps. Only these are sold by auction."""
        return tuple(form.name for form in self._forms.values() if form.is_stepwise)

    def in_steps(self, workload: bytes) -> WorkloadForm:
        """Return the form of a task's workload.

        Raise UnknownWorkloadError if this daemon has no such workload that runs in steps.
        """
        # Only a run in steps can be checked part by part, which auctions require.
        stepwise_forms = [form for form in self._forms.values() if form.is_stepwise and form.workload_id == workload]
        if not stepwise_forms:
            raise UnknownWorkloadError(
                f"workload 0x{workload.hex()[:8]}.. is not among this daemon's stepwise ones "
                f"({', '.join(self.stepwise) or 'none'})",
                code="workload_not_stepwise",
            )
        return stepwise_forms[0]

    def of(self, terms: NamedWorkload) -> WorkloadForm:
        """Return the form of a service's or a session's workload.

        Raise UnknownWorkloadError if this daemon has another workload or model.
        """
        form = self._forms.get((terms.workload, terms.model)) or self._new_model(terms)
        if form is not None:
            return form
        known_names = ", ".join(known_form.name for known_form in self._forms.values())
        same_workload = [form.name for form in self._forms.values() if form.workload_id == terms.workload]
        name = registry.workload_name(terms.workload) or next(iter(same_workload), None)
        if name is None:
            raise UnknownWorkloadError(
                f"workload 0x{terms.workload.hex()[:8]}.. is unknown to this daemon (it has {known_names})"
            )
        # The right program with other weights gives other results, and wrong results are slashed.
        raise UnknownWorkloadError(
            f"model 0x{terms.model.hex()[:8]}.. of {name} is not on this machine (it has {known_names}). "
            f"{install_advice(terms.model)}",
            code="unknown_model",
        )

    def _new_model(self, terms: NamedWorkload) -> WorkloadForm | None:
        """Return the form of a model that came to this machine after the start of the daemon."""
        form = model_forms.form_of(terms.workload, terms.model) if self._takes_new_models else None
        if form is None or form.model_id != terms.model:
            return None
        return self._forms.setdefault((terms.workload, terms.model), form)
