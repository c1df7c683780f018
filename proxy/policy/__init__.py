"""What a policy decides about all requests there can be (SPEC D18, decision 0144).

names        sets of resource names, of literal names and prefixes
hosts        sets of client addresses, of networks
policy       an authorizer with its ACLs and settings, as far as requests can differ by them
differences  the regions of requests that two policies decide differently
assertions   what a policy has to allow or deny, proved or refuted
together     who may do all operations on a resource, in any groups
useless      ACLs without which every request is decided as with them
"""
