"""The modules of the state transition, one pallet a file.

In reading order, which is nearly the order in which they run:

weights                 what calls and hooks weigh: generated
system                  accounts, events, block hashes
timestamp               the time of a block
hold_book               what is held, by account and case, and its sums
balances                who owns what, and how it moves: the model of a pallet
transaction_payment     fees
utility                 several calls in one transaction
beacon                  epochs, chance, the newest final block
pots                    accounts of the chain itself
churn                   how much one election may change the set in office
session_keys            the proof that a stash's session and VRF key are its own
staking                 bonds, elections, eras, rewards, locks and slashes
session                 who validates, as explorers read it
im_online               signs of life of those who have no seat
chain_parameters        the call that changes a number which the chain goes by
sudo                    the powers of Root, on development chains
"""
