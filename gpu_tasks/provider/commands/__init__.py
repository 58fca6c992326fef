"""The commands of `ogpu-provider`.

In reading order:

* `options`: the parts that all commands share
* `calls`: the dry run and the sending of calls
* `walls`: the sandbox of workers
* `containers`: the container engine for customers' programs
* `run`: `run`: the daemon
* `doctor`: `doctor`
* `inventory`: `inventory`
* `register`: `register`
* `offers`: `offer`, `withdraw-offer`, `queue`, `pause`, `resume`
* `bench`: `bench`, and the work of roll calls as text
* `auctions`: `auctions`, `policy`, `drain`
* `earnings`: `earnings`
* `sessions`: `sessions`
* `utilisation`: `utilisation`, and the present work of devices
* `status`: `devices`, `status`
* `appeal`: `appeal`
* `leave`: `unregister`, `withdraw-bond`
"""
