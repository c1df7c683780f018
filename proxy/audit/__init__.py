"""Audit records: what is recorded of each event, and its encoding.

record   the record's fields and its line of JSON (CloudEvents 1.0)
chain    the hash that ties each line to the one before
checkpoints  signed notes of how far a trail goes (C2SP), and their signatures
events   a constructor for each event, with its fields and its class
classes  the classes of events, each with its own policy and its share of the room
same_id  which processes run under one proxy.id at the same time
witnesses  which other processes a process witnesses, with Kafka's own controller
noise    limits the rate of records that one principal can cause
"""
