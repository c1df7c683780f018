"""`penstock shell`: shows the metadata log as a tree of paths, as of one offset (KIP-801). It only reads.

source     reads the log that `--log` names into an image
walk       ls, cat, find and tree, as lines or as JSON
run        the command
"""
