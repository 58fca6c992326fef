"""Commands that post units: once, whatever breaks off.

In reading order:

* `once`: what they share: all of it once, with bars for people, after the cost was shown
* `answering`: a file of requests posted, followed, and answered in the form in which it asks
* `post`: post units: what it costs and who could take it is known before anything is sent
"""
