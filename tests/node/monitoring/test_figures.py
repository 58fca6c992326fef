"""Figures of the market from final blocks."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from block_maker import FIRST_SLOT, Maker, now_of
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.training.training_market import TrainingMarket
from node.monitoring.figures import Figures
from node.monitoring.metrics import Metrics
from runtime.cryptography import ss58
from runtime.encoding.codec import U32, codec

UNITS, TASKS = 7, 3


def test_units_and_tasks_are_counted_in_the_newest_final_block(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "maker")
    metrics = Metrics("test", "node", "0", is_validator=True)
    machine: Any = SimpleNamespace(best=SimpleNamespace(height=1), gadget_round=(0, 0))
    clock: Any = SimpleNamespace(now_ms=lambda: now_of(FIRST_SLOT))
    figures = Figures(maker.chain, machine, metrics, clock)
    block = maker.make()
    state: Any = {
        InferenceMarket.open_unit_count.key(): codec(U32).encode(UNITS),
        TrainingMarket.open_task_count.key(): codec(U32).encode(TASKS),
    }

    def counted(name: str) -> float | None:
        return metrics.registry.get_sample_value(name, {"chain": "test"})

    figures.on_final([block])
    assert (counted("ogpu_open_units"), counted("ogpu_open_tasks")) == (0, 0)
    figures.on_final([block, replace(block, state=state)])
    assert (counted("ogpu_open_units"), counted("ogpu_open_tasks")) == (UNITS, TASKS)


def test_offenders_have_the_addresses_that_the_wallet_shows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    maker = Maker(tmp_path / "maker")
    machine: Any = SimpleNamespace(gadget_round=(0, 0))
    metrics = Metrics("test", "node", "0", is_validator=True)
    figures = Figures(maker.chain, machine, metrics, SimpleNamespace(now_ms=lambda: 0))  # type: ignore[arg-type]
    epoch = maker.chain.epochs(0)
    assert epoch is not None
    member = epoch.validators.members[0]
    figures.on_offence(member.session, 9, b"", b"")
    figures.on_evidence(member.session, b"")
    figures.on_evidence(b"s" * 32, b"")
    shown = [record.args[0] for record in caplog.records if isinstance(record.args, tuple)]
    assert shown[:2] == [ss58.encode(member.stash)] * 2
    assert (b"s" * 32).hex() in str(shown[2]), "of a set that is not known here"
