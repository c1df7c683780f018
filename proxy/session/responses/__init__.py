"""The broker's responses.

responses  bytes of the broker -> plans: what streams, what is held until it is whole
rewriting  a whole response -> what the client gets
"""
