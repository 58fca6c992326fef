"""What customers hear of tasks, and what work feels of it, when the broker is bad: `make telemetry`.

In reading order:

* `relay`: a relay before a broker, which waits, withholds and cuts
* `stranger`: somebody else at the same broker, who forges, replays and floods
* `scenes`: what goes wrong in each scene, and what has to be said of it
* `judging`: what was heard of a task, and whether the bars hold
* `course`: one scene after the other on one devnet
"""
