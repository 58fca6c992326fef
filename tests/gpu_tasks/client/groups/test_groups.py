"""The bounds and choices that the options of `ogpu` show are those of the market."""

from __future__ import annotations

import click
import pytest

from gpu_tasks.batches.requests import REQUESTS_MAX
from gpu_tasks.client.commands.task_runs import REQUEUES_MAX
from gpu_tasks.client.groups import declared, limits
from gpu_tasks.client.offers.listing import CLASS_CHOICES, USUAL
from gpu_tasks.client.tasks.records import HISTORY_STATES
from gpu_tasks.client.tasks.results import DEFAULT_FOLDER as CHECKPOINTS
from gpu_tasks.client.units.lines import FileForm
from gpu_tasks.client.units.posting_once import DEFAULT_FOLDER as POSTINGS
from gpu_tasks.market.devices.records import CLASS_NAMES
from gpu_tasks.market.inference import services
from gpu_tasks.market.inference.units import RACERS_MAX
from gpu_tasks.market.training.terms import SLOTS_MAX
from gpu_tasks.tasks.container_task import NETWORKS
from gpu_tasks.tasks.task_kinds import FORMS
from gpu_tasks.tasks.training_task import KIND
from gpu_tasks.traces.trace import SEGMENTS_MAX


@pytest.mark.parametrize(
    ("shown", "meant"),
    [
        (limits.REQUESTS_MAX, REQUESTS_MAX),
        (limits.RACERS_MAX, RACERS_MAX),
        (limits.SEGMENTS_MAX, SEGMENTS_MAX),
        (limits.SLOTS_MAX, SLOTS_MAX),
        (limits.REQUEUES_MAX, REQUEUES_MAX),
        (limits.PACE_MAX, services.PACE_MAX),
        (limits.SERVICE_NAME_BYTES_MAX, services.SERVICE_NAME_BYTES_MAX),
        (limits.CLASS_NAMES, tuple(CLASS_NAMES)),
        (limits.CLASS_CHOICES, (USUAL, *CLASS_CHOICES[1:])),
        (limits.NETWORKS, tuple(NETWORKS)),
        (limits.FILE_FORMS, tuple(form.value for form in FileForm)),
        (limits.TASK_KINDS, (KIND, *(kind for kind in FORMS if kind != KIND))),
        (limits.HISTORY_STATES, HISTORY_STATES),
        (declared.POSTINGS_FOLDER, POSTINGS),
        (declared.CHECKPOINTS_FOLDER, CHECKPOINTS),
    ],
)
def test_the_bounds_of_options_are_the_market_s(shown: object, meant: object) -> None:
    assert str(shown) == str(meant)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0.5", 0.5), ("12", 12.0), ("12s", 12.0), ("2m", 120.0), ("600", 600.0), ("10m", 600.0)],
)
def test_a_duration_is_seconds_or_a_time_with_a_unit(text: str, seconds: float) -> None:
    assert declared.DurationRange(0.5, 600).convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["0.4", "0", "600.1", "601s", "11m", "-1", "x", "1e3", ""])
def test_a_duration_out_of_its_range_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        declared.DurationRange(0.5, 600).convert(text, None, None)
