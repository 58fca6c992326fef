"""Random chains, and rules that hold on all of them: a tool of this repository, not of the wheel.

* `books`: the claims of one part of the state against the sums of the others, after each step and over a full count
* `actors`: the accounts on a random chain, and their view of it
* `pallets`: a module for each pallet, or a few pallets: the value of its storage entries in the books, and random
  arguments of its calls
* `catalogue`: all of these modules, found by their presence; a full count of a chain
* `chains`: chains of a few pallets in memory, driven block by block
* `runs`: parts of a run, several at a time, and the end of a run
* `replay`: a recorded chain gives the same roots and events under every interpreter
* `economy`: after each random step every grain is accounted for
* `stakes`: stakes on shares beside the naive rule, which visits every delegator
* `claims_game`: claims and checks as a game, solved and simulated without pallets
* `honest`: honest parties in random units and tasks over several backends lose nothing

Pallets may import neither chance nor tools, so their modules are here and not beside them. The books find a schedule by
its declaration, and a hold reason by its pallet. A missing entry breaks a book at once.
"""
