"""Units and files of requests: posted once, watched, and answered in the file's form, with costs and events.

In reading order:

* `lines`: the lines of a file, their limits, and their split into units
* `line_reader`: a file as a stream of lines, in one of three forms
* `posting`: the kinds of postings, and the steps from lines to the terms of a unit
* `posting_once`: posting each prompt once, with a record on the disk
* `results`: the end of a unit: its state in words, cost, completion and payments
* `costs`: the cost of units, estimated before a post and summed later
* `batch_object`: a run of a file at one moment, as OpenAI's batch object
* `run_progress`: the progress of a run, and its forecast end
* `run_record`: the record of a file's run, and the search for a run by its name
* `result_lines`: results and errors as lines, and the files that hold them
* `file_plan`: a file before any post: its units, and the earlier run of its record
* `wait_reasons`: the reasons why a queued unit waits
* `pending_checks`: the open claim and dispute of a unit
* `watch`: units as rows: followed until they end, and listed
* `answers`: the answers of a file's units as they end, and the end of a stopped run
* `events`: the market's final events, as sentences and as rows
* `payments`: the payments of an ended unit, and the losses of its racers
* `recomputed`: answers recomputed on this machine
"""
