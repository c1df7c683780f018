"""The same requests at a Kafka broker and at Penstock: what all comparisons of the two stand on.

dialogue  one connection in raw sockets: requests, and what comes of each
steps     a client's part of a connection as data, logins above all; plays it at both sides at once
guarded   a broker with StandardAuthorizer
sides     that broker, and Penstock before a plain one, with the same users
"""
