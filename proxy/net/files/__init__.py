"""Files that are reloaded when they change.

watched_file       one file: its bytes go to a reader whenever they change
tls                PEM files -> ssl contexts; all certificates of a process, and when they expire
authorizer_reload  reloads an authorizer's files, and forgets decisions that sessions remember
"""
