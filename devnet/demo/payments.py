"""The demo's payments: the providers of all answers are paid once their claims are over, so the demo waits once.

Invariant: a report without an answered unit stays as it is.
"""

from __future__ import annotations

import json
from typing import Any

from devnet.demo import summary
from devnet.launcher.folder import DevnetError
from devnet.stage.actors import purchase
from devnet.stage.actors.purchase import AnsweredUnit
from devnet.stage.network import CUSTOMER_KEY, Stage

ANSWERED = "answered"
"""The key of a report's unit until its provider is paid."""


def settle(stage: Stage, reports: dict[str, dict[str, Any]]) -> None:
    """Wait until the providers of all answered units are paid. Add the payments and their failures to the reports."""
    answered = {name: report.pop(ANSWERED) for name, report in reports.items() if ANSWERED in report}
    if not answered:
        return
    try:
        stage.ogpu("unit watch", *(bought.unit for bought in answered.values()), "--key", CUSTOMER_KEY)
        for name, bought in answered.items():
            view = _traced(stage, bought)
            reports[name] |= view | {"failures": reports[name]["failures"] + summary.unit_failures(view)}
            stage.narrator.line(
                f"{name}: {view.get('payee', 'nobody')} was paid {view.get('cost', 'nothing')}, "
                f"{view['blocks']} blocks after the post"
            )
    except DevnetError as error:
        for name in answered:
            reports[name]["failures"].append(f"the payment of the {name} cannot be followed: {error}")


def _traced(stage: Stage, bought: AnsweredUnit) -> purchase.UnitView:
    unit = json.loads(stage.ogpu("unit show", bought.unit, is_shown=False))
    row = {**unit, "prompt": bought.prompts[0], "completion": bought.texts[0]}
    blocks = unit["ended_in_block"] - unit["posted_in_block"]
    return purchase.trace_unit(stage, row, bought.first_height) | {"blocks": blocks}
