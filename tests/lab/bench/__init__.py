"""What the proxy costs: CPU per request and per GiB, memory and CPU per connection (`make bench`).

own_cluster measures a cluster of one's own as its clients see it (`--bootstrap`).
"""
