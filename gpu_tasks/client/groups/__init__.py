"""The words of `ogpu`: its commands by group, with their arguments, options and help.

A command here names the function that carries it out, which is imported when the command runs. So help and completion
load neither the chain's rules nor a client.

In reading order:

* `limits`: the bounds and choices of options
* `declared`: options and parameter types that several commands share
* `unit`: units of inference
* `task`: tasks: write, submit, follow, decide
* `container`: programs in containers: run, enter, copy, forward
* `offer`: services, providers and prices
* `model`: model files on this machine
* `session`: sessions and chats
* `budget`: budgets, and what work cost
* `foreign_words`: other systems' words for all of these
"""
