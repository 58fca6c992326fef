"""The market's events as they become final: in sentences and as rows, for an account, a task or everybody.

In reading order:

* `wording`: each kind of event as a sentence
* `telling`: an event as a sentence and as a row
* `concerning`: whose events they are
* `following`: block after block, over connections that break
* `leaf_ends`: what became of a check of leaves, or of racers who differed, once that is over
"""
