"""`ogpu budget`: money that other keys may spend within caps; and `ogpu spend`."""

from __future__ import annotations

import click

from cli.deferred import runs
from cli.options import AMOUNT, OneOf, key_option, sending_options
from cli.program import CommandGroup
from gpu_tasks.client.groups import limits
from gpu_tasks.client.groups.declared import BLOCKS_OR_TIME, account_option


@click.group(cls=CommandGroup)
def budget() -> None:
    """Money that other keys may spend, within caps."""


budget_argument = click.argument("budget", metavar="BUDGET")
delegate_argument = click.argument("delegate", metavar="KEY")


@budget.command()
@click.option("--deposit", type=AMOUNT, required=True, help="Money to put into the budget.")
@key_option
@sending_options
@runs("gpu_tasks.client.commands.budgets:create")
def create() -> None:
    """Create a budget and put money into it.

    The budget has an account of its own, without a key. Add money later with `ogpu-wallet send` to that account.
    """


@budget.command()
@budget_argument
@delegate_argument
@click.option("--per-unit", "unit", type=AMOUNT, required=True, help="Most for a unit's price or a session's deposit.")
@click.option("--per-day", "day", type=AMOUNT, required=True, help="Most that it may spend in 21,600 blocks.")
@click.option("--total", type=AMOUNT, required=True, help="Most that it may spend in all.")
@click.option(
    "--service",
    "services",
    type=click.IntRange(0, limits.SERVICE_MAX),
    multiple=True,
    help="Service that it may use; repeatable.  [default: all]",
)
@click.option("--for", "term", type=BLOCKS_OR_TIME, help="Time until the grant ends, such as 30d.")
@click.option("--until-block", type=click.IntRange(1, limits.BLOCK_MAX), metavar="N", help="Block that ends the grant.")
@click.option("--fees", type=AMOUNT, help="Money for KEY's transaction fees.  [default: 0.1 if its account is empty]")
@key_option
@sending_options
@runs("gpu_tasks.client.commands.budgets:grant")
def grant() -> None:
    """Let KEY spend from BUDGET, or change its caps.

    KEY is a stored key or any address. It can post units, open sessions and sign their vouchers, and do nothing else
    with the budget. The spent amounts stay when you change caps. Give --for or --until-block.
    """


@budget.command()
@account_option
@runs("gpu_tasks.client.commands.budgets:ps")
def ps() -> None:
    """List the budgets of a key, and those that it may spend.

    `free` is the money that is left, and `held` is locked for units and sessions. An owner sees all delegates.
    """


@budget.command()
@budget_argument
@delegate_argument
@key_option
@sending_options
@runs("gpu_tasks.client.commands.budgets:revoke")
def revoke() -> None:
    """Take the right to spend away from KEY at once.

    Its open sessions close. Their providers may claim for 30 blocks more, about 2 minutes. Posted units go on.
    """


@budget.command()
@budget_argument
@click.argument("amount", type=AMOUNT)
@key_option
@sending_options
@runs("gpu_tasks.client.commands.budgets:withdraw")
def withdraw() -> None:
    """Take free money out of a budget."""


@budget.command()
@budget_argument
@key_option
@sending_options
@runs("gpu_tasks.client.commands.budgets:close")
def close() -> None:
    """Close a budget and take its money back.

    Revoke its delegates first, and wait for the end of its units and sessions.
    """


@click.command()
@click.option(
    "--by", type=OneOf(limits.SPEND_GROUPS), default=limits.SPEND_GROUPS[0], show_default=True, help="One row for each."
)
@runs("gpu_tasks.client.commands.spend:spend")
def spend() -> None:
    """Show what units and sessions of this machine cost.

    It covers the units posted and the sessions opened by `ogpu` on this machine. Days are in UTC.
    """
