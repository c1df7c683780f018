"""What a proposed change of policy, or of brokers, would do to recorded traffic.

It reads the tables of the trail, and writes none.

proposed_log     the metadata log as it would be with the proposal
traffic          the recorded decisions and summaries that are decided again
access           who would be newly denied or allowed
throttling       who would be throttled, when and for how long
summaries        the recorded decisions of days, stored for the next proposal
recorded         all of this that is read once, for any number of proposals
sessions         who would have to re-authenticate
answers          what the logic says can change, and what a candidate saw
result           all of these as one document
page             the document as an HTML page
broker_release   who uses versions of APIs that another release of brokers does not speak
"""
