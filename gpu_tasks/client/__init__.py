"""The customer's program `ogpu`: post units and tasks, watch them, fetch results.

In reading order:

* `funds`: whether an account can pay for what it is about to send
* `offers`: what is sold and who offers it
* `class_choice`: of which class of devices a unit's racers shall be
* `results`: what became of a unit: its state in words, what it cost, its completion
* `posting_record`: what is about to be posted, on the disk
* `batches`: a file of many requests: read, split into units, taken up again, answered in its form
* `posting`: what can be posted once, units and tasks; from lines of a file to what units are posted with
* `outlook`: what a plan asks a chain
* `costs`: what units cost: before anything is sent, and later
* `posting_once`: posting it, each prompt once
* `output_files`: where the bytes of a result are written
* `payments`: who was paid what for a unit that has ended
* `wait_reasons`: why a queued unit is not taken
* `watch`: following units: a table that changes with the chain, or JSON lines
* `inventories`: what providers say that their machines have, and how reliable they were
* `image_files`: an image as `docker save` wrote it, looked at and compressed
* `task_files`: task files and their inputs on the disk
* `habits`: command lines, arrays and others' files as jobs and leases
* `file_runs`: a file of many requests on its way: from lines to units on the chain, from their ends to answers
* `pictures`: a picture as files of its tiles: what a round asks for, and which tiles have come
* `unit_rows`: the units of an account as rows, from the chain and from this machine's records
* `training`: tasks at auction as their customer sees them
* `willingness`: the policies of the providers that could bid for a task
* `telemetry`: what is heard of tasks while they run
* `tunnel`: its customer in a container that runs
* `events`: the market's events as they become final, in sentences and as rows; what became of a check that is over
* `commands`: the commands of `ogpu`: about units, about tasks, about services, and how one is sent
* `cli`: `ogpu`, and the options before its commands
"""
