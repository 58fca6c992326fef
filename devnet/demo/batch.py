"""The same customer once more: many requests in one unit, decoded side by side and paid by their tokens.

What always holds: every answer is shown by `ogpu`, which opens and checks it against the root that was paid for; the
tokens are those that the winner's attestation states and its root commits to.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from devnet.demo.purchase import MAX_TOKENS, PRICE_MAX, RACERS, SERVICE, name_of
from devnet.demo.stage import CUSTOMER
from devnet.demo.telling import Narrator
from devnet.launcher import programs
from devnet.launcher.layout import Devnet
from gpu_tasks.client.results import winner_of
from gpu_tasks.data import market_reads
from wallet.amounts import format_amount
from wallet.client import ChainClient

REQUESTS = 24


def buy_batch(net: Devnet, prompts: list[str], tell: Narrator) -> dict[str, Any]:
    """Post the prompts as one unit, follow it, and fetch what each gave; with what failed."""
    file, answers = net.folder / "batch.txt", net.folder / "batch.jsonl"
    file.write_text("".join(f"{line}\n" for line in prompts), encoding="utf-8")
    words = ["--url", net.members[0].rpc_url, "post", str(file), "--key", f"//{CUSTOMER}", "--watch"]
    words += ["--batch", str(len(prompts)), "--max-tokens", str(MAX_TOKENS), "--racers", str(RACERS)]
    words += ["--service", str(SERVICE), "--price", format_amount(PRICE_MAX), "--yes"]
    rows = list(programs.lines("ogpu", *words, keyring=net.keyring, show=tell.command))
    ended = rows[-1]
    if ended["state"] != "settled":
        return {"failures": [f"the batch ended {ended['state']}: {ended['why']}"]}
    words = ["--url", net.members[0].rpc_url, "result", ended["unit"], "--key", f"//{CUSTOMER}", "--out", str(answers)]
    programs.run("ogpu", *words, keyring=net.keyring, show=tell.command)
    found = [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()]
    told = asyncio.run(_told(net, ended["unit"]))
    tell.line(
        f"{len(found)} requests, {told['tokens']} tokens, in {told['blocks']} blocks from post to payment: "
        f"{ended['cost_ogpu']} oGPU, {name_of(ended['payee'])} paid"
    )
    wrong = [] if [row["prompt"] for row in found] == prompts else ["the answers of the batch are to other prompts"]
    wrong += [] if all(row["output"] is not None for row in found) else ["a request of the batch has no answer"]
    return {"unit": ended["unit"], "requests": len(found), **told, "failures": wrong}


async def _told(net: Devnet, unit_id: str) -> dict[str, int]:
    """What the chain says of the unit: its tokens, and how many blocks it took."""
    async with await ChainClient.connect(net.members[0].rpc_url) as chain:
        status = await market_reads.unit(chain, bytes.fromhex(unit_id[2:]))
    assert status is not None, "its record is kept for hours"
    winner = winner_of(status.unit)
    assert winner is not None, "it is settled"
    assert winner.reveal is not None, "a winner has revealed"
    return {"tokens": winner.reveal.output_tokens, "blocks": status.unit.ended_at - status.unit.posted_at}
