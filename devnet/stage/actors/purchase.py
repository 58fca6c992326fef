"""A customer of units: posts prompts with `ogpu`, follows the units, and finds the trace of each on the chain.

Invariant: completions come from `ogpu`, which decrypts and verifies them. Amounts come from the chain's events.
"""

from __future__ import annotations

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
from gpu_tasks.market.courts.cases import PartyFault
from gpu_tasks.market.inference.events import ProviderSlashed, UnitDisputed
from gpu_tasks.market.inference.units import unit_id_of
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.ss58 import encode as ss58
from wallet.amounts import format_amount
from wallet.client import ChainClient

DEFAULT_PROMPTS = Path(devnet.__file__).parent / "prompts.txt"
MAX_TOKENS = 48
RACERS = 2
SERVICE = 0
PRICE_MAX = 5_000_000
SHOWN = 48
PROMPTS_BYTES_MAX = 4 * 1024 * 1024

UnitView = dict[str, Any]


@dataclass(slots=True)
class Purchase:
    """A purchase of units, and a ledger of the chain's events since the block that was final at its start."""

    book: DevnetLedger
    wealth_before: int
    """The customer's grains before the purchase."""
    units: list[UnitView]


def read_prompts(path: Path, count: int) -> list[str]:
    """Return the first `count` non-empty lines, repeated if the file has fewer.

    Raise DevnetError if the file is unreadable, too large or empty.
    """
    try:
        if path.stat().st_size > PROMPTS_BYTES_MAX:
            raise DevnetError(f"{path} has more than {PROMPTS_BYTES_MAX:,} bytes: give one prompt a line")
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DevnetError(
            f"the prompts cannot be read ({error}): PROMPTS names a text file with one prompt a line"
        ) from error
    if not lines:
        raise DevnetError(f"{path} holds no prompt: write one a line")
    return list(islice(cycle(lines), count))


def write_prompts(stage: Stage, name: str, prompts: Sequence[str]) -> Path:
    """Write a file of prompts, one a line, into the devnet's folder."""
    path = stage.net.folder / f"{name}.txt"
    path.write_text("".join(f"{line}\n" for line in prompts), encoding="utf-8")
    return path


def post_words(file: Path, racers: int = RACERS, price: str = format_amount(PRICE_MAX), **options: object) -> list[str]:
    """Return the words of `ogpu unit post` behind the command."""
    words = [str(file), "--key", CUSTOMER_KEY, "--racers", str(racers), "--price", price, "--yes"]
    return words + [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def buy(stage: Stage, prompts: list[str], on_ended: Callable[[int, UnitView], None] = lambda *_: None) -> Purchase:
    """Post the prompts and follow the units until each has ended. Keep the last row that `ogpu` printed for each."""
    purchase = stage.ask(_begun)
    words = post_words(write_prompts(stage, "prompts", prompts), max_tokens=MAX_TOKENS, service=SERVICE)
    newest: dict[str, UnitView] = {}
    ended = 0
    for row in stage.ogpu_lines("unit post", *words, "--watch"):
        before = newest.get(row["unit"], {}).get("state")
        newest[row["unit"]] = row
        if row["ended_in_block"] is not None:
            ended += 1
            stage.tell.line(f"{ended:>3}/{len(prompts)}  {_ending(row)}")
            stage.ask(lambda chain: ledger.read_on(chain, purchase.book))
            on_ended(ended, row)
        elif row["state"] != before and row["state"] == "judging":
            stage.tell.line(f"         {row['unit'][:10]}  its racers do not agree: judges look at it")
    purchase.units = list(newest.values())
    return purchase


async def _begun(chain: ChainClient) -> Purchase:
    height = await ledger.final_height(chain)
    return Purchase(DevnetLedger(height + 1), await ledger.wealth(chain, dev_accounts.stash(CUSTOMER), height), [])


def _ending(row: UnitView) -> str:
    what = f"{row['unit'][:10]}  block {row['ended_in_block']}  {row['state']}"
    if row["payee"] is None:
        return what
    words = f"{_shown(row['prompt'])} → {_shown(row['completion'])}"
    return f"{what}, {name_of(row['payee'])} paid, {row['cost_ogpu']} oGPU:  {words}"


def trace(stage: Stage, purchase: Purchase) -> tuple[list[UnitView], DevnetLedger, list[str]]:
    """Return each unit with its trace on the chain, the ledger, and a sentence for each sum that does not add up."""

    async def traced(chain: ChainClient) -> tuple[list[UnitView], DevnetLedger, list[str]]:
        units, book = purchase.units, purchase.book
        await ledger.read_on(chain, book, max(row["ended_in_block"] for row in units))
        order = await _posting_order(chain, len(units))
        found = [_with_trace(row, book) for row in sorted(units, key=lambda row: order.index(row["unit"]))]
        return found, book, await _wrong_sums(chain, purchase, found)

    return stage.ask(traced)


async def _posting_order(chain: ChainClient, count: int) -> list[str]:
    customer = dev_accounts.stash(CUSTOMER)
    return ["0x" + unit_id_of(chain.genesis_hash, customer, number).hex() for number in range(count)]


def _with_trace(row: UnitView, book: DevnetLedger) -> UnitView:
    record = book.unit(bytes.fromhex(row["unit"][2:]))
    made: UnitView = {
        "unit": row["unit"],
        "prompt": row["prompt"],
        "prompt_hash": _hash(row["prompt"]),
        "completion": row.get("completion"),
        "completion_hash": _hash(row.get("completion")),
        "state": row["state"],
        "is_disputed": bool(record.all(UnitDisputed)),
        "times_paid": len(record.settled),
        "slashed": [name_of(slash.provider) for slash in record.events(ProviderSlashed)],
    }
    for height, settled in record.settled:
        winners = ((at, event) for at, event in record.all(Attested) if event.provider == settled.winner)
        attested = next(winners, None)
        made |= {
            "block": height,
            "attestation": "0x" + attested[1].attestation_hash.hex() if attested else None,
            "attestation_block": attested[0] if attested else None,
            "output_root": "0x" + settled.output_root.hex(),
            "payee": name_of(settled.winner),
            "payee_address": ss58(settled.winner),
            "price_grains": str(settled.price),
            "witness": name_of(settled.witness) if settled.witness else None,
            "witness_grains": str(settled.paid - settled.price),
            "cost_grains": str(settled.paid),
            "cost": f"{format_amount(settled.paid)} oGPU",
        }
    return made


async def _wrong_sums(chain: ChainClient, purchase: Purchase, units: list[UnitView]) -> list[str]:
    """Return a problem unless the customer's loss equals its units, prepaid duty calls and fees, less compensation.

    Compensation is the price of each unit that a liar was slashed for.
    """
    customer, book = dev_accounts.stash(CUSTOMER), purchase.book
    before, after = purchase.wealth_before, await ledger.wealth(chain, customer, book.next_height - 1)
    costs = sum(int(unit.get("cost_grains", 0)) for unit in units)
    quote = await market_reads.quote(chain, SERVICE, PRICE_MAX, RACERS)
    prepaid = len(units) * (quote.prepaid if quote else 0)
    lies = {slash.unit for _, slash in book.all(ProviderSlashed) if slash.fault is PartyFault.LIED}
    compensation = sum(book.unit(unit).price for unit in lies)
    expected = costs + prepaid + book.fees.get(customer, 0) - compensation
    if before - after != expected:
        return [
            f"the customer lost {before - after} grains, but units, duty calls, fees and slashes come to {expected}"
        ]
    return []


def name_of(account: bytes | str) -> str:
    """Return the name of the development account with this id or address. Any other account gives its address."""
    address = account if isinstance(account, str) else ss58(account)
    return next((name for name in all_names() if ss58(dev_accounts.stash(name)) == address), address)


def _hash(text: str | None) -> str | None:
    return None if text is None else "0x" + blake2_256(text.encode()).hex()


def _shown(text: str | None) -> str:
    """Return the text as one line without control characters, which a terminal could execute."""
    visible = (text or "").replace("\n", "⏎")
    line = "".join(letter if letter.isprintable() else " " for letter in visible)
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"
