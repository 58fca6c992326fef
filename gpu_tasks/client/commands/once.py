"""What the commands that post units share: all of it once, with bars for people, after the cost was shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress as ProgressBar

from cli import calls
from cli.output import Output
from cli.session import explained, note
from gpu_tasks.client.commands.units import counted
from gpu_tasks.client.funds import require, spendable
from gpu_tasks.client.offers.listing import require_judges, require_owners
from gpu_tasks.client.units.costs import Estimate, estimate_of
from gpu_tasks.client.units.posting import AskedUnit, PostingCost, Prompt, Sealer, Wish, cost_of, parts_of
from gpu_tasks.client.units.posting_once import Posted, PostingRun, Progress
from gpu_tasks.client.units.posting_record import DEFAULT_FOLDER, PostingRecord
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from wallet.amounts import Grains, format_amount
from wallet.client import ChainClient, Payer
from wallet.keypair import Keypair

postings_option = click.option(
    "--postings",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_FOLDER,
    show_default=True,
    envvar="OGPU_POSTINGS",
    help="The folder of purchase records, so that none is made twice.",
)


@dataclass(frozen=True, slots=True)
class Manner:
    """How a command posts: its tip in grains, and what it leaves out."""

    tip: int
    anyway: bool
    yes: bool
    dry_run: bool


async def post_once(
    output: Output, client: ChainClient, record: PostingRecord, key: Keypair, wish: Wish, tip: int,
    units: Sequence[AskedUnit], prompts: list[Prompt], *, is_over: Callable[[], bool] = lambda: False,
    places: Sequence[int] | None = None, sends: bool = True,
) -> list[Posted]:  # fmt: skip
    """Seal, store and post what the record does not hold, with bars for people; all of it, in final blocks.

    With `places` these; once `is_over`, or where nothing is sent, all that was posted until then.
    """
    missing = set(range(len(units)) if places is None else places) - record.recorded
    with ProgressBar(console=output.console, disable=output.as_json, transient=True) as bar:
        sealing = bar.add_task("sealing and storing inputs", total=len(missing))
        posting = bar.add_task(
            "posting, waiting for finality", total=len(record.parts) + len(parts_of(range(len(missing))))
        )
        progress = Progress(lambda: bar.advance(sealing), lambda: bar.advance(posting), note)
        async with BlobClient(private=market_reads.is_development(client)) as blobs:
            sealer = Sealer(client, blobs, key, wish.service, wish.racers, wish.classes)
            run = PostingRun(sealer, record, prompts, units, progress, tip)
            return await (run.run(is_over, places) if sends else run.settle_alone())


@dataclass(frozen=True, slots=True)
class PricedUnits:
    """What posting some units costs and comes to, and what the account can spend, in grains."""

    cost: PostingCost
    available: int
    estimate: Estimate | None


async def require_takers(
    client: ChainClient, account: bytes, wish: Wish, missing: Sequence[AskedUnit], manner: Manner
) -> None:
    """ServiceError where nobody could judge these units, or too few could race for them; `anyway` leaves that out."""
    await require_judges(client, wish.service, account, max(unit.price_max for unit in missing))
    if not manner.anyway:
        await require_owners(
            client, wish.service, account, racers=wish.racers, rate_max=wish.rate_max, kind=wish.named_class
        )


async def priced(
    client: ChainClient, payer: Payer, wish: Wish, missing: Sequence[AskedUnit], cost_unit: str, manner: Manner
) -> PricedUnits:
    """Return what these units cost; FundsError where the account has less and they are to be sent.

    Units that an earlier try sent are not among them: what they lock is locked already, or the chain will judge it.
    """
    cost = await cost_of(client, payer, wish.service, wish.racers, missing, manner.tip)
    available = await spendable(client, payer.account)
    if not manner.dry_run:
        require(available, cost.needed, f"posting {counted(cost.units)}")
    return PricedUnits(cost, available, await estimate_of(client, payer.account, wish, missing, cost, cost_unit))


def show_and_ask(output: Output, units: PricedUnits, manner: Manner, estimate: Mapping[str, Any] | None = None) -> None:
    """Show the cost, and ask somebody at a terminal to agree; without one a program that posts needs `--yes`.

    `estimate` has the cost too, and what else is known of it.
    """
    cost, available = units.cost, units.available
    amounts = {name: Grains(value) for name, value in asdict(cost).items() if name != "units"}
    facts = {**({"units": cost.units, **amounts} if estimate is None else estimate), "spendable": Grains(available)}
    if manner.dry_run:
        output.facts({**facts, "sent": False})
        explained(lambda: require(available, cost.needed, f"posting {counted(cost.units)}"))
    elif cost.units and not manner.yes:
        explained(lambda: calls.require_somebody_to_ask(is_asked=True))
        if not output.as_json:
            output.facts(facts)
        click.confirm(f"Post {counted(cost.units)} for at most {format_amount(cost.most)} oGPU?", abort=True, err=True)
