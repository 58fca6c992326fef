"""What a workload is to the programs of customers and providers: names, request form, display, unit of cost.

Always: nothing here needs NumPy or a model in memory, so a wallet-sized program can post work; programs take a
form from `registry` by the chain's workload id and know no workload by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpu_tasks.batches.outcomes import BatchOutcome, Completed, RefusedRequest
from gpu_tasks.workloads.workload import Workload


def outcomes_of(
    form: WorkloadForm, requests: Sequence[bytes], outputs: Sequence[bytes | None]
) -> tuple[BatchOutcome, ...]:
    """What each request gave, and the tokens of it; None in `outputs` for a request that is none."""
    return tuple(
        RefusedRequest() if output is None else Completed(output, form.cost_in(request), form.cost(output))
        for request, output in zip(requests, outputs, strict=True)
    )


class RequestError(ValueError):
    """What was asked is no request of this workload; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Option:
    """Something that a customer may set for every request of a post, such as a temperature."""

    name: str
    default: str
    doc: str


class WorkloadForm(Protocol):
    """One workload, as programs see it. Costs are whole numbers of `cost_unit`; on the chain: `tokens_max`."""

    name: str
    """How people call it, such as `textgen-int8`."""
    workload_id: bytes
    """32 bytes: which computation this is, rules and all."""
    model_id: bytes
    """32 bytes: the model file that this package publishes; zeros for a workload without one."""
    cost_unit: str
    """What is counted, in the singular: `token`."""
    is_stepwise: bool = False
    """Whether it runs in steps from one state to the next: only such work has milestones, and can be taken over."""
    backends: tuple[str, ...]
    """The kinds of backend that it has: `numpy`, which every machine can be asked for, and such as `torch`."""
    options: tuple[Option, ...] = ()
    """What a customer may set beside the text."""

    def encode(self, text: str, cost_max: int, options: Mapping[str, str], seed: bytes) -> bytes:
        """The request that asks `text`, costing at most `cost_max`; RequestError if there is none.

        `options` holds texts by name (absent: the default); `seed` is 32 random bytes for whatever chance is in it.
        """
        ...

    def show_request(self, request: bytes) -> str:
        """What was asked, for people; DecodeError for bytes that are no request."""
        ...

    def show_output(self, output: bytes) -> str:
        """The answer, for people; whatever the bytes are."""
        ...

    def cost_in(self, request: bytes) -> int:
        """What a request costs before anything is computed, in `cost_unit`: its input tokens; DecodeError for none."""
        return 0

    def cost_asked(self, request: bytes) -> int:
        """The most that a request may cost, in `cost_unit`, known before it is computed; DecodeError for no request."""
        ...

    def output_bytes(self, request: bytes) -> int:
        """The most bytes that its output may have, known before it is computed; DecodeError for no request."""
        ...

    def segments(self, request: bytes) -> int:
        """How many segments the trace of a request's run has, 0 where there is none; DecodeError for no request."""
        return 0

    def cost(self, output: bytes) -> int:
        """What an output cost, in `cost_unit`: what its attestation states, at most the unit's `tokens_max`."""
        ...

    def open(self, backend: str) -> Workload:
        """The workload with its published model on a backend, which is a kind and, where it needs one, `-<device>`.

        Conformance has passed. LookupError for a backend that it does not have, ImportError where a library is missing,
        NonConformingBackendError if this machine gives other results than the published ones.
        """
        ...


def settings(options: tuple[Option, ...], given: Mapping[str, str]) -> dict[str, str]:
    """Every option's value: as given, else its default. RequestError for a name that is none, with those that are."""
    names = [option.name for option in options]
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise RequestError(f"there is no option {unknown[0]!r} here; there are: {', '.join(names) or 'none'}")
    return {option.name: given.get(option.name, option.default) for option in options}
