"""`ogpu`: buy GPU work: post units, submit tasks to auction, follow them, read their results, compare offers.

Exit codes: 0 success, 1 a refusal by the chain or the node, or an end without a result, 2 a mistake in the input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from cli.deferred import add_deferred
from cli.options import HELP_NAMES, session_options
from cli.program import CommandGroup, ProgramGroup

UNIT_COMMANDS = {
    "post": ("unit:post", "Post each line of FILE as a request."),
    "list": ("unit:list_units", "List the units of a key, oldest first."),
    "show": ("unit:show", "Show a unit: its state, providers and payments."),
    "watch": ("unit:watch", "Follow units until they end."),
    "result": ("unit:result", "Print the answer of a unit."),
    "cancel": ("unit:cancel", "Cancel queued units, or the rest of a file."),
    "dispute": ("unit:dispute", "Dispute an answer of a unit."),
    "appeal": ("unit:appeal", "Appeal against a verdict on a unit."),
    "picture": ("unit:picture", "Render a picture in tiles on several providers."),
    "runs": ("unit:runs", "List the runs of `ogpu unit post --out`, or show one."),
}
TASK_COMMANDS = {
    "run": ("container:run", "Run a command in a container on a provider's device."),
    "submit": ("task:submit", "Submit a task file to auction."),
    "check": ("task:check", "Check a task file, without a node."),
    "plan": ("task:plan", "Show who could run a task, its cost and its start."),
    "convert": ("task:convert", "Convert a Slurm, Compose or Akash file to a task file."),
    "schema": ("task:schema", "Print the JSON Schema of task files."),
    "list": ("task:list_tasks", "List the open tasks of a key, with the reason of a wait."),
    "history": ("task:history", "List past tasks of a key: exit code, time and cost."),
    "show": ("task:show", "Show a task: its state, terms, providers and payments."),
    "watch": ("task:watch", "Follow a task until it ends."),
    "result": ("task:result", "Fetch and check the result of a task."),
    "verify": ("task:verify", "Verify a task again from the chain alone."),
    "bids": ("task:bids", "List the bids for a task, winners first."),
    "logs": ("task:logs", "Show the output and progress of a task."),
    "top": ("task:top", "Show progress and device use of running tasks."),
    "exec": ("container:execute", "Run a command, or a shell, in a task's container."),
    "cp": ("container:cp", "Copy files into or out of a task's container."),
    "port-forward": ("container:port_forward", "Forward local ports to a task's container."),
    "secrets": ("container:secrets", "Hand its secrets to a waiting task."),
    "confirm": ("task:confirm", "Check, keep and sign the newest checkpoint of a task."),
    "accept": ("task:accept", "Accept the result of a task."),
    "dispute": ("task:dispute", "Dispute the result of a task."),
    "amend": ("task:amend", "Raise a task's price, extend its time, or stop it."),
    "stop": ("task:stop", "Stop a running task."),
    "cancel": ("task:cancel", "Cancel tasks that do not run yet."),
    "close": ("task:close", "Offer another end of a task, or sign an offered one."),
}
OFFER_COMMANDS = {
    "search": ("offer:search", "Find offers that meet all conditions, cheapest first."),
    "services": ("offer:services", "List the services for sale."),
    "providers": ("offer:providers", "List devices and their asking prices."),
    "price": ("offer:price", "Show lowest, median and last paid prices of units."),
    "create-service": ("offer:create_service", "Create a service for a workload."),
    "close-service": ("offer:close_service", "Close a service and get its deposit back."),
}
OTHER_COMMANDS = {"events": ("top_level:events", "Show the market's events as they become final.")}
SHORT_FORMS = {
    "run": TASK_COMMANDS["run"],
    "ps": TASK_COMMANDS["list"],
    "logs": TASK_COMMANDS["logs"],
    "exec": TASK_COMMANDS["exec"],
    "cp": TASK_COMMANDS["cp"],
    "port-forward": TASK_COMMANDS["port-forward"],
    "top": TASK_COMMANDS["top"],
    "sbatch": ("top_level:sbatch", "Convert a Slurm script and submit it."),
    "squeue": TASK_COMMANDS["list"],
    "scancel": TASK_COMMANDS["cancel"],
}
"""Commands of other systems that work here under the same name."""

TASK_SECTIONS = {
    "Submit": ("run", "submit", "check", "plan", "convert", "schema"),
    "Follow": ("list", "history", "show", "watch", "result", "logs", "top", "bids", "verify"),
    "Enter the container": ("exec", "cp", "port-forward", "secrets"),
    "Decide": ("accept", "dispute", "amend", "stop", "cancel", "close", "confirm"),
}
BOTH = ("list", "show", "watch", "result", "cancel", "dispute")
"""Names in the groups of units and of tasks."""
FOREIGN_WORDS = {
    **{name: f"ogpu unit {name}" for name in UNIT_COMMANDS if name not in BOTH},
    **{name: f"ogpu task {name}" for name in TASK_COMMANDS if name not in (*BOTH, *SHORT_FORMS)},
    **{name: f"ogpu offer {name}" for name in OFFER_COMMANDS},
    **{name: f"ogpu unit {name} or ogpu task {name}" for name in BOTH},
    "units": "ogpu unit list",
    "batch": "ogpu unit runs",
    "tasks": "ogpu task list",
    "offers": "ogpu offer search",
    "describe": "ogpu unit show or ogpu task show",
    "hold": "ogpu task confirm",
    "from-sbatch": "ogpu task convert",
    "from-compose": "ogpu task convert",
    "from-sdl": "ogpu task convert",
    "srun": "ogpu run",
    "salloc": "ogpu run",
    "sacct": "ogpu task history",
    "sinfo": "ogpu offer providers",
    "up": "ogpu task convert",
    "deploy": "ogpu task convert",
    "shell": "ogpu exec",
    "ssh": "ogpu exec",
    "attach": "ogpu logs",
    "inspect": "ogpu task show",
    "get": "ogpu task list",
    "kill": "ogpu task stop",
    "rm": "ogpu task stop",
    "delete": "ogpu task stop",
    "stats": "ogpu top",
    "balance": "ogpu-wallet balance",
    "send": "ogpu-wallet send",
    "transfer": "ogpu-wallet send",
}
"""Other words for the commands here: of Slurm, Docker, kubectl, Akash and wallets, and without their group."""


@click.group(
    "ogpu",
    cls=ProgramGroup,
    context_settings=HELP_NAMES,
    program_commands=("run", "exec"),
    foreign_words=FOREIGN_WORDS,
    sections={"Short forms": list(SHORT_FORMS)},
)
@session_options
@click.version_option(package_name="ogpu")
def main() -> None:
    """Buy GPU work: units of inference, training tasks and containers.

    Where a command takes an id, type the whole id, its first digits such as 0x8a61, or `last` for your newest one.
    Amounts are in oGPU: 0.05 or "0.05 oGPU".

    Shell completion: eval "$(_OGPU_COMPLETE=bash_source ogpu)" (or zsh_source, fish_source).
    """


def _add_group(
    name: str,
    summary: str,
    commands: dict[str, tuple[str, str]],
    own_words: dict[str, str],
    sections: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Add a group of commands; `own_words` are other names of its commands."""
    words = {**FOREIGN_WORDS, **{word: f"ogpu {name} {command}" for word, command in own_words.items()}}
    others = {word: here for word, here in words.items() if word not in commands}
    group = CommandGroup(name, help=summary, foreign_words=others, sections=sections)
    add_deferred(group, GROUPS, commands)
    main.add_command(group)


GROUPS = "gpu_tasks.client.groups"
_add_group(
    "unit",
    "Requests to a model, each paid by its tokens.",
    UNIT_COMMANDS,
    {"ps": "list", "units": "list", "batch": "runs", "describe": "show", "inspect": "show", "rm": "cancel"},
)
_add_group(
    "task",
    "Training runs and containers, sold by auction.",
    TASK_COMMANDS,
    {"ps": "list", "squeue": "list", "describe": "show", "scancel": "cancel", "shell": "exec", "sbatch": "convert"},
    TASK_SECTIONS,
)
_add_group("offer", "Services, providers and prices.", OFFER_COMMANDS, {"list": "search", "show": "search"})
add_deferred(main, GROUPS, OTHER_COMMANDS)
add_deferred(main, GROUPS, SHORT_FORMS)


if __name__ == "__main__":
    main()
