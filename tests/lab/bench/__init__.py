"""What the proxy costs: CPU per request and per GiB, memory and CPU per connection (`make bench`)."""
