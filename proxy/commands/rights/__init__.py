"""`penstock export`, `diff` and `apply`: a cluster's ACLs, quotas, SCRAM users and topic owners as a file.

run      the three commands: they return what proxy.__main__ prints
apply    the requests that make a cluster as the file says, and what came of them
cluster  reads the rights of a running cluster
file     reads and writes the YAML
changes  what differs, in words, as objects and as commands
"""
