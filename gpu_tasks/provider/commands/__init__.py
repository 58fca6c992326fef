"""The commands of `ogpu-provider`.

In reading order:

* `options`: what all commands share
* `naming`: which device a text means
* `making`: a call is tried, or made and waited for
* `sandboxing`: whether workers run within walls
* `containing`: whether programs of customers run in containers
* `broadcasting`: which broker is told
* `running`: `run`: the daemon
* `examining`: `doctor`
* `inventorying`: `inventory`
* `joining`: `register`
* `offering`: `offer`, `withdraw-offer`, `queue`, `pause`, `resume`
* `rolling`: `bench`, `enrol`, `withdraw`
* `auctioning`: `auctions`, `policy`, `drain`
* `earning`: `earnings`
* `utilising`: `utilisation`, and what devices are at now
* `showing`: `devices`, `status`
* `appealing`: `appeal`
* `proving`: `prove`
* `leaving`: `unregister`, `withdraw-bond`
"""
