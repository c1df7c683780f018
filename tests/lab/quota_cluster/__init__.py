"""A simulation of one quota for the whole cluster, in virtual time: real members, real bytes, no sockets.

world      proxies, their clocks and clients, and the channel between them
figures    the scenarios of docs/quotas.md and what they measure
plot       the picture of a run
"""
