"""The differential test: a Kafka broker with StandardAuthorizer beside Penstock before a plain broker.

Both get the same topics, groups and ACLs and the same requests of the same users; their responses are
compared field by field. `make differential` runs it for long, `test_differential` a little of it with all
tests. The two sides are in tests.lab.side_by_side.

    naming      the names that cases use             staging     a side's state before and after a case
    rights      random sets of ACLs                  families    what each API is about
    filling     random requests out of the schemas, with values (choice) by field and adjusting for whole ones
    cases       a case out of a seed and a number    planning    the cases of a run
    checking    the requests of admin after a case
    comparing   two responses -> differences, without what ignoring names; known: those that are explained
    envelopes   the same cases at the controllers    envelope_faults  Envelopes that are at fault themselves
    running     sends cases to both sides            __main__    the long run, and one case again
    logins      lists of steps of logins, re-authentications and bad input; not random
    java/       calls each method of Kafka's Admin
"""
