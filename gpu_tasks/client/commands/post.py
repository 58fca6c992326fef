"""The command that posts units: what is asked, what it costs and who could take it is known before anything is sent."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

import click
from rich.progress import Progress as ProgressBar

from gpu_tasks.client.commands.sending import key_option
from gpu_tasks.client.commands.units import counted, show_until_ended
from gpu_tasks.client.funds import require, spendable
from gpu_tasks.client.offers import form_of, open_service, require_judges, require_owners
from gpu_tasks.client.posting import (
    PROMPT_FILE_BYTES_MAX,
    PostingCost,
    Prompt,
    Sealer,
    Wish,
    check_terms,
    cost_of,
    parts_of,
    read_prompts,
    requests_of,
)
from gpu_tasks.client.posting_once import Posted, PostingRun, Progress
from gpu_tasks.client.posting_record import DEFAULT_FOLDER, PostingRecord
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.inference.units import RACERS_MAX
from wallet.amounts import format_amount
from wallet.client import ChainClient, Payer
from wallet.commands import making
from wallet.commands.options import AMOUNT, dry_run_option, tip_option, yes_option
from wallet.keypair import Keypair
from wallet.output import Grains, Output, harmless
from wallet.session import WalletSession

PRICE = 5_000_000
postings_option = click.option(
    "--postings",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_FOLDER,
    show_default=True,
    envvar="OGPU_POSTINGS",
    help="Where postings are written down until they are final.",
)


class Setting(click.ParamType[tuple[str, str]]):
    """`NAME=VALUE`; which names there are, the service's workload says."""

    name = "NAME=VALUE"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Name and value."""
        if isinstance(value, tuple):
            return value
        name, equals, text = value.partition("=")
        if not equals or not name:
            self.fail(f"{value!r} is not NAME=VALUE", param, ctx)
        return name, text


@click.command()
@click.argument("file", type=click.File("rb"))
@key_option
@click.option("--service", default=0, show_default=True, help="Number of the service: see `ogpu services`.")
@click.option("--max-tokens", default=64, show_default=True, help="Most that a unit may cost, in the service's unit.")
@click.option(
    "--set", "options", multiple=True, type=Setting(), help="An option of the workload, several times for more of them."
)
@click.option(
    "--racers", default=2, show_default=True, type=click.IntRange(1, RACERS_MAX), help="Providers for each unit."
)
@click.option("--price", type=AMOUNT, default=PRICE, help="oGPU that the winner gets at most.  [default: 0.05]")
@click.option("--anyway", is_flag=True, help="Even if too few owners can race for it now.")
@click.option("--watch", "is_watched", is_flag=True, help="Follow the units until they end.")
@postings_option
@click.option("--again", is_flag=True, help="Forget what an earlier try that broke off may have posted.")
@tip_option
@yes_option
@dry_run_option
@click.pass_obj
def post(
    session: WalletSession, file: BinaryIO, key_text: str, service: int, max_tokens: int,
    options: tuple[tuple[str, str], ...], racers: int, price: int, anyway: bool, is_watched: bool, postings: Path,
    again: bool, tip: int, yes: bool, dry_run: bool,
) -> None:  # fmt: skip
    """Post a unit for each line of FILE (- is standard input).

    A post that broke off is taken up by the same command: what is on the chain already is not posted again.
    """
    wish = Wish(service, max_tokens, dict(options), racers, price)
    prompts: list[Prompt] = []
    requests: list[bytes] = []
    costs: list[tuple[PostingCost, int]] = []

    async def look(client: ChainClient) -> None:
        payer = session.payer(key_text)
        prompts.extend(read_prompts(file.read(PROMPT_FILE_BYTES_MAX + 1)))
        requests.extend(await _requests(client, wish, prompts))
        known = set() if again else PostingRecord.peek(postings, *_identity(client, payer, wish, prompts))
        missing = len(prompts) - len(known)
        if missing:
            await require_judges(client, service, payer.account, price)
        if missing and not anyway:
            await require_owners(client, service, payer.account, racers=racers, price_max=price)
        # What an earlier try sent is locked already, or the chain will judge it: it is asked for once.
        cost = await cost_of(client, payer, wish, missing, tip)
        available = await spendable(client, payer.account)
        if not dry_run:
            require(available, cost.needed, f"posting {counted(cost.units)}")
        costs.append((cost, available))

    async def send(client: ChainClient) -> None:
        key = session.key(key_text)
        identity = _identity(client, key, wish, prompts)
        with PostingRecord.open(postings, *identity) as record:
            if again:
                record.forget()
            posted = await post_once(session.output, client, record, key, wish, requests, prompts, tip)
            if not is_watched:
                rows = [{"unit": unit.unit, "block": unit.block, "prompt": unit.prompt} for unit in posted]
                session.output.rows(_title(len(posted), costs[0][0]), ("unit", "block", "prompt"), rows)
            record.forget()
        if is_watched:
            await show_until_ended(session.output, client, key, {unit.unit: unit.prompt for unit in posted})

    session.run(look)
    show_and_ask(session.output, *costs[0], is_asked=not (yes or dry_run), is_shown=dry_run)
    if not dry_run:
        # A second connection: the first would be closed as dead while a person takes time to answer.
        session.run(send)


def _title(posted: int, cost: PostingCost) -> str:
    now = "" if posted == cost.units else f", {cost.units} of them now"
    return f"{counted(posted)} posted{now}, for at most {format_amount(cost.most)} oGPU"


async def _requests(client: ChainClient, wish: Wish, prompts: list[Prompt]) -> list[bytes]:
    """The requests, once the service has been found to sell them."""
    service = await open_service(client, wish.service)
    form = form_of(wish.service, service)
    check_terms(service, form, wish)
    return requests_of(prompts, form, wish)


def _identity(client: ChainClient, payer: Payer, wish: Wish, prompts: list[Prompt]) -> tuple[bytes, ...]:
    """What makes two postings the same: chain, account, what is wished for, and every prompt."""
    return client.genesis_hash, payer.account, repr(wish).encode(), *(prompt.text.encode() for prompt in prompts)


async def post_once(
    output: Output, client: ChainClient, record: PostingRecord, key: Keypair, wish: Wish, requests: list[bytes],
    prompts: list[Prompt], tip: int,
) -> list[Posted]:  # fmt: skip
    """Seal, store and post what the record does not hold, with bars for people; all of it, in final blocks."""
    with ProgressBar(console=output.console, disable=output.as_json, transient=True) as bar:
        sealing = bar.add_task("sealing and storing inputs", total=len(requests) - len(record.recorded))
        posting = bar.add_task("posting, waiting for finality", total=len(parts_of(range(len(requests)))))
        progress = Progress(
            lambda: bar.advance(sealing),
            lambda: bar.advance(posting),
            lambda text: click.echo(harmless(text), err=True),
        )
        async with BlobClient(private=market_reads.is_development(client)) as blobs:
            sealer = Sealer(client, blobs, key, wish)
            return await PostingRun(sealer, record, prompts, requests, progress, tip).run()


def show_and_ask(output: Output, cost: PostingCost, available: int, *, is_asked: bool, is_shown: bool) -> None:
    """The cost, to look at or for somebody at a terminal to agree to; programs that post are asked nothing."""
    amounts = {name: Grains(value) for name, value in asdict(cost).items() if name != "units"}
    facts = {"units": cost.units, **amounts, "spendable": Grains(available)}
    if is_shown:
        output.facts({**facts, "sent": False})
    elif cost.units and is_asked and making.is_attended():
        if not output.as_json:
            output.facts(facts)
        click.confirm(f"Post {counted(cost.units)} for at most {format_amount(cost.most)} oGPU?", abort=True, err=True)
