"""A customer of units: posts prompts with `ogpu`, follows the units, and finds the trace of each on the chain.

Invariant: completions come from `ogpu`, which decrypts and verifies them. Amounts come from the chain's events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import devnet
from devnet.launcher.folder import DevnetError
from devnet.stage.measuring import ledger
from devnet.stage.measuring.ledger import DevnetLedger
from devnet.stage.network import CUSTOMER, CUSTOMER_KEY, Stage
from genesis import dev_accounts
from genesis.presets import all_names
from gpu_tasks.data import market_reads
from gpu_tasks.market.attestations.attestations import Attested
from gpu_tasks.market.inference.events import ProviderSlashed, UnitDisputed
from gpu_tasks.market.inference.units import unit_id_of
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.ss58 import encode as ss58
from wallet.amounts import format_amount
from wallet.client import ChainClient

DEFAULT_PROMPTS = Path(devnet.__file__).parent / "prompts.txt"
MAX_TOKENS = 48
RECORDS = "postings"
"""The folder of the records of purchases, in the devnet's folder of purchases."""
RACER_COUNT = 2
SERVICE_NUMBER = 0
PRICE_MAX = 5_000_000
SHOWN_CHARACTERS = 48
PROMPTS_BYTES_MAX = 4 * 1024 * 1024

UnitView = dict[str, Any]


@dataclass(slots=True)
class Purchase:
    """A purchase of units, and a ledger of the chain's events since the block that was final at its start."""

    book: DevnetLedger
    wealth_before: int
    """The customer's grains before the purchase."""
    units: list[UnitView]


def read_prompts(prompts_file: Path, prompt_count: int) -> list[str]:
    """Return the first `prompt_count` non-empty lines, repeated if the file has fewer.

    Raise DevnetError if the file is unreadable, too large or empty.
    """
    try:
        # Before the read: a wrong path can name a model of gigabytes.
        if prompts_file.stat().st_size > PROMPTS_BYTES_MAX:
            raise DevnetError(f"{prompts_file} has more than {PROMPTS_BYTES_MAX:,} bytes: give one prompt a line")
        prompts = [prompt for prompt in prompts_file.read_text(encoding="utf-8").splitlines() if prompt.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DevnetError(
            f"the prompts cannot be read ({error}): PROMPTS names a text file with one prompt a line"
        ) from error
    if not prompts:
        raise DevnetError(f"{prompts_file} holds no prompt: write one a line")
    return list(islice(cycle(prompts), prompt_count))


def write_prompts(stage: Stage, name: str, prompts: Sequence[str]) -> Path:
    """Write a file of prompts, one a line, into the devnet's folder of purchases."""
    prompts_file = stage.devnet.purchases / f"{name}.txt"
    prompts_file.parent.mkdir(exist_ok=True)
    prompts_file.write_text("".join(f"{prompt}\n" for prompt in prompts), encoding="utf-8")
    return prompts_file


def post_arguments(
    prompts_file: Path, racers: int = RACER_COUNT, price: str = format_amount(PRICE_MAX), **options: object
) -> list[str]:
    """Return the words of `ogpu unit post` behind the command. Its records lie beside the prompts."""
    # In the user's home they would outlive the devnet, and the next one is the same chain to them.
    options.setdefault("postings", prompts_file.parent / RECORDS)
    arguments = [str(prompts_file), "--key", CUSTOMER_KEY, "--racers", str(racers), "--price", price, "--yes"]
    return arguments + [
        argument
        for option, option_value in options.items()
        for argument in (f"--{option.replace('_', '-')}", str(option_value))
    ]


def buy_units(
    stage: Stage, prompts: list[str], on_ended: Callable[[int, UnitView], None] = lambda *_: None
) -> Purchase:
    """Post the prompts and follow the units until each has ended. Keep the last row that `ogpu` printed for each."""
    purchase = stage.ask(_begin_purchase)
    arguments = post_arguments(write_prompts(stage, "prompts", prompts), max_tokens=MAX_TOKENS, service=SERVICE_NUMBER)
    newest: dict[str, UnitView] = {}
    ended_count = 0
    # A demo that was cut off leaves a record of its posts, and each devnet is a new chain.
    for row in stage.ogpu_lines("unit post", *arguments, "--watch", "--again"):
        previous_state = newest.get(row["unit"], {}).get("state")
        newest[row["unit"]] = row
        if row["ended_in_block"] is not None:
            ended_count += 1
            stage.narrator.line(f"{ended_count:>3}/{len(prompts)}  {_ending_line(row)}")
            # A node keeps the events of some hundred blocks, so the ledger follows while the units run.
            stage.ask(lambda chain: ledger.read_on(chain, purchase.book))
            on_ended(ended_count, row)
        elif row["state"] != previous_state and row["state"] == "disputed":
            stage.narrator.line(f"         {row['unit'][:10]}  its racers do not agree: validators vote")
    purchase.units = list(newest.values())
    return purchase


async def _begin_purchase(chain: ChainClient) -> Purchase:
    final_height = await ledger.final_height(chain)
    # The ledger begins after the block of the balance, so that no event counts twice.
    return Purchase(
        DevnetLedger(final_height + 1), await ledger.wealth(chain, dev_accounts.stash(CUSTOMER), final_height), []
    )


def _ending_line(row: UnitView) -> str:
    ending_text = f"{row['unit'][:10]}  block {row['ended_in_block']}  {row['state']}"
    if row["payee"] is None:
        return ending_text
    arguments = f"{one_line(row['prompt'])} → {one_line(row['completion'])}"
    return f"{ending_text}, {name_of_account(row['payee'])} paid, {row['cost_ogpu']} oGPU:  {arguments}"


def trace_purchase(stage: Stage, purchase: Purchase) -> tuple[list[UnitView], DevnetLedger, list[str]]:
    """Return each unit with its trace on the chain, the ledger, and a sentence for each sum that does not add up."""

    async def traced(chain: ChainClient) -> tuple[list[UnitView], DevnetLedger, list[str]]:
        units, unit_ledger = purchase.units, purchase.book
        await ledger.read_on(chain, unit_ledger, max(row["ended_in_block"] for row in units))
        # Rows come in the order of their ends. The id of a unit hashes its number among the customer's posts.
        posting_order = await _posting_order(chain, len(units))
        traced_units = [
            _with_trace(row, unit_ledger) for row in sorted(units, key=lambda row: posting_order.index(row["unit"]))
        ]
        return traced_units, unit_ledger, await _wrong_sums(chain, purchase, traced_units)

    return stage.ask(traced)


@dataclass(frozen=True, slots=True)
class AnsweredUnit:
    """A unit whose answers are here. Its provider is paid once its claim is over."""

    unit: str
    first_height: int
    """The next block before the unit was posted."""
    prompts: list[str]
    texts: list[str]
    """The answers, in the order of the prompts. A text of "" is no answer."""


def buy_answers(stage: Stage, prompts_file: Path, out: Path, *words: str, **options: Any) -> AnsweredUnit:
    """Post a file of prompts, a line each, as one unit, and wait for its answers, which `ogpu` writes to `out`.

    Raise DevnetError if the command fails. `words` and `options` are more of its options.
    """
    first_height = stage.next_height()
    # The prompts may be an example outside the devnet's folder.
    records = stage.devnet.purchases / RECORDS
    stage.ogpu("unit post", *post_arguments(prompts_file, out=out, postings=records, **options), *words)
    rows = sorted(map(json.loads, out.read_text(encoding="utf-8").splitlines()), key=lambda row: row["index"])
    unit = json.loads(stage.ogpu("unit show", "last", is_shown=False))["unit"]
    prompts = prompts_file.read_text(encoding="utf-8").splitlines()
    return AnsweredUnit(unit, first_height, prompts, [row.get("text") or "" for row in rows])


def trace_unit(stage: Stage, row: UnitView, first_height: int) -> UnitView:
    """Return an ended unit with its trace in the final blocks from `first_height` on."""
    return _with_trace(row, stage.ask(lambda chain: ledger.read_ledger(chain, first_height, row["ended_in_block"])))


async def _posting_order(chain: ChainClient, unit_count: int) -> list[str]:
    customer = dev_accounts.stash(CUSTOMER)
    return ["0x" + unit_id_of(chain.genesis_hash, customer, post_number).hex() for post_number in range(unit_count)]


def _with_trace(row: UnitView, ledger: DevnetLedger) -> UnitView:
    record = ledger.unit(bytes.fromhex(row["unit"][2:]))
    traced_unit: UnitView = {
        "unit": row["unit"],
        "prompt": row["prompt"],
        "prompt_hash": _optional_hash(row["prompt"]),
        "completion": row.get("completion"),
        "completion_hash": _optional_hash(row.get("completion")),
        "state": row["state"],
        "is_disputed": bool(record.all(UnitDisputed)),
        "times_paid": len(record.settled),
        "slashed": [name_of_account(event.provider) for event in record.events(ProviderSlashed)],
    }
    for height, settled in record.settled:
        winner_attestations = (
            (attested_height, attestation)
            for attested_height, attestation in record.all(Attested)
            if attestation.provider == settled.winner
        )
        first_attestation = next(winner_attestations, None)
        traced_unit |= {
            "block": height,
            "attestation": "0x" + first_attestation[1].attestation_hash.hex() if first_attestation else None,
            "attestation_block": first_attestation[0] if first_attestation else None,
            "output_root": "0x" + settled.output_root.hex(),
            "payee": name_of_account(settled.winner),
            "payee_address": ss58(settled.winner),
            # Grains as texts: JSON readers that use doubles keep no integer above 2^53 exactly.
            "price_grains": str(settled.price),
            "witness": name_of_account(settled.witness) if settled.witness else None,
        }
    costs = [*(event.paid for _, event in record.settled), *(event.lost for _, event in record.refunded)]
    if costs:
        traced_unit |= {"cost_grains": str(sum(costs)), "cost": f"{format_amount(sum(costs))} oGPU"}
    return traced_unit


async def _wrong_sums(chain: ChainClient, purchase: Purchase, units: list[UnitView]) -> list[str]:
    """Return a problem unless the customer's loss equals its units, prepaid duty calls and fees."""
    customer, unit_ledger = dev_accounts.stash(CUSTOMER), purchase.book
    wealth_before, wealth_after = (
        purchase.wealth_before,
        await ledger.wealth(chain, customer, unit_ledger.next_height - 1),
    )
    unit_costs = sum(int(unit.get("cost_grains", 0)) for unit in units)
    quote = await market_reads.quote(chain, SERVICE_NUMBER, PRICE_MAX, RACER_COUNT)
    prepaid = len(units) * (quote.prepaid if quote else 0)
    expected = unit_costs + prepaid + unit_ledger.fees.get(customer, 0)
    if wealth_before - wealth_after != expected:
        return [
            (
                f"the customer lost {wealth_before - wealth_after} grains, but units, duty calls and fees come to "
                f"{expected}"
            )
        ]
    return []


def name_of_account(account: bytes | str) -> str:
    """Return the name of the development account with this id or address. Any other account gives its address."""
    address = account if isinstance(account, str) else ss58(account)
    return next((name for name in all_names() if ss58(dev_accounts.stash(name)) == address), address)


def _optional_hash(text: str | None) -> str | None:
    return None if text is None else "0x" + blake2_256(text.encode()).hex()


def one_line(text: str | None) -> str:
    """Return the text as one line without control characters, which a terminal could execute."""
    visible = (text or "").replace("\n", "⏎")
    line = "".join(character if character.isprintable() else " " for character in visible)
    return line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 1] + "…"
