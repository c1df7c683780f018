"""What is written down about each thing that happened: one record, and its encoding.

record   the record's fields and its line of JSON (CloudEvents 1.0)
chain    the hash that ties each line to the one before
classes  which events are kept by which policy
noise    a rate for the records that one principal can cause
shares   how much of the spool each class may take
ocsf     the fields of the Open Cybersecurity Schema Framework
"""
