"""The provider's programs: watch the market, execute units, attest, judge, keep blobs.

In reading order:

cli.py          `ogpu-provider`, and the options before its commands
commands/       each command
daemon.py       what runs until it is stopped: from a block to what it asks for
duties/         races, cases, endings: what is done next, and doing it
execution/      worker processes on this machine's devices
blobs/          sealed inputs and outputs: stored, served, fetched, sealed again
journal/        what must not be forgotten
chain/          the node, as these programs see it
registering.py  the calls that make a stash a provider, and that end it
keys.py         the provider key
telemetry.py    what a provider tells of its work
"""
