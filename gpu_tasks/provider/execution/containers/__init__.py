"""Programs of strangers in containers of an engine (Docker), which they cannot leave.

In reading order:

* `refusals`: errors in three parts: action, reason, remedy
* `labels`: names of the things that a daemon makes in the engine
* `spec`: a container's program and limits, and the provider's policy
* `tar_entries`: strangers' archives, read entry by entry
* `image_rules`: permitted images, and forbidden parts of their configuration
* `image_archive`: image archives, checked as a whole
* `logs`: a program's output, as lines
* `outputs`: a program's files, as one archive with one hash
* `holder`: the program that keeps volumes mounted
* `creation`: creation requests to the engine
* `layout`: the initial content of volumes
* `programs`: calls of system programs
* `docker_door`: the engine's API, called in threads
* `streams`: the engine's raw streams
* `images`: images brought to the engine, and their removal
* `workspaces`: volumes with a size
* `networks`: outbound access, and closed destinations
* `ability`: abilities of this machine, with reasons for missing ones
* `parts`: the parts of one container, made and removed
* `run`: a container that runs or has run
* `inside`: programs and files of a running container
* `engine`: start, wait, stop, remove
"""
