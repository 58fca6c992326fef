"""What customers are used to from elsewhere, as jobs and leases: a command line, arrays, and others' files.

In reading order:

* `drafts`: a job or a lease that is being written, and its text
* `origins`: the origins of a draft's parts, for error messages
* `foreign`: what became of somebody else's file: what was carried over, what was left out and why
* `trees`: others' YAML as plain texts, lists and tables, whatever its shape
* `amounts`: times and sizes as Slurm, Compose and Akash write them
* `arrays`: one task for each index, and which have been submitted
* `sbatch`: batch scripts of Slurm
* `compose`: services of a Compose file
* `sdl`: deployments of Akash
"""
