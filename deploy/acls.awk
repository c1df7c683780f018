# Reads the output of `kafka-acls.sh --list` and prints commands that add the same ACLs elsewhere; see docs/guide.md.
#
# Prints one command for each resource, principal, host and permission, with all its operations; with `-v single=1` one for
# each ACL, so that two sorted lists can be compared. A line that cannot be parsed is an error: an omitted ACL could be a DENY.

function fail(what) {
    printf "acls.awk: line %d cannot be parsed: %s\n", NR, what > "/dev/stderr"
    failed = 1
    exit 1
}

# Quotes everything, because names may contain blanks, `*` and `$`.
function quoted(text) {
    gsub(/'/, "'\\''", text)
    return "'" text "'"
}

function camel(name,    words, count, i, result) {
    count = split(tolower(name), words, "_")
    for (i = 1; i <= count; i++) result = result toupper(substr(words[i], 1, 1)) substr(words[i], 2)
    return result
}

function flush(    key, i) {
    for (i = 1; i <= seen; i++) {
        key = order[i]
        print "$KAFKA_ACLS --add " key operations[key]
    }
    split("", operations); split("", order); seen = 0
}

/^Current ACLs for resource `ResourcePattern\(/ {
    flush()
    type = $0; sub(/^.*ResourcePattern\(resourceType=/, "", type)
    name = type; pattern = type
    sub(/, name=.*$/, "", type)
    sub(/^[A-Z_]*, name=/, "", name); sub(/, patternType=[A-Z]*\)`: *$/, "", name)
    sub(/^.*, patternType=/, "", pattern); sub(/\)`: *$/, "", pattern)
    if (type == "TOPIC") option = "--topic " quoted(name)
    else if (type == "GROUP") option = "--group " quoted(name)
    else if (type == "CLUSTER") option = "--cluster"
    else if (type == "TRANSACTIONAL_ID") option = "--transactional-id " quoted(name)
    else if (type == "DELEGATION_TOKEN") option = "--delegation-token " quoted(name)
    else if (type == "USER") option = "--user-principal " quoted(name)
    else fail($0)
    if (pattern == "PREFIXED") option = option " --resource-pattern-type prefixed"
    else if (pattern != "LITERAL") fail($0)
    next
}

/^[ \t]+\(principal=.*\)[ \t]*$/ {
    if (option == "") fail($0)
    line = $0
    sub(/^[ \t]+\(principal=/, "", line); sub(/\)[ \t]*$/, "", line)
    permission = line; sub(/^.*, permissionType=/, "", permission)
    sub(/, permissionType=[A-Z]*$/, "", line)
    operation = line; sub(/^.*, operation=/, "", operation)
    sub(/, operation=[A-Z_]*$/, "", line)
    host = line; sub(/^.*, host=/, "", host)
    principal = line; sub(/, host=[^ ]*$/, "", principal)
    if (permission == "ALLOW") who = "--allow-principal " quoted(principal) " --allow-host " quoted(host)
    else if (permission == "DENY") who = "--deny-principal " quoted(principal) " --deny-host " quoted(host)
    else fail($0)
    if (operation !~ /^[A-Z_]+$/) fail($0)
    key = option " " who
    if (single) key = key " --operation " camel(operation)
    if (!(key in operations)) order[++seen] = key
    if (single) next
    operations[key] = operations[key] " --operation " camel(operation)
    next
}

# With --principal the output begins with this line.
/^ACLs for principal `/ { next }

NF { fail($0) }

END { if (!failed) flush() }
