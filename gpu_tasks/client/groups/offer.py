"""`ogpu offer`: services, providers and prices."""

from __future__ import annotations

from importlib import import_module

import click
from click.shell_completion import CompletionItem

from cli.deferred import runs
from cli.options import AMOUNT, PERCENT, key_option, sending_options
from cli.program import CommandGroup
from gpu_tasks.client.groups import limits
from gpu_tasks.client.groups.declared import BLOCKS_OR_TIME, BlocksOrTime

ROWS_SHOWN = 50
ROWS_SHOWN_MAX = 10_000
TOKENS_MAX = 2**32 - 1


@click.group(cls=CommandGroup)
def offer() -> None:
    """Services, providers and prices."""


def _complete_condition(_context: click.Context, _parameter: click.Parameter, typed_begin: str) -> list[CompletionItem]:
    """Return the fields that a condition may begin with."""
    # Completion alone needs them, and every help would import them too.
    fields = import_module("gpu_tasks.tasks.offer_query").FIELDS
    return [
        CompletionItem(field_name, help=field.doc)
        for field_name, field in fields.items()
        if field_name.startswith(typed_begin)
    ]


@offer.command()
@click.argument("conditions", nargs=-1, metavar="[CONDITION]...", shell_complete=_complete_condition)
@click.option(
    "--limit", type=click.IntRange(1, ROWS_SHOWN_MAX), default=ROWS_SHOWN, show_default=True, help="Most rows to show."
)
@click.option("--inventory", is_flag=True, help="Ask providers for their hardware, without a condition on it.")
@runs("gpu_tasks.client.commands.services:search")
def search() -> None:
    """Find offers that meet all conditions, cheapest first.

    A condition is a field, one of = != < <= > >= and a value: 'class=datacenter,consumer price<0.5 state=free'. Quote
    conditions, because a shell reads < and >.

    The chain knows class, price, service, workload, state, bond, free_bond, provider, device, since and reliability.
    Providers claim vram, vendor, model, driver, cuda, rocm, cpu, cores, memory, disk, down and up: 'vram>=24Gi
    model=4090 driver>=535'.
    """


@offer.command()
@runs("gpu_tasks.client.commands.services:services")
def services() -> None:
    """List the services for sale."""


@offer.command()
@runs("gpu_tasks.client.commands.services:providers")
def providers() -> None:
    """List devices and their asking prices."""


@offer.command()
@click.option("--service", type=int, help="Service number.  [default: all]")
@runs("gpu_tasks.client.commands.services:price")
def price() -> None:
    """Show lowest, median and last paid prices of units."""


@offer.command()
@key_option
@click.option("--workload", required=True, help="Workload of its units, by name.")
@click.option("--name", required=True, help=f"Name of the service, at most {limits.SERVICE_NAME_BYTES_MAX} bytes.")
@click.option("--price-min", type=AMOUNT, required=True, help="First price of a unit, per thousand tokens.")
@click.option("--price-max", type=AMOUNT, required=True, help="Highest price of a unit, per thousand tokens.")
@click.option(
    "--ramp",
    type=BlocksOrTime(may_be_zero=True),
    required=True,
    help="Time in which a waiting unit's price rises, or 0.",
)
@click.option(
    "--commit-window",
    type=BLOCKS_OR_TIME,
    required=True,
    help="Time in which racers must commit.",
)
@click.option(
    "--max-tokens",
    "tokens_max",
    type=click.IntRange(1, TOKENS_MAX),
    required=True,
    help="Most a request may cost, in the workload's unit.",
)
@click.option("--input-share", type=PERCENT, default=0, help="Weight of an input token, in % of an output token.")
@click.option(
    "--pace",
    type=click.IntRange(0, limits.PACE_MAX),
    default=0,
    help="Output tokens a block of the slowest racer, or 0.",
)
@click.option(
    "--consumer-pace",
    type=click.IntRange(0, limits.PACE_MAX),
    default=0,
    help="The same for class consumer.  [default: --pace]",
)
@click.option(
    "--datacenter-pace",
    type=click.IntRange(0, limits.PACE_MAX),
    default=0,
    help="The same for class datacenter.  [default: --consumer-pace]",
)
@sending_options
@runs("gpu_tasks.client.commands.services:create_service")
def create_service() -> None:
    """Create a service for a workload.

    The chain locks a deposit until the service is closed. A pace gives large units more blocks to commit; 0 gives
    none.
    """


@offer.command()
@click.argument("number", type=int, metavar="SERVICE")
@key_option
@sending_options
@runs("gpu_tasks.client.commands.services:close_service")
def close_service() -> None:
    """Close a service and get its deposit back.

    Nobody can post more units of it. Open units continue.
    """
