"""Tasks at auction as their customer sees them: drafted, submitted, followed, held, fetched, verified, entered.

In reading order:

* `drafts`: a job or a lease that is being written, and its text
* `foreign`: what became of somebody else's file: what was carried over, what was left out and why
* `orders`: from a task file on the disk to the order that is submitted, its inputs and image
* `arrays`: one task for each index, and which have been submitted
* `sbatch`: batch scripts of Slurm
* `compose`: services of a Compose file
* `sdl`: deployments of Akash
* `records`: how far a task is and why it waits; a task and its auctions in rows and facts
* `estimates`: what a task is expected to cost, and how many eligible providers say that they run it
* `exports`: a trained model as safetensors or .npz
* `results`: checkpoints, results and outputs, fetched, opened, checked and held
* `shifts`: the blocks of a task's life: statements, who worked on it, who took over
* `payments`: what each party was paid, lost, and has back
* `progress`: a task from block to block, until it ends
* `subscriber`: one broker of providers' notes, as long as it is of use
* `streams`: all brokers of some tasks, as slots change hands, and a row for each slot
* `tunnel`: a shell, files and ports in a container
"""
