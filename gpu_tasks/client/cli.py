"""`ogpu`: post units of inference, submit tasks to auction, watch them, read what comes of them, sell a service.

Exit codes: 0 done, 1 the chain or the node refused, or a unit ended without a result, 2 something to set right in what
was given.
"""

from __future__ import annotations

import click

from cli.deferred import add_deferred
from cli.options import HELP_NAMES, session_options
from cli.program import ProgramGroup

COMMANDS = {
    "post": ("post:post", "Post a request for each line of FILE."),
    "watch": ("units:watch", "Follow units (0x..), or one task (0x..), until they end."),
    "units": ("units:units", "List the units of a key, open and ended, oldest first."),
    "result": ("units:result", "Print the answer of a unit, or the result of a task (0x..)."),
    "show": ("units:show", "Show how UNIT (0x..) stands, who raced and who was paid."),
    "cancel": ("cancel:cancel", "Take back queued units, early tasks, or the rest of a run."),
    "batch": ("units:batch", "List the runs of files, or show how RUN stands."),
    "appeal": ("units:appeal", "Appeal against what judges said of UNIT (0x..)."),
    "picture": ("picture:picture", "Buy a picture as tiles, and put them together."),
    "check": ("tasks:check", "Say what a task file asks for, or all that is wrong with it."),
    "plan": ("tasks:plan", "Say who could serve the task of FILE, its cost and start."),
    "submit": ("submit:submit", "Put the task of FILE to auction."),
    "ps": ("auctions:ps", "List the tasks of a key, oldest first, and why they wait."),
    "history": ("auctions:history", "List the kept tasks of a key: exit code, time and cost."),
    "describe": ("auctions:describe", "Show all that the chain says of TASK (0x..)."),
    "run": ("run:run", "Run COMMAND in a container on somebody's device."),
    "from-sbatch": ("converters:from_sbatch", "Write the task file of a Slurm batch script."),
    "from-compose": ("converters:from_compose", "Write the task file of a service of a Compose file."),
    "from-sdl": ("converters:from_sdl", "Write the task file of a service of an Akash deployment."),
    "logs": ("logs:logs", "Show the events, lines and progress of TASK (0x..)."),
    "top": ("logs:top", "Show how far running tasks (0x..) and their devices are."),
    "events": ("events:events", "Tell the market's events as they become final."),
    "bids": ("auctions:bids", "List the bids for TASK (0x..), winners first."),
    "hold": ("task_decisions:hold", "Check, keep and sign the newest checkpoint of TASK (0x..)."),
    "accept": ("task_decisions:accept", "Accept the result of TASK (0x..)."),
    "dispute": ("dispute:dispute", "Dispute the result of TASK, or an answer of UNIT (0x..)."),
    "amend": ("task_decisions:amend", "Raise the price of TASK (0x..), extend its time, or stop it."),
    "stop": ("task_decisions:stop", "Stop a running TASK (0x..)."),
    "close": ("task_decisions:close", "Offer another end of TASK (0x..), or sign an offered one."),
    "shell": ("shell:shell", "Run COMMAND in the container of TASK (0x..)."),
    "cp": ("shell:cp", "Copy a file or folder into a container, or out of one."),
    "secrets": ("shell:secrets", "Hand the program of TASK (0x..) the secrets it waits for."),
    "port-forward": ("shell:port_forward", "Forward local ports to the container of TASK (0x..)."),
    "verify": ("auctions:verify", "Check TASK (0x..) again from the chain alone."),
    "schema": ("tasks:schema", "Print the JSON Schema of task files."),
    "search": ("services:search", "List the offers that meet all CONDITIONS, cheapest first."),
    "price": ("services:price", "Show the lowest, median and last paid price of units."),
    "services": ("services:services", "List the services for sale."),
    "providers": ("services:providers", "List devices and what they ask."),
    "create-service": ("services:create_service", "Offer a new kind of unit."),
    "close-service": ("services:close_service", "Close SERVICE, and take its deposit back."),
}

FOREIGN_WORDS = {
    "sbatch": "ogpu from-sbatch",
    "srun": "ogpu run",
    "salloc": "ogpu run",
    "squeue": "ogpu ps",
    "scancel": "ogpu cancel",
    "sacct": "ogpu history",
    "sinfo": "ogpu providers",
    "up": "ogpu from-compose",
    "exec": "ogpu shell",
    "attach": "ogpu logs",
    "inspect": "ogpu describe",
    "kill": "ogpu stop",
    "rm": "ogpu stop",
    "stats": "ogpu top",
    "deploy": "ogpu from-sdl",
    "balance": "ogpu-wallet balance",
    "send": "ogpu-wallet send",
    "transfer": "ogpu-wallet send",
}
"""Commands of Slurm, Docker, Akash and wallets, and the commands here."""


@click.group(
    cls=ProgramGroup, context_settings=HELP_NAMES, program_commands=("run", "shell"), foreign_words=FOREIGN_WORDS
)
@session_options
@click.version_option(package_name="ogpu")
def main() -> None:
    """Have work done on an ogpu chain: post units, submit tasks, watch them, read what comes of them.

    Shell completion: eval "$(_OGPU_COMPLETE=bash_source ogpu)" (or zsh_source, fish_source).
    """


add_deferred(main, "gpu_tasks.client.commands", COMMANDS)


if __name__ == "__main__":
    main()
