"""The commands of the demo and of the proofs ask no questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devnet.demo import steps
from devnet.launcher import layout, programs
from devnet.proofs.liars import people
from devnet.proofs.liars.lie import Program
from devnet.proofs.market import __main__ as market
from devnet.stage.actors import purchase, task_sale
from devnet.stage.measuring.ledger import DevnetLedger
from devnet.stage.network import Stage
from devnet.stage.report import Narrator


class StoppedError(Exception):
    """Ends the run once the test has seen enough."""


def sold(stage: Stage) -> None:
    """Submit a task twice: each run of the demo buys its own."""
    task_sale.sell_task(stage, stage.devnet.folder / "task.yaml")


COMMANDS: dict[str, tuple[Callable[[Stage], Any], set[str]]] = {
    "prompts": (lambda stage: purchase.buy_units(stage, ["a"]), {"--yes", "--watch"}),
    "batch": (lambda stage: steps.buy_batch(stage, ["a", "b"]), {"--yes", "--out"}),
    "task": (sold, {"--yes", "--again", "--watch"}),
    "market": (lambda stage: market.post_and_follow(stage, 2, 3, 2, "0.5"), {"--yes", "--anyway", "--watch"}),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_nobody_has_to_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    said: list[str] = []

    def lines(program: str, *words: str, **_: Any) -> Iterator[dict[str, Any]]:
        said.extend((program, *words))
        raise StoppedError

    def ask(_: Stage, __: Any) -> purchase.Purchase:
        return purchase.Purchase(DevnetLedger(next_height=1), 0, [])

    monkeypatch.setattr(programs, "lines", lines)
    monkeypatch.setattr(programs, "run", lines)
    monkeypatch.setattr(Stage, "ask", ask)
    monkeypatch.setattr(Stage, "next_height", lambda _: 3)
    act, options = COMMANDS[name]
    with pytest.raises(StoppedError):
        act(Stage(layout.create(tmp_path, 2, any_ports=True), Narrator(1)))
    assert said[0] == "ogpu"
    assert options <= set(said)


def test_a_person_posts_unasked(tmp_path: Path) -> None:
    words = people.post_arguments(people.Person("ferdie", Program.CUSTOMER, tmp_path), ["a", "b"], "--watch")
    assert {"--yes", "--watch"} <= set(words)
