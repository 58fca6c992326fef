"""What the commands of `ogpu` do. Their options and help are in `groups`.

In reading order:

* `calls`: how a command sends a call: what it costs is shown, people are asked, and what became of it is shown,
  also to who interrupts it
* `id_prefixes`: what an id that a person typed is
* `task_runs`: a task followed to its end, handed its secrets, its result fetched and checked
* `task_decisions`: what customers decide about tasks: accept, amend, close, hold a checkpoint
* `units`: what was posted: list it, follow it, read its result, appeal about a unit
* `dispute`: a result is wrong, and where
* `purchase`: units are priced, agreed to and posted once; a file is followed until it is answered
* `post`: post units: what it costs and who could take it is known before anything is sent
* `cancel`: take back a unit, a task, or what of a run still waits
* `picture`: a picture bought as tiles, checked, and written as one file
* `tasks`: task files: what one comes to, and the schema of all
* `task_submission`: one task from its file to the chain, once
* `submit`: submit a task: what it asks, what it costs and who could bid is known before anything is sent
* `run`: a command line as a job, its lines and exit code
* `converters`: others' files as task files
* `sbatch`: a Slurm script, converted and submitted
* `shell`: a shell, files, ports and secrets of a container
* `logs`: what providers tell of tasks while they work
* `events`: the market's events as they become final
* `auctions`: tasks as they stand: a list, one of them, its bids, all of it reckoned again
* `services`: what is sold and who offers it, a service of one's own and its end
"""
