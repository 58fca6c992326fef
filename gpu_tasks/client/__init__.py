"""The customer's program `ogpu`: post units and tasks, watch them, fetch results.

In reading order:

* `input_files`: plain files that a user named, read up to a limit
* `output_files`: where the bytes of a result are written
* `open_checks`: open claims and disputes about results, of units and of tasks
* `claim_ends`: the pay of the checks of an ended claim
* `buyer`: the account that buys and the key that signs, with the caps of a budget
* `offers`: services, offers, and the devices that could bid
* `units`: units and files of requests: posted once, watched, answered, their costs and events
* `tasks`: tasks at auction: drafts, orders, progress, results, payments, telemetry, tunnels
* `sessions`: a reserved place at a provider: the disk, answers over a stream that breaks, vouchers, chats
* `spending`: the purchases of this machine and their cost, in a file
* `groups`: the commands by group: arguments, options, help
* `commands`: the functions behind the commands
* `cli`: `ogpu`, and the options before its commands
"""
