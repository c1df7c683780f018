"""`penstock shell`: shows the metadata log as a tree of paths, as of one offset (KIP-801). It only reads.

log_file   reads a segment, a snapshot or a directory of them
source     reads the log that `--log` names into an image
walk       ls, cat, find and tree, as lines or as JSON
prompt     the interactive session
run        the command
"""
