"""Produce and Fetch.

fast_lane         requests and responses that pass without being decoded
produce_template  how the last Produce request that streamed began
produce           decoded Produce requests, and responses to all of them
fetch             Fetch requests in which something is denied, and what all of them have in common
"""
