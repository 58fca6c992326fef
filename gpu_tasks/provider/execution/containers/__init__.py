"""Strangers' programs in containers: an engine (Docker) that they cannot leave.

In reading order:

* `refusals`: what goes wrong, said in three parts
* `labels`: the names of what a daemon makes
* `spec`: what is to run, its limits, the provider's policy
* `tar_entries`: archives of strangers, read entry by entry
* `image_rules`: which images run, what a configuration may not say
* `image_archive`: archives of images, checked whole
* `logs`: what a program says, as lines
* `outputs`: what it leaves, as one archive with one hash
* `holder`: the program that holds the volumes
* `creation`: what the engine is asked to make
* `layout`: what is laid into volumes
* `programs`: programs of the system that are called
* `docker_door`: the engine's API in threads
* `streams`: its raw streams
* `images`: images brought to the engine, and how long they stay
* `workspaces`: volumes with a size
* `networks`: the way out, and what is closed
* `ability`: what this machine can do, and why not
* `parts`: the parts of one container, made and removed
* `run`: a container that runs or has run
* `inside`: programs and files of a running container
* `engine`: start, wait, stop, remove
"""
