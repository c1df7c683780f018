-- The views of docs/sql.md, which `penstock audit sql` prints. {audit}, {metadata_log} and {found} are tables,
-- {schema} is where the views are, {acl} and {quota} are the types of two records of the metadata log.
CREATE SCHEMA IF NOT EXISTS {schema};

CREATE OR REPLACE VIEW {schema}.records
COMMENT 'The audit records, each once (its first copy in Kafka), with their time. Name a date: a day is a partition' AS
SELECT timestamp_millis(time_ms) AS time, * EXCEPT (copy) FROM (
  SELECT *, row_number() OVER (PARTITION BY date, proxy_id, boot_id, sequence ORDER BY kafka_partition, kafka_offset) AS copy
  FROM {audit}
) WHERE copy = 1;

CREATE OR REPLACE VIEW {schema}.admin_changes
COMMENT 'Administrative requests, a row for each object: its outcome (error NONE: done), or what was attempted' AS
WITH named AS (
  SELECT *, row_number() OVER (PARTITION BY date, proxy_id, boot_id, connection_id, correlation_id, method, event,
    error_code IS NULL AND event = 'admin_request' ORDER BY sequence) AS nth
  FROM {schema}.records WHERE objects IS NOT NULL
),
outcomes AS (
  -- A client may use a correlation id again: the n-th such request has the n-th response.
  SELECT * FROM named AS r
  WHERE NOT (event = 'admin_request' AND error_code IS NULL AND EXISTS (
    SELECT 1 FROM named AS later
    WHERE later.event = 'broker_responded' AND later.sequence > r.sequence AND later.nth = r.nth
      AND later.proxy_id = r.proxy_id AND later.boot_id = r.boot_id AND later.method = r.method
      AND later.connection_id = r.connection_id AND later.correlation_id = r.correlation_id
  )) AND NOT (event = 'forwarded_received' AND EXISTS (
    SELECT 1 FROM named AS told WHERE told.event = 'forwarded' AND told.forward_id = r.forward_id
  ))
)
SELECT date, time, principal, host, client_id, method, object.type AS object_type, object.name AS object_name,
  object.operation, object.key, object.old_value, object.new_value, object.error, object.error_message,
  object.details, coalesce(object.count, 1L) AS objects, event, proxy_id, boot_id, sequence
FROM (SELECT *, explode(objects) AS object FROM (SELECT * FROM outcomes));

CREATE OR REPLACE VIEW {schema}.denials
COMMENT 'What the ACLs denied: `requests` of a principal for a resource' AS
SELECT date, time, principal, host, client_id, listener, method, operation, resource_type, resource_name, rule,
  acl_id, metadata_offset, coalesce(count, 1L) AS requests, role, proxy_id, boot_id, sequence
FROM {schema}.records
WHERE event IN ('authorization', 'authorization_collapsed') AND NOT granted;

CREATE OR REPLACE VIEW {schema}.logins
COMMENT 'Logins and re-authentications, with those that failed; `attempts` is more than 1 where they were added up' AS
SELECT date, time, principal, host, listener, mechanism, event LIKE 're%' AS is_reauthentication,
  event IN ('authentication', 'reauthentication') AS succeeded, coalesce(count, 1L) AS attempts, message,
  error_code, client_software, groups, session_lifetime_ms, connection_id, proxy_id, boot_id, sequence
FROM {schema}.records
WHERE event LIKE 'authentication%' OR event LIKE 'reauthentication%';

CREATE OR REPLACE VIEW {schema}.sessions
COMMENT 'Each connection on each day: who, with what, how much, and what ended it (null: the client, or not yet)' AS
SELECT date, proxy_id, boot_id, connection_id, any_value(listener, true) AS listener,
  any_value(host, true) AS host, max_by(principal, sequence) FILTER (WHERE principal IS NOT NULL) AS principal,
  any_value(mechanism, true) AS mechanism,
  max_by(client_software, sequence) FILTER (WHERE client_software IS NOT NULL) AS client_software,
  min(time) AS first_seen, max(time) AS last_seen,
  count_if(event = 'authentication') AS logins, count_if(event = 'reauthentication') AS reauthentications,
  sum(CASE WHEN decided AND granted THEN requests ELSE 0 END) AS allowed,
  sum(CASE WHEN decided AND NOT granted THEN requests ELSE 0 END) AS denied,
  coalesce(sum(request_bytes) FILTER (WHERE decided), 0) AS request_bytes,
  coalesce(sum(response_bytes) FILTER (WHERE decided), 0) AS response_bytes,
  max_by(event, sequence) FILTER (WHERE event LIKE 'session%') AS ended_by
FROM (SELECT *, event LIKE 'authorization%' AS decided, coalesce(count, 1L) AS requests FROM {schema}.records)
WHERE role = 'proxy' AND connection_id IS NOT NULL
GROUP BY date, proxy_id, boot_id, connection_id;

CREATE OR REPLACE VIEW {schema}.quota_use
COMMENT 'What clients used of what quotas limit, in stretches of ten minutes. `quota_limit` and `quota_id` are null where no record names them: of bytes, where nobody was throttled' AS
SELECT date, timestamp_millis(div(began_ms, 600000L) * 600000L) AS ten_minutes, quota_key,
  coalesce(principal, 'User:ANONYMOUS') AS principal, client_id, max(quota_id) AS quota_id,
  max(quota_limit) AS quota_limit,
  CASE quota_key WHEN 'request_percentage' THEN 'us of an event loop'
    WHEN 'controller_mutation_rate' THEN 'partition changes' ELSE 'bytes' END AS unit,
  sum(CASE WHEN event = 'throttled' THEN 0 WHEN event = 'quota_used' THEN count
    WHEN method = 'Produce' THEN request_bytes ELSE response_bytes END) AS used,
  sum(CASE WHEN event = 'throttled' THEN coalesce(count, 1L) ELSE 0 END) AS throttled,
  coalesce(max(CASE WHEN event = 'throttled' THEN throttle_time_ms END), 0) AS longest_throttle_ms
FROM (
  SELECT * EXCEPT (quota_key), coalesce(interval_start_ms, time_ms) AS began_ms, coalesce(quota_key,
    CASE method WHEN 'Produce' THEN 'producer_byte_rate' ELSE 'consumer_byte_rate' END) AS quota_key
  FROM {schema}.records
  WHERE event IN ('quota_used', 'throttled')
    OR (event = 'authorization_summary' AND method IN ('Produce', 'Fetch', 'ShareFetch'))
)
GROUP BY date, div(began_ms, 600000L), quota_key, principal, client_id;

CREATE OR REPLACE VIEW {schema}.policy
COMMENT 'ACLs and quotas, each with the offsets of the metadata log between which it was in effect: from_offset counts, to_offset does not (null: still in effect). Signatures are not verified' AS
WITH log AS (
  SELECT *, last(mark, true) OVER (ORDER BY `offset`) AS opened, first(mark, true) OVER (
    ORDER BY `offset` ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS closed
  -- Only Kafka's own log has transactions of metadata: in the topic of controllers anybody may have added a mark.
  FROM (SELECT *, CASE WHEN NOT from_snapshot AND api_key IN (23, 24, 25) THEN api_key END AS mark FROM {metadata_log})
),
in_effect AS (
  SELECT * FROM log
  WHERE coalesce(from_snapshot, true) OR coalesce(opened, 24) <> 23 OR coalesce(closed, 25) = 24
),
changes AS (
  SELECT 'ACL' AS kind, body.id AS id, api_key = 18 AS sets, body.permission_type, body.principal, body.host,
    body.operation, body.resource_type, body.resource_name, body.pattern_type,
    timestamp_millis(body.until_ms) AS until, CAST(NULL AS STRING) AS entity, CAST(NULL AS STRING) AS quota_key,
    CAST(NULL AS DOUBLE) AS quota_limit, `offset`, `timestamp`
  FROM (SELECT * EXCEPT (body), from_json(body, '{acl}') AS body FROM in_effect WHERE api_key IN (18, 19))
  UNION ALL
  SELECT 'QUOTA', concat(path, ' ', body.key), NOT coalesce(body.remove, false), NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, path, body.key, body.value, `offset`, `timestamp`
  FROM (
    SELECT *, array_join(transform(array_sort(map_keys(body.entity)),
      part -> concat(part, coalesce(concat('=', body.entity[part]), ''))), ',') AS path
    FROM (SELECT * EXCEPT (body), from_json(body, '{quota}') AS body FROM in_effect WHERE api_key = 14)
  )
)
SELECT * EXCEPT (sets, `offset`, `timestamp`), `offset` AS from_offset, `timestamp` AS from_time
FROM (
  SELECT *, lead(`offset`) OVER (PARTITION BY kind, id ORDER BY `offset`) AS to_offset,
    lead(`timestamp`) OVER (PARTITION BY kind, id ORDER BY `offset`) AS to_time
  FROM changes
) WHERE sets;

CREATE OR REPLACE VIEW {schema}.findings
COMMENT 'The findings of all reconciliations. One is open until it is acknowledged' AS
SELECT *, acknowledged IS NULL AS is_open FROM {found};

CREATE OR REPLACE FUNCTION {schema}.policy_at(metadata_offset BIGINT)
RETURNS TABLE
COMMENT 'The ACLs and quotas in effect at an offset of the metadata log, such as metadata_offset of a denial'
RETURN SELECT * FROM {schema}.policy
WHERE from_offset <= policy_at.metadata_offset AND coalesce(policy_at.metadata_offset < to_offset, true);
