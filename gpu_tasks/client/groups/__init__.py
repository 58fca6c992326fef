"""The words of `ogpu`: its commands by group, with their arguments, options and help.

A command here names the function that carries it out, which is imported when the command runs. So help and completion
load neither the chain's rules nor a client.

In reading order:

* `declared`: how a command names its function; options that several commands share
* `limits`: the bounds and choices of options
* `program_words`: command lines that end with a program's own words
* `unit`: units of inference
* `task`: tasks: write, submit, follow, decide
* `container`: programs in containers: run, enter, copy, forward
* `offer`: services, providers and prices
* `top_level`: events, and short forms with their own options
"""
