"""What what-if predicts, compared with what then happens: one traffic, played twice through real stacks.

traffic       the users, ACLs, proposal and clients, the same in both runs
playing       one run: a fresh stack, with or without the proposal, and its audit records
comparing     outcomes and throttled time of both runs against the prediction
__main__      `make what-if MINUTES=60`
test_what_if  a short run
"""
