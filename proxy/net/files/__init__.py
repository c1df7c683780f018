"""Files that are read again when they change.

watched_file       one file: its bytes go to a reader whenever they change
tls                PEM files -> ssl contexts, of listeners and of Penstock's own connections
certificates       one watch over all certificates and keys of a process; when they expire
authorizer_reload  an authorizer's files, and the decisions that sessions remember
"""
