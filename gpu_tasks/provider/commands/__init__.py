"""The commands of `ogpu-provider`.

In reading order:

* `options`: what all commands share
* `calls`: a call is tried, or made and waited for
* `walls`: the sandbox of workers
* `containers`: the container engine for customers' programs
* `run`: `run`: the daemon
* `doctor`: `doctor`
* `inventory`: `inventory`
* `register`: `register`
* `offers`: `offer`, `withdraw-offer`, `queue`, `pause`, `resume`
* `bench`: `bench`, `enrol`, `withdraw`
* `auctions`: `auctions`, `policy`, `drain`
* `earnings`: `earnings`
* `utilisation`: `utilisation`, and what devices are at now
* `status`: `devices`, `status`
* `appeal`: `appeal`
* `prove`: `prove`
* `leave`: `unregister`, `withdraw-bond`
"""
