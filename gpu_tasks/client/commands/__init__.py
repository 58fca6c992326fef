"""The functions behind the commands of `ogpu`. Their options and help are in `groups`.

In reading order:

* `calls`: the facts of a call before it is sent, and messages after an interrupt
* `id_prefixes`: ids as users type them: whole, first digits, or `last`
* `task_runs`: follow a task to its end, hand its secrets over, fetch and export its result
* `sample`: a trained model continues a text
* `task_decisions`: a customer's decisions about tasks: stop, confirm a checkpoint
* `units`: list, follow and show units, read results, appeal
* `purchase`: price, confirm and post units once; follow a file until each request has an answer
* `post`: post units, with cost and eligible providers shown before
* `picture`: buy a picture as tiles, check them, and write one file
* `cancel`: cancel units, tasks, or the rest of a file's run
* `dispute`: recompute answers, and dispute one
* `task_dispute`: recompute a run, dispute an item of a result, appeal
* `tasks`: task files: content, schema, eligible devices and cost
* `task_submission`: one task from its file to the chain, once
* `submit`: submit a task, with cost and eligible devices shown before
* `run`: run a command line as a job, with its output and exit code
* `converters`: convert the files of other systems to task files
* `sbatch`: convert a Slurm script and submit it
* `shell`: programs, files, ports and secrets of a task's container
* `logs`: reports of providers at work
* `events`: the market's events as they become final
* `auctions`: list and show tasks, their history and bids, and verify them
* `models`: list, show, verify, export, add and remove model files
* `model_import`: make model files from other people's, or fetch them from the catalogue
* `services`: services, offers and prices; create and close a service
* `session_stream`: the stream of a session, built from the chain's record, a key and a file
* `sessions`: open, list and close sessions
* `budgets`: create budgets, let keys spend from them, list, revoke, withdraw, close
* `spend`: the cost of units and sessions by day, key or model
* `chat`: questions and streamed answers in a session
"""
