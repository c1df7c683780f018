"""One file per API (or family of one request shape): the KIP, the ACL it needs, what is filtered and merged.

`table` lists them all; an API that is not in the table is refused.
"""
