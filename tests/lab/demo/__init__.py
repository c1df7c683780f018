"""`make demo`: Penstock on loopback before one or three real brokers, and a story that is played on it.

stage, steps, story, trail        what is played, and what each step must show
description                       the file that describes the running stack
directory, supervision, __main__  the command itself
"""
