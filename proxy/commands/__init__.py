"""What the subcommands of `penstock` run; proxy.__main__ chooses, and prints what most of them return.

arguments           the subcommands and their arguments
run_proxy           one proxy: from its file, as a worker, or as the successor of a running proxy
check               what is wrong with a configuration file
connection_check    `check --connect`: what is wrong at brokers, controllers and identity providers
credential_check    `check --token`, `--certificate`: what a listener makes of a credential
proposal_check      `check --proposal`: what a proposed change of policy does
reload_and_restart  the commands to a running process
running             `connections`, `quotas`, `disconnect`: through the HTTP port of a running proxy
http_port           requests to the HTTP port of a running proxy
policy/             `policy`: what is proved about ACLs
rights/             `export`, `diff`, `apply`: ACLs, quotas, users and owners as a file
shell/              the metadata log as a tree of paths
init                example files to begin from
output              what a command prints, and what ends it early
plain               names as a terminal may show them
acl                 kafka-acls with ends of ACLs
acl_requests        ACLs on the wire, for `acl`, `policy` and `rights`
properties          the .properties file of a Kafka client
hash_password       the line of a PLAIN user for a users file
"""
