"""Tasks at auction on a live devnet: from a task file to a paid result, whoever dies on the way.

In reading order:

* `scenes`: the courses that are taken: which file, who is killed when, what has to come of it
* `undisturbed`: the same run computed here, without any network
* `judging`: what must have become of a task and of everybody's money
* `course`: one scene after the other
* `telling`: the report, a table, the line of figures
"""
