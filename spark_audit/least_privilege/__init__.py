"""What a period of recorded traffic did not need: grants, users and limits. Reads the tables, writes none.

commands     the kafka-acls and kafka-configs lines for ACLs and quotas
narrowing    the narrower ACLs that a grant's recorded use would have needed
grants       grants that are not used, or wider than their use
limits       quotas that were never approached
people       principals without a grant that try, SCRAM users that do not log in
unseen       what the trail cannot see
result       all of these as one document, with the proposal and its what-if result
page         the document as an HTML page
"""
