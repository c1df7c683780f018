"""A client's request: handled by the proxy itself, or decoded, decided, and turned into a plan.

handshake       ApiVersions, SASL, and requests that come when they must not
upstream_login  the proxy's own session at the broker, renewed on the client's connection
dispatch        a whole frame -> rejected, or its API's row decides -> the plan
too_large       a request larger than the limits -> the response in which it fails
verdicts        a verdict -> the plan that carries it out; records of requests that need no right
fetch_handler   a decoded Fetch -> its plan
forwarding      administrative requests on their way to the controller and back
queries         requests of the proxy's own to the broker; topic ids without a name
termination     sessions that end without a request
"""
