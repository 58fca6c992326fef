"""Units and files of requests: posted once, watched, answered in the form that they came in, their costs and events.

In reading order:

* `lines`: the lines of a file, how large they may be, and which go into which unit
* `line_reader`: a file as a stream of lines, in one of three forms
* `posting`: what can be posted once, units and tasks; from lines of a file to what units are posted with
* `posting_once`: posting it, each prompt once, by a record on the disk
* `results`: what became of a unit: its state in words, its cost, its completion, and who was paid what
* `costs`: what units cost: before anything is sent, and later
* `run_record`: what a run of a file has done, on the disk, and which run somebody names
* `result_lines`: results and errors as lines, and the files that hold them
* `file_plan`: a file before anything is posted: split into units, and what its record already says of it
* `wait_reasons`: why a queued unit is not taken
* `watch`: units as rows: followed until they end, and listed
* `answers`: the answers of a file's units as they end, and the end of a run that is stopped
* `events`: the market's events as they become final, in sentences and as rows
* `leaf_checks`: answers computed again, how a check stands, and what became of one
"""
