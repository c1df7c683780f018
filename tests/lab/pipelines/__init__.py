"""The same pipelining clients under the same quota at a Kafka broker and through Penstock before it.

`cases` are the rows, `clients` what runs in them, `place` where they run, `running` and `judging` the rest.
"""
