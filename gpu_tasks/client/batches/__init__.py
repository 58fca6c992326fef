"""A customer's file of many requests: read, split into units, taken up again, answered in the form that it came in.

Functions of bytes and texts: no chain and no network. In reading order:

* `lines`: what a line of a file becomes, and how large files and lines may be
* `line_forms`: from a line in one of three forms to a request or to the reason why it is none
* `line_reader`: a file as a stream of lines
* `units_of_lines`: which lines go into which unit
* `sums`: what was locked for units, what of it is gone and what came back, in a few words
* `record`: what a run has done, on the disk
* `line_writer`: a result or an error as a line, in the form of the input
* `result_files`: the files that these lines are written to
* `runs`: the runs of a folder: which one somebody names, and how it stands
* `leaf_looks`: answers computed again, and how far the check of a batch is
"""
