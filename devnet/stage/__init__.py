"""The parts of scenarios on a live devnet. The demo and every proof import them; they import none of these.

A proof is a module with a `LiveProof`: a name, scenarios and one line of figures. A `Scenario(name, title, network,
strike, checks)` opens a network, acts on it, and yields a sentence for each failed requirement. `run` is the program of
all proofs. It takes the options `--only names`, `--folder` and the proof's own, and prints the steps as they happen.
Then it prints one table, writes `out/NAME.json`, prints one line of figures, and exits with status 1 if a requirement
failed.

In reading order:

* `report`: lines, a table, JSON in `out/`
* `scenario`: scenarios, proofs, and the program that runs them
* `measuring`: readings of a devnet, and load on it
* `network`: a fresh devnet, and the programs of its users
* `registry`: a registry of images, and an image in it
* `actors`: customers of units and of tasks
* `cheating`: programs of a provider and a node that cheat
"""
