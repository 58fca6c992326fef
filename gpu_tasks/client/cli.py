"""`ogpu`: post units of inference, submit tasks to auction, watch them, read what comes of them, sell a service.

Exit codes: 0 done, 1 the chain or the node refused, or a unit ended without a result, 2 something to set right in what
was given.
"""

from __future__ import annotations

import click

from wallet.commands.opening import session_options
from wallet.complaints import JsonAnywhereGroup
from wallet.deferred import add_deferred
from wallet.program_options import HELP_NAMES

COMMANDS = {
    "post": ("posting.post:post", "Post a request for each line of FILE (- is standard input), so many to a unit."),
    "watch": ("units:watch", "Follow UNITS (0x..), the open units of the key, or one task (0x..), until they end."),
    "units": (
        "posting.listing:units",
        "List the units of a key, open and ended: state, service, cost, block and time.",
    ),
    "result": (
        "units:result",
        "Print what a settled UNIT (0x..) asked and the answer, or what came of a TASK (0x..), fetched and checked.",
    ),
    "show": (
        "showing:show",
        "Show how UNIT (0x..) stands on the chain, who races for it, why it ended, and who was paid and who lost what.",
    ),
    "cancel": (
        "posting.cancelling:cancel",
        "Take back a UNIT (0x..) that is queued, a TASK (0x..) that does not run yet, or what of a RUN still waits.",
    ),
    "batch": (
        "posting.listing:batch",
        "Say how RUN stands, a file posted with --out: its status, how many are answered, its cost; or list all runs.",
    ),
    "appeal": (
        "units:appeal",
        "Appeal against what judges have said of UNIT (0x..): a court decides, and a bond is lost if it says the same.",
    ),
    "picture": (
        "picturing:picture",
        "Buy the picture of FILE (a task file that renders one) or of a --scene as tiles, and put them together.",
    ),
    "check": (
        "tasks:check",
        "Read the task of FILE and say what it asks for, or all that is wrong with it; no node is asked.",
    ),
    "plan": (
        "planning:plan",
        "Say what would become of the task of FILE: who could serve it, why the others cannot, cost and start.",
    ),
    "submit": (
        "submitting:submit",
        "Put the task of FILE to auction: its input is sealed and stored, its cost shown and asked.",
    ),
    "ps": ("auctions:ps", "List the tasks of a key, the oldest first: how far each is, and what it waits for."),
    "history": (
        "auctions:history",
        "List the tasks of a key that the chain still keeps: state, exit code, time, cost.",
    ),
    "describe": (
        "auctions:describe",
        "Show all that the chain says of TASK (0x..): how far it is and why, terms, who worked, who was paid what.",
    ),
    "run": (
        "running:run",
        "Run COMMAND in a container on somebody's device: its lines come here, and its exit code is this program's.",
    ),
    "from-sbatch": (
        "converting:from_sbatch",
        "Write the job that a batch script of Slurm asks for: FILE goes along as its input, and is run there.",
    ),
    "from-compose": (
        "converting:from_compose",
        "Write the lease, or with --job the job, that a service of a Compose file asks for.",
    ),
    "from-sdl": (
        "converting:from_sdl",
        "Write the lease, or with --job the job, that a service of an Akash deployment (SDL) asks for.",
    ),
    "logs": (
        "hearing_tasks:logs",
        "Show what the providers of TASK (0x..) tell of it: events, lines, progress; its customer's key opens that.",
    ),
    "top": (
        "hearing_tasks:top",
        "Show how far the running TASKS (0x..) of a key are, and what their devices are at; all, if none is named.",
    ),
    "events": (
        "telling_events:events",
        "Tell the market's events as they become final: of everybody, of a key, or of a task or a unit.",
    ),
    "bids": ("auctions:bids", "List the bids for TASK (0x..), winners first: score split into price, time and risk."),
    "hold": (
        "deciding:hold",
        "Fetch and check the newest checkpoint of TASK (0x..), keep it, and sign that: its milestone counts then.",
    ),
    "accept": (
        "deciding:accept",
        "Take the result of TASK (0x..): it is paid as soon as it is known that it is not audited.",
    ),
    "dispute": (
        "disputing:dispute",
        "Say that the result of TASK or an answer of UNIT (0x..) is wrong: judges look; a bond pays if it is right.",
    ),
    "amend": (
        "deciding:amend",
        "Change TASK (0x..): --raise the price, --extend its time, or --stop it; one of the three.",
    ),
    "stop": (
        "deciding:stop",
        "Stop a running TASK (0x..): you pay for the elapsed time, and 5 % of the price out of your bond.",
    ),
    "close": (
        "deciding:close",
        "Offer another end of TASK (0x..), or sign the one that its customer offers, as the stash of a slot.",
    ),
    "shell": (
        "entering:shell",
        "Run COMMAND (default: a shell) in the container of TASK (0x..), on this terminal, with its exit code.",
    ),
    "cp": (
        "entering:cp",
        "Copy a file or folder into a container, FILE TASK:/workspace, or out of one, TASK:/workspace/FILE FOLDER.",
    ),
    "secrets": (
        "entering:secrets",
        "Hand the program of TASK (0x..) the secrets that it waits for: all that its file names, in one go.",
    ),
    "port-forward": (
        "entering:port_forward",
        "Have ports of this machine lead to ports of the container of TASK (0x..), until Ctrl-C.",
    ),
    "verify": (
        "auctions:verify",
        "Reckon TASK (0x..) again out of the chain alone: id, terms, awards, milestones, result, outcome, statements.",
    ),
    "schema": ("tasks:schema", "Print the JSON Schema of task files, for editors and programs."),
    "search": ("offering:search", "List the offers for which all CONDITIONS hold, the cheapest first."),
    "price": (
        "offering:price",
        "Say what units cost: by service and class the lowest and the median ask, and what was last paid.",
    ),
    "services": ("services:services", "List what can be bought."),
    "providers": ("services:providers", "List devices and what they ask."),
    "create-service": (
        "services:create_service",
        "Offer a new kind of unit; a deposit is locked until the service is closed.",
    ),
    "close-service": (
        "services:close_service",
        "Let no more units of SERVICE be posted, and take its deposit back; open units go on.",
    ),
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
    cls=JsonAnywhereGroup,
    context_settings=HELP_NAMES,
    program_commands=("run", "shell"),
    foreign_words=FOREIGN_WORDS,
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
