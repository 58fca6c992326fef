"""The demo's search: a customer buys the vectors of sentences, and finds the one nearest to the last.

Invariant: vectors come from the chain's providers, and the ranking is the customer's own, by `examples/nearest.py`.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from devnet.demo.payments import ANSWERED
from devnet.demo.real_model import ENCODER, DemoOffers
from devnet.launcher import programs
from devnet.launcher.folder import DevnetError
from devnet.stage.actors import purchase
from devnet.stage.actors.purchase import AnsweredUnit
from devnet.stage.actors.task_sale import EXAMPLES
from devnet.stage.network import Stage

SENTENCES, RANKING = EXAMPLES / "sentences.txt", EXAMPLES / "nearest.py"
"""Twenty sentences and the sought one, a line each; and the customer's program."""
EXPECTED = "Interest rates rose for the third time this year."
SENTENCE_TOKENS = 64
RANKING_SECONDS = 30.0


def find_nearest(stage: Stage, sale: DemoOffers, missing_reason: str) -> dict[str, Any]:
    """Buy the vectors in one batch, rank the sentences, show the nearest ones, and return the report.

    It has the batch, which is not paid yet.
    """
    if missing_reason:
        return {"left_out": missing_reason, "failures": []}
    report = {"model": ENCODER.name}
    try:
        bought, ranked = _ranked(stage, sale.service(ENCODER))
    except DevnetError as error:
        return {**report, "failures": [f"no vectors of the sentences: {error}"]}
    for line in ranked:
        stage.narrator.line(line)
    # The first line repeats the sought sentence.
    nearest = ranked[1].partition("  ")[2] if len(ranked) > 1 else ""
    failures = [] if nearest == EXPECTED else [f"the nearest sentence is {nearest!r}, not {EXPECTED!r}"]
    return {**report, "nearest": nearest, ANSWERED: bought, "failures": failures}


def _ranked(stage: Stage, service: int) -> tuple[AnsweredUnit, list[str]]:
    """Return the batch, and the lines of the customer's program."""
    vectors = stage.devnet.purchases / "vectors.jsonl"
    # One racer, as for the question: each racer loads the model.
    bought = purchase.buy_answers(stage, SENTENCES, vectors, racers=1, service=service, max_tokens=SENTENCE_TOKENS)
    words = (str(RANKING), str(SENTENCES), str(vectors))
    stage.narrator.command(f"$ {programs.as_typed('python', *words)}")
    ran = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, timeout=RANKING_SECONDS)
    if ran.returncode:
        raise DevnetError(f"{RANKING.name} ended with {ran.returncode}: {ran.stderr.strip()[-200:]}")
    return bought, ran.stdout.splitlines()
