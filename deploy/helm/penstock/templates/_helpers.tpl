{{/* repository@digest if there is a digest, else repository:tag, by default of the chart's appVersion.
     Arguments: the root context and an image. */}}
{{- define "penstock.image" -}}
{{- $image := index . 1 -}}
{{- if $image.digest }}{{ $image.repository }}@{{ $image.digest }}
{{- else }}{{ $image.repository }}:{{ $image.tag | default (index . 0).Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "penstock.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "penstock.fullname" -}}
{{- $name := include "penstock.name" . -}}
{{- $full := .Values.fullnameOverride | default (contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name)) | trunc 40 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $full) }}{{ fail (printf "no Service can be called %q: set fullnameOverride to a name of small letters, digits and dashes that begins with a letter" $full) }}{{ end }}
{{- $full }}
{{- end }}

{{/* What selectors select by; they cannot be changed later. Arguments: the root context and a component: proxy, broker (with its
     proxy), controller, audit. */}}
{{- define "penstock.selector" -}}
app.kubernetes.io/name: {{ include "penstock.name" (index . 0) }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "penstock.labels" -}}
{{ include "penstock.selector" . }}
{{- with index . 0 }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}
{{- end }}

{{- define "penstock.account" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "penstock.fullname" .) }}
{{- else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- define "penstock.controller" -}}
{{ include "penstock.fullname" . }}-controller
{{- end }}

{{/* The StatefulSet whose pods have the proxies, its headless Service, and the labels of its pods. */}}
{{- define "penstock.proxy.set" -}}
{{- if eq .Values.mode "bundled" }}{{ .Values.brokers.name }}
{{- else if eq .Values.mode "sidecar" }}{{ .Values.sidecar.statefulSet }}
{{- else }}{{ include "penstock.fullname" . }}-proxy{{ end }}
{{- end }}

{{- define "penstock.proxy.service" -}}
{{- if eq .Values.mode "sidecar" }}{{ .Values.sidecar.serviceName }}{{ else }}{{ include "penstock.proxy.set" . }}{{ end }}
{{- end }}

{{- define "penstock.proxy.component" -}}
{{ eq .Values.mode "bundled" | ternary "broker" "proxy" }}
{{- end }}

{{- define "penstock.proxy.selector" -}}
{{- if eq .Values.mode "sidecar" }}{{ toYaml .Values.sidecar.podLabels }}
{{- else }}{{ include "penstock.selector" (list . (include "penstock.proxy.component" .)) }}{{ end }}
{{- end }}

{{/* The proxies, as the list `proxies`: `pod`, the node `id` of the broker behind it, the `address` of that broker if it is known,
     `external`, the host and port that clients outside connect to, and `host`, that host if it is a name. */}}
{{- define "penstock.proxies" -}}
{{- $set := include "penstock.proxy.set" . }}{{- $brokers := .Values.cluster.brokers }}
{{- if eq .Values.mode "bundled" }}
{{- $brokers = list }}
{{- range $id := until (int .Values.brokers.replicas) }}
{{- $brokers = append $brokers (dict "id" $id "address" (printf "%s-%d.%s:9091" $set $id $set)) }}
{{- end }}
{{- end }}
{{- if not $brokers }}
{{- fail "cluster.brokers is empty: list the node ids of your brokers, [{id: 0}, {id: 1}], and set cluster.bootstrap; for a demo with brokers of its own set mode: bundled" }}
{{- end }}
{{- $seen := list }}
{{- range $brokers }}
{{- if not (or .address $.Values.cluster.bootstrap) }}
{{- fail (printf "cluster.brokers: the broker %v has no address: add it, or set cluster.bootstrap, where its proxy asks for it" .id) }}
{{- end }}
{{- if or (has .id $seen) (and .address (has .address $seen)) }}
{{- fail (printf "cluster.brokers has two entries with the id %v or the address %s: list each broker once, with its node id" .id (.address | default "none")) }}
{{- end }}
{{- $seen = concat $seen (list .id .address) }}
{{- end }}
{{- with .Values.external }}
{{- if and (contains "{nodeIP}" .host) (has .type (list "LoadBalancer" "TLSRoute" "Ingress")) }}
{{- fail (printf "external.host has {nodeIP}, the address of a node: with external.type %s clients connect to another one; set a name, \"broker-{id}.kafka.example.org\"" .type) }}
{{- end }}
{{- if and (contains "{nodeIP}" .host) (eq .trafficPolicy "Local") }}
{{- fail "external.trafficPolicy is Local: with {nodeIP} in external.host a proxy advertises the ports of all brokers at its own node, which would accept no connection for the proxies on other nodes; set Cluster" }}
{{- end }}
{{- if and .host (has .type (list "LoadBalancer" "TLSRoute" "Ingress")) (not (contains "{id}" .host)) (gt (len $brokers) 1) }}
{{- fail (printf "external.host has no {id}: all proxies would be %s, and a client could not reach each of them; set it to \"broker-{id}.%s\"" .host .host) }}
{{- end }}
{{- end -}}
proxies:
{{- range $index, $broker := $brokers }}
{{- $id := toJson $broker.id }}
  - pod: {{ $set }}-{{ $index }}
    # As text: templates write numbers from a million on as 1e+06.
    id: {{ $id | quote }}
    address: {{ $broker.address | quote }}
{{- if $.Values.external.type }}
{{- $host := required "external.host is empty: the name of each proxy, as in \"broker-{id}.kafka.example.org\"" $.Values.external.host | replace "{id}" $id | replace "{nodeIP}" "${NODE_IP}" }}
    host: {{ contains "{nodeIP}" $.Values.external.host | ternary "" $host | quote }}
    external: "{{ $host }}:{{ include "penstock.external.port" (list $ $index) }}"
{{- end }}
{{- end }}
{{- end }}

{{/* The port that clients outside connect to. Arguments: the root context and the number of the proxy. */}}
{{- define "penstock.external.port" -}}
{{- $external := (index . 0).Values.external }}
{{- if eq $external.type "NodePort" }}{{ add (int $external.nodePort) 1 (index . 1) }}
{{- else if $external.port }}{{ int $external.port }}
{{- else }}{{ eq $external.type "LoadBalancer" | ternary 9093 443 }}{{ end }}
{{- end }}

{{/* How proxies and controllers log in at the brokers. Arguments: the root context, and the user of the bundled brokers. */}}
{{- define "penstock.cluster.login" -}}
{{- $cluster := (index . 0).Values.cluster }}
{{- if eq (index . 0).Values.mode "bundled" -}}
security.protocol: SASL_PLAINTEXT
sasl: {mechanism: PLAIN, username: {{ index . 1 }}, password.file: secrets/broker.password}
{{- else -}}
security.protocol: {{ $cluster.securityProtocol }}
{{- if hasPrefix "SASL" $cluster.securityProtocol }}
sasl: {mechanism: {{ $cluster.saslMechanism }}, username: {{ $cluster.username | quote }}, password.file: secrets/broker.password}
{{- end }}
{{- if $cluster.caSecret.key }}
ssl: {ca: secrets/brokers-ca.crt}
{{- end }}
{{- end }}
{{- end }}

{{/* proxy.yaml of one proxy: the keys of the chart, overridden by those of proxy.config.
     Arguments: the root context, the proxies, and one of them. */}}
{{- define "penstock.proxy.config" -}}
{{- $root := index . 0 }}{{- $proxy := index . 2 }}{{- $domain := printf "%s.%s.svc" (include "penstock.proxy.service" $root) $root.Release.Namespace }}
{{- with $root -}}
proxy.id: proxy-@ID@
listeners:
  - name: SASL_SSL
    bind: 0.0.0.0:9093
    advertised: "@NAME@.{{ $domain }}:9093"
    {{- include "penstock.listener" . | nindent 4 }}
{{- if .Values.external.type }}
  - name: EXTERNAL
    bind: 0.0.0.0:9096
    advertised: {{ $proxy.external | quote }}
    {{- include "penstock.listener" . | nindent 4 }}
{{- with .Values.external.proxyProtocolNetworks }}
    proxy.protocol.networks: {{ toJson . }}
{{- end }}
{{- end }}
users.file: {{ if .Values.proxy.usersSecret }}/etc/penstock-users/users.yaml{{ else }}/etc/penstock/users.yaml{{ end }}
upstream:
{{- with $proxy.address }}
  bootstrap: {{ . | quote }}
{{- end }}
{{- if and .Values.cluster.bootstrap (ne .Values.mode "bundled") }}
  internal.bootstrap: {{ .Values.cluster.bootstrap | quote }}
{{- end }}
  node.id: {{ $proxy.id }}
  {{- include "penstock.cluster.login" (list . "penstock-proxy") | nindent 2 }}
  advertised.brokers:
{{- range index $ 1 }}
    "{{ .id }}": {SASL_SSL: "{{ .pod }}.{{ $domain }}:9093"{{ with .external }}, EXTERNAL: {{ . | quote }}{{ end }}}
{{- end }}
{{- if .Values.controller.enabled }}
controller:
  mode: penstock
  endpoints:
{{- range $number := until (int .Values.controller.replicas) }}
    - {{ include "penstock.controller" $root }}-{{ $number }}.{{ include "penstock.controller" $root }}.{{ $root.Release.Namespace }}.svc:9094
{{- end }}
  security.protocol: SASL_SSL
  sasl: {mechanism: PLAIN, username: proxy-@ID@, password.file: secrets/controller.password}
  ssl: {ca: secrets/ca.crt}
{{- if .Values.signing.enabled }}
metadata: {public.keys.file: secrets/controllers.pub}
{{- end }}
{{- end }}
authorizer:
  class.name: StandardAuthorizer
  super.users: User:admin
{{- if .Values.policy.candidate }}
  candidate: /etc/penstock/candidate.yaml
{{- end }}
{{- if and .Values.policy.assertions (not .Values.controller.enabled) }}
policy: {assertions: /etc/penstock/assertions.txt}
{{- end }}
audit: {spool.dir: /var/lib/penstock/spool}
limits: {drain.timeout.ms: 30000}
http: {{- include "penstock.http.config" (list . "proxy") | nindent 2 }}
{{- end }}
{{- end }}

{{- define "penstock.listener" -}}
security.protocol: SASL_SSL
sasl.enabled.mechanisms: [PLAIN, SCRAM-SHA-256, SCRAM-SHA-512]
connections.max.reauth.ms: 3600000
ssl: {certificate: secrets/proxy.crt, key: secrets/proxy.key}
{{- end }}

{{/* Arguments: the root context and the proxies. */}}
{{- define "penstock.controller.config" -}}
{{- $proxies := index . 1 }}
{{- with index . 0 -}}
controller.id: "@NAME@"
listener:
  name: CONTROLLER
  bind: 0.0.0.0:9094
  security.protocol: SASL_SSL
  sasl.enabled.mechanisms: [PLAIN]
  ssl: {certificate: secrets/controller.crt, key: secrets/controller.key}
users.file: /etc/penstock/controller-users.yaml
broker:
{{- if eq .Values.mode "bundled" }}
  bootstrap: {{ .Values.brokers.name }}:9091
{{- else if .Values.cluster.bootstrap }}
  bootstrap: {{ .Values.cluster.bootstrap | quote }}
{{- else }}
  bootstrap: {{ range $index, $proxy := $proxies }}{{ if $index }},{{ end }}{{ $proxy.address }}{{ end }}
{{- end }}
  {{- include "penstock.cluster.login" (list . "penstock-controller") | nindent 2 }}
metadata:
  topic: __penstock_metadata
  transactional.id: penstock-controller
{{- if .Values.signing.enabled }}
  signing.key.file: secrets/signing.key
  public.keys.file: secrets/controllers.pub
{{- end }}
authorizer:
  class.name: StandardAuthorizer
  super.users: User:admin{{ range $proxies }};User:proxy-{{ .id }}{{ end }}
{{- if .Values.policy.assertions }}
policy: {assertions: /etc/penstock/assertions.txt}
{{- end }}
audit: {spool.dir: /var/lib/penstock/spool}
http: {{- include "penstock.http.config" (list . "controller") | nindent 2 }}
{{- end }}
{{- end }}

{{/* A file as its pod mounts it. Arguments: its keys, the name of the pod, and the node id of a proxy's broker. A symbolic link leads
     to a mounted file, so that paths relative to the file would end with the next change of the volume. */}}
{{- define "penstock.mounted" -}}
{{ index . 0 | toYaml | replace ": secrets/" ": /etc/penstock/secrets/" | replace "@NAME@" (index . 1) | replace "@ID@" (toString (index . 2)) }}
{{- end }}

{{/* Changes with the values of keys that need a restart, and only with these. Arguments: the root context, `proxy` or
     `controller`, and the keys of its file. */}}
{{- define "penstock.restarts" -}}
{{- $config := index . 2 }}{{- $found := list }}
{{- range index ((index . 0).Files.Get "files/restart-keys.yaml" | fromYaml) (index . 1) }}
{{- $value := $config }}
{{- range . }}
{{- if kindIs "map" $value }}{{- $value = get $value . }}{{- else }}{{- $value = "" }}{{- end }}
{{- end }}
{{- $found = append $found $value }}
{{- end }}
{{- toJson $found | sha256sum }}
{{- end }}

{{/* The HTTP port. Arguments: the root context and "proxy" or "controller". */}}
{{- define "penstock.http.config" -}}
{{- $root := index . 0 }}{{ $process := index . 1 -}}
bind: 0.0.0.0:9190
{{- if eq $root.Values.http.authentication "token" }}
ssl: {certificate: secrets/{{ $process }}.crt, key: secrets/{{ $process }}.key}
bearer.token.file: secrets/http.token
{{- else }}
ssl: {certificate: secrets/{{ $process }}.crt, key: secrets/{{ $process }}.key, ca: secrets/monitoring-ca.crt}
{{- end }}
{{- end }}

{{/* The credentials of a PodMonitor or ServiceMonitor. Arguments: the root context, "proxy" or "controller", and the names of its
     StatefulSet and Service. Prometheus connects to pods by their addresses, and all of them show one certificate: it is checked
     by the name of the first. */}}
{{- define "penstock.monitor.access" -}}
{{- $root := index . 0 }}{{ $process := index . 1 }}{{ $client := $root.Values.http.clientSecret -}}
scheme: https
{{- if eq $root.Values.http.authentication "token" }}
authorization:
  type: Bearer
  credentials:
    name: {{ $root.Values.http.tokenSecret.name | default $root.Values.secretName }}
    key: {{ $root.Values.http.tokenSecret.key }}
{{- end }}
tlsConfig:
  serverName: {{ index . 2 }}-0.{{ index . 3 }}.{{ $root.Release.Namespace }}.svc
  ca:
    secret:
      name: {{ include "penstock.certificate" (list $root $process) }}
      key: ca.crt
{{- if eq $root.Values.http.authentication "certificate" }}
  cert: {secret: {name: {{ $client.name }}, key: {{ $client.certificate }}}}
  keySecret: {name: {{ $client.name }}, key: {{ $client.key }}}
{{- end }}
{{- end }}

{{- define "penstock.server.properties" -}}
{{- $name := .Values.brokers.name }}
{{- $voters := list }}
{{- range $id := until (int .Values.brokers.replicas) }}
{{- $voters = append $voters (printf "%d@%s-%d.%s:9095" $id $name $id $name) }}
{{- end }}
process.roles: broker,controller
node.id: "@ID@"
controller.quorum.voters: {{ join "," $voters }}
listeners: BROKER://:9091,CONTROLLER://:9095
advertised.listeners: BROKER://@NAME@.{{ $name }}:9091
listener.security.protocol.map: BROKER:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
inter.broker.listener.name: BROKER
controller.listener.names: CONTROLLER
sasl.enabled.mechanisms: PLAIN
sasl.mechanism.inter.broker.protocol: PLAIN
sasl.mechanism.controller.protocol: PLAIN
log.dirs: /var/lib/kafka/data
auto.create.topics.enable: "false"
min.insync.replicas: {{ min 2 (int .Values.brokers.replicas) | quote }}
{{- end }}

{{/* A container that can write only to its volumes. */}}
{{- define "penstock.locked" -}}
runAsUser: 10001
runAsNonRoot: true
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
{{- end }}

{{- define "penstock.pod.security" -}}
runAsNonRoot: true
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* The Secret with a process's certificate. Arguments: the root context and "proxy" or "controller". */}}
{{- define "penstock.certificate" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.certManager.enabled }}{{ include "penstock.fullname" $root }}-{{ index . 1 }}-tls{{ else }}{{ $root.Values.secretName }}{{ end }}
{{- end }}

{{- define "penstock.claim" -}}
accessModes: [ReadWriteOnce]
{{- with .storageClassName }}
storageClassName: {{ . }}
{{- end }}
resources: {requests: {storage: {{ .size }}}}
{{- end }}
