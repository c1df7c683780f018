"""Every client through the proxy and, for comparison, straight at a broker with StandardAuthorizer.

hidden_topics       requests of all APIs that name a topic, and answers with that name taken out
test_hidden_topics  whoever may not see a topic cannot learn that it exists, on any API at any version
"""
