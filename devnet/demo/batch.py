"""The same customer once more: many requests in one unit, decoded side by side and paid by their tokens.

What always holds: every answer is shown by `ogpu`, which opens and checks it against the root that was paid for; the
tokens are those that the winner's attestation states and its root commits to.
"""

from __future__ import annotations

import json
from typing import Any

from devnet.stage.actors.purchase import MAX_TOKENS, SERVICE, name_of, post_words, write_prompts
from devnet.stage.network import CUSTOMER_KEY, Stage
from gpu_tasks.client.units.results import winner_of
from gpu_tasks.data import market_reads
from wallet.client import ChainClient

REQUESTS = 24


def buy_batch(stage: Stage, prompts: list[str]) -> dict[str, Any]:
    """Post the prompts as one unit, follow it, and fetch what each gave; with what failed."""
    file, answers = write_prompts(stage, "batch", prompts), stage.net.folder / "batch.jsonl"
    words = post_words(file, batch=len(prompts), max_tokens=MAX_TOKENS, service=SERVICE)
    ended = list(stage.ogpu_lines("post", *words, "--watch"))[-1]
    if ended["state"] != "settled":
        return {"failures": [f"the batch ended {ended['state']}: {ended['why']}"]}
    stage.ogpu("result", ended["unit"], "--key", CUSTOMER_KEY, "--out", str(answers))
    found = [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()]
    told = stage.ask(lambda chain: _told(chain, ended["unit"]))
    stage.tell.line(
        f"{len(found)} requests, {told['tokens']} tokens, in {told['blocks']} blocks from post to payment: "
        f"{ended['cost_ogpu']} oGPU, {name_of(ended['payee'])} paid"
    )
    wrong = [] if [row["prompt"] for row in found] == prompts else ["the answers of the batch are to other prompts"]
    wrong += [] if all(row["output"] is not None for row in found) else ["a request of the batch has no answer"]
    return {"unit": ended["unit"], "requests": len(found), **told, "failures": wrong}


async def _told(chain: ChainClient, unit_id: str) -> dict[str, int]:
    """Return what the chain says of the unit: its tokens, and how many blocks it took."""
    status = await market_reads.unit(chain, bytes.fromhex(unit_id[2:]))
    assert status is not None, "its record is kept for hours"
    winner = winner_of(status.unit)
    assert winner is not None, "it is settled"
    assert winner.reveal is not None, "a winner has revealed"
    return {"tokens": winner.reveal.output_tokens, "blocks": status.unit.ended_at - status.unit.posted_at}
