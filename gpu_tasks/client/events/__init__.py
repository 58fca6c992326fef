"""The market's events as they become final: in sentences and as rows, for an account, a task or everybody.

In reading order:

* `rows`: an event as a sentence and as a row
* `stream`: block after block, over connections that break
* `leaf_ends`: what became of a check of leaves, or of racers who differed, once that is over
"""
