"""A chain under random steps of everybody, its books kept beside it and compared after each.

In reading order:

* `pairs`: two sides of a book that must agree, and what of them has changed
* `task_entries`: what the entries of tasks say to the books
* `entries`: what each entry of the state says to the books: grains, holds, cases, counts
* `timetable`: what each schedule says to the books, and that every open unit is on one
* `books`: the books of one chain: kept step by step, counted anew now and then
* `crowd`: what the crowd sees of the chain when it chooses its next call
* `hooks`: what the hooks of one block may weigh
* `hearings`: what the courts of a chain did, as a run counts it
* `task_ends`: how slots and tasks ended, as a run counts it
* `figures`: what a run has shown, what is missing for it to show anything, and how that is told
* `season`: one chain from block 0 on: blocks, calls by right and wrong signers, finality that stands still
* `seasons`: chains one after another, or several at a time
"""
