"""The commands `penstock policy ...`: what is proved about ACLs before they are changed.

run      the commands and what they print
sources  reads a policy: from a file, a log, or a cluster
"""
