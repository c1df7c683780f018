"""Produce and Fetch.

fast_lane         requests and responses that pass without being decoded
produce           decoded Produce requests, and responses to all of them
fetch             Fetch requests in which something is denied, and what all of them have in common
"""
