"""Random chains, and rules that hold on all of them: a tool of this repository, not of the wheel.

* `books`: the claims of one part of the state against the sums of the others, after each step and counted anew
* `actors`: who acts on a random chain, and what they see of it
* `pallets`: a module for each pallet, or a few pallets: how its storage entries count in the books, and random
  arguments of its calls
* `catalogue`: all of these modules, which register themselves by being there; a full count of a chain
* `chains`: chains of a few pallets in memory, driven block by block
* `runs`: parts of a run, several at a time, and how a run ends
* `replay`: a recorded chain gives the same roots and events under every interpreter
* `economy`: after each random step every grain is in its place
* `stakes`: stakes on shares beside the naive rule, which visits everybody
* `courts`: coalitions before the courts: gains and losses
* `misconduct`: misconduct about batches costs what its formula says

Pallets may import neither chance nor tools, so their modules stand here and not beside them. A schedule is found by its
declaration, a reason to hold money by the pallet that declares it: an entry that is missing breaks a book at once.
"""
