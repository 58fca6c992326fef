"""The demo's question: a customer asks a language model in plain words, and a provider answers.

Invariant: without the language model, the built-in model answers.
"""

from __future__ import annotations

from typing import Any

from devnet.demo.payments import ANSWERED
from devnet.demo.real_model import BUILT_IN, LANGUAGE_MODEL, DemoOffers
from devnet.launcher.folder import DevnetError
from devnet.stage.actors import purchase
from devnet.stage.actors.purchase import SERVICE_NUMBER, AnsweredUnit
from devnet.stage.network import Stage

QUESTION = "The capital of France is"
ANSWER_TOKENS, BUILT_IN_TOKENS = 2, 12
EXPECTED_WORD = "Paris"


def ask_question(stage: Stage, sale: DemoOffers, missing_reason: str) -> dict[str, Any]:
    """Ask, wait for the answer, show it, and return the report, with the unit that is not paid yet.

    With a `missing_reason`, the built-in model answers.
    """
    model = BUILT_IN if missing_reason else LANGUAGE_MODEL.name
    report = {"model": model} | ({"left_out": missing_reason} if missing_reason else {})
    try:
        bought = _bought(stage, SERVICE_NUMBER if missing_reason else sale.service(LANGUAGE_MODEL), missing_reason)
    except DevnetError as error:
        return {**report, "failures": [f"the question has no answer: {error}"]}
    (answer,) = bought.texts
    is_wrong = not missing_reason and EXPECTED_WORD not in answer
    stage.narrator.line(f"{model}: {QUESTION} → {purchase.one_line(answer).strip()}")
    failures = [f"{model} does not answer with {EXPECTED_WORD}: {answer!r}"] if is_wrong else []
    return {**report, "completion": answer, ANSWERED: bought, "failures": failures}


def _bought(stage: Stage, service: int, missing_reason: str) -> AnsweredUnit:
    return purchase.buy_answers(
        stage,
        purchase.write_prompts(stage, "question", [QUESTION]),
        stage.devnet.purchases / "answer.jsonl",
        *(() if missing_reason else ("--set", "chat=no")),
        # One racer: a second racer would double the time to load the model where providers share a machine.
        racers=purchase.RACER_COUNT if missing_reason else 1,
        service=service,
        max_tokens=BUILT_IN_TOKENS if missing_reason else ANSWER_TOKENS,
        set="temperature=0",
    )
