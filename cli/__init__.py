"""The parts that all programs' command lines share, and the command line of `ogpu-wallet`.

In reading order:

* `messages`: errors and notes on standard error, for people or for programs
* `program`: a program as a group of commands: `--json` anywhere, errors, suggestions
* `deferred`: commands whose work is imported when they run
* `prompts`: questions to the person at the terminal
* `tables`, `output`: tables that fit where they are shown, or JSON
* `session`: the options before a command, and how a call is sent once
* `options`: options and parameter types
* `ids`: ids by their first digits
* `calls`: a call is shown, agreed to and sent
* `chain_time`: when an epoch will begin, about
* `wallet`: the commands of `ogpu-wallet`
"""
