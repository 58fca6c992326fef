"""What a customer hears of its tasks while they run.

In reading order:

* `messages`: one thing that was heard, or is to be said of a broker
* `brokers`: which provider tells of a slot at which broker, by the chain and by the provider's own word
* `subscriber`: one broker, as long as it is of use
* `progress`: how far tasks are, by what was heard last
* `streams`: all brokers of some tasks, as slots change hands; silence is said
"""
