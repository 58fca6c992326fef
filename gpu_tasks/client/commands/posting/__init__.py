"""Commands that post units: once, whatever breaks off; and that take back, or list, what was posted.

In reading order:

* `once`: what they share: all of it once, with bars for people, after the cost was shown
* `follow`: a file of requests on its way, and what came of it
* `answer_file`: what a file of requests costs and who could take it, before it is posted and answered
* `post`: post units: what it costs and who could take it is known before anything is sent
* `cancel`: take back a unit, a task, or what of a run still waits
* `lists`: how runs stand, by their records, and the units of a key
"""
