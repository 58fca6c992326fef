"""The parts of scenarios on a live devnet. The demo and every proof use them; they know none of these.

A proof is a module with a `LiveProof`: a name, scenarios, one line of figures. A `Scenario(name, title, network,
strike, checks)` opens a network, does something to it, and yields a sentence for each bar that does not hold. `run` is
the program of all proofs: the options `--only names`, `--folder` and the proof's own, the steps as they happen, one
table, `out/NAME.json`, one line of figures, and exit status 1 if a bar does not hold.

In reading order:

* `report`: lines, a table, JSON in `out/`
* `scenario`: scenarios, proofs, and the program that runs them
* `measuring`: readings of a devnet, and load on it
* `network`: a fresh devnet, and the programs that people use on it
* `registry`: a registry of images, and an image in it
* `actors`: customers of units and of tasks
* `cheating`: programs of a provider and a node that cheat
"""
