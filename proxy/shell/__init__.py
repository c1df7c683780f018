"""`penstock shell`: the metadata log as a tree of paths, at one offset of it (KIP-801). Changes nothing.

log_file   a segment, a snapshot or a directory of them -> the steps of the log
source     from where `--log` says -> the image and what there is to say about it
walk       ls, cat, find, tree: a tree and a path -> what is there, as lines or as JSON
prompt     the same, asked for line by line
run        the command
"""
