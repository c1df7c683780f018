"""Produce and Fetch.

fast_lane         requests and responses that pass without being decoded
produce           decoded Produce requests, and responses to all of them
fetch             what all Fetch requests have in common, decoded or not
"""
