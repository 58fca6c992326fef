"""Tasks at auction for their customer: written, submitted, followed, held, fetched, verified, and entered.

In reading order:

* `drafts`: a new job or lease, and its text
* `foreign`: another system's file: the parts carried over, and the parts left out with reasons
* `orders`: from a task file on the disk to its order, with inputs and image
* `arrays`: one task for each index, and the record of submitted ones
* `sbatch`: batch scripts of Slurm
* `compose`: services of a Compose file
* `sdl`: deployments of Akash
* `task_checks`: the open claims and the open dispute of a task
* `records`: a task and its auctions in sentences, rows and facts
* `estimates`: the expected cost of a task, and the number of eligible providers that claim to run it
* `results`: checkpoints, results and outputs, fetched, opened, checked and held
* `exports`: trained weights in public formats
* `shifts`: the blocks of a task's life: statements, winners and successors
* `payments`: the payments, losses and returns of each party
* `progress`: a task from block to block, until it ends
* `subscriber`: one broker of providers' notes, and its messages
* `streams`: all brokers of some tasks, as slots change hands, and a row for each slot
* `tunnel`: a shell, files and ports in a container
"""
