"""What is written down about each thing that happened: one record, and its encoding.

record   the record's fields and its line of JSON (CloudEvents 1.0)
chain    the hash that ties each line to the one before
events   a constructor for each event, with its fields and its class
classes  the classes of events, which are kept by a policy each
noise    a rate for the records that one principal can cause
shares   how much of the spool each class may take
"""
