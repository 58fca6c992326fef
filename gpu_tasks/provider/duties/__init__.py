"""What a drawn provider does: race, judge, and see both to their ends.

In reading order:

races.py        what chain and journal ask for next in a race; pure
racing.py       taking those steps
cases.py        the same for a committee's case; pure
judging.py      taking those steps
work.py         from a unit to its result
attesting.py    the signed statement about a result
verdicts.py     finding the right result of a disputed unit
sending.py      journal first, then the node, and again until the chain shows it
endings.py      what became of races and cases
standing.py     which registered devices may work here
offences.py     reporting double proposals
keyed_tasks.py  long work beside the loop
parts.py        what all duties work with
"""
