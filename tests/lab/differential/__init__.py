"""The differential test: a Kafka broker with StandardAuthorizer beside Penstock before a plain broker.

Both get the same topics, groups and ACLs and the same requests of the same users; their answers are compared
field by field. `make differential` runs it for long, `test_differential` a little of it with all tests.

    sides       the two sides as real processes      dialogue    one client connection, in raw sockets
    naming      the names that cases speak of        staging     a side's state before and after a case
    rights      random sets of ACLs                  families    what each API is about
    filling     random requests out of the schemas, with values (choice) by field and adjusting for whole ones
    cases       a case out of a seed and a number    planning    the cases of a run
    checking    what admin asks after a case
    comparing   two answers -> differences, without what ignoring names; known: those that are explained
    envelopes   the same cases at the controllers    envelope_faults  Envelopes that are at fault themselves
    running     puts cases to both sides             __main__    the long run, and one case again
"""
