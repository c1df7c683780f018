{{/* repository@digest if there is a digest, else repository:tag */}}
{{- define "penstock.image" -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag }}{{ end }}
{{- end }}

{{/* The labels of an object. Selectors use only `app`, because a selector cannot be changed later. */}}
{{- define "penstock.labels" -}}
app.kubernetes.io/part-of: penstock
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "penstock.controller" -}}
{{ .Release.Name }}-controller
{{- end }}

{{/* Every broker by its number, and the address of its proxy. */}}
{{- define "penstock.advertised" -}}
{{- $brokers := .Values.brokers.name }}
{{- range $id := until (int .Values.brokers.replicas) }}
{{ $id | quote }}: {SASL_SSL: "{{ $brokers }}-{{ $id }}.{{ $brokers }}.{{ $.Release.Namespace }}.svc:9093"}
{{- end }}
{{- end }}

{{/* proxy.yaml: the keys of the chart, overridden by those of proxy.config */}}
{{- define "penstock.proxy.config" -}}
proxy.id: proxy-@ID@
listeners:
  - name: SASL_SSL
    bind: 0.0.0.0:9093
    advertised: "@NAME@.{{ .Values.brokers.name }}.{{ .Release.Namespace }}.svc:9093"
    security.protocol: SASL_SSL
    sasl.enabled.mechanisms: [PLAIN, SCRAM-SHA-256, SCRAM-SHA-512]
    connections.max.reauth.ms: 3600000
    ssl: {certificate: secrets/proxy.crt, key: secrets/proxy.key}
users.file: users.yaml
upstream:
  bootstrap: "@NAME@.{{ .Values.brokers.name }}:9091"
  node.id: "@ID@"
  security.protocol: SASL_PLAINTEXT
  sasl: {mechanism: PLAIN, username: penstock-proxy, password.file: secrets/broker.password}
  advertised.brokers: {{- include "penstock.advertised" . | nindent 4 }}
{{- if .Values.controller.enabled }}
controller:
  mode: penstock
  endpoints:
{{- range $id := until (int .Values.controller.replicas) }}
    - {{ include "penstock.controller" $ }}-{{ $id }}.{{ include "penstock.controller" $ }}.{{ $.Release.Namespace }}.svc:9094
{{- end }}
  security.protocol: SASL_SSL
  sasl: {mechanism: PLAIN, username: proxy-@ID@, password.file: secrets/controller.password}
  ssl: {ca: secrets/ca.crt}
{{- if .Values.signing.enabled }}
metadata: {public.keys.file: secrets/controllers.pub}
{{- end }}
{{- end }}
authorizer:
  class.name: proxy.security.standard.StandardAuthorizer
  super.users: User:admin
audit: {spool.dir: /var/lib/penstock/spool}
limits: {drain.timeout.ms: 30000}
http: {{- include "penstock.http.config" (list . "proxy") | nindent 2 }}
{{- end }}

{{- define "penstock.controller.config" -}}
controller.id: "@NAME@"
listener:
  name: CONTROLLER
  bind: 0.0.0.0:9094
  security.protocol: SASL_SSL
  sasl.enabled.mechanisms: [PLAIN]
  ssl: {certificate: secrets/controller.crt, key: secrets/controller.key}
users.file: controller-users.yaml
broker:
  bootstrap: {{ .Values.brokers.name }}:9091
  security.protocol: SASL_PLAINTEXT
  sasl: {mechanism: PLAIN, username: penstock-controller, password.file: secrets/broker.password}
metadata:
  topic: __penstock_metadata
  transactional.id: penstock-controller
{{- if .Values.signing.enabled }}
  signing.key.file: secrets/signing.key
  public.keys.file: secrets/controllers.pub
{{- end }}
authorizer:
  class.name: proxy.security.standard.StandardAuthorizer
  super.users: User:admin{{ range $id := until (int .Values.brokers.replicas) }};User:proxy-{{ $id }}{{ end }}
audit: {spool.dir: /var/lib/penstock/spool}
http: {{- include "penstock.http.config" (list . "controller") | nindent 2 }}
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

{{/* The files to check credentials at the HTTP port; never a monitor's own key. */}}
{{- define "penstock.http.source" -}}
- secret:
{{- if eq .Values.http.authentication "token" }}
    name: {{ .Values.http.tokenSecret.name | default .Values.secretName }}
    items:
      - {key: {{ .Values.http.tokenSecret.key }}, path: http.token}
{{- else }}
    name: {{ .Values.http.clientSecret.name }}
    items:
      - {key: {{ .Values.http.clientSecret.ca }}, path: monitoring-ca.crt}
{{- end }}
{{- end }}

{{/* The credentials of a PodMonitor or ServiceMonitor. Arguments: the root context, "proxy" or "controller", and the name of its
     StatefulSet and Service. Prometheus connects to pods by their addresses, and all of them show one certificate: it is checked
     by the name of the first. */}}
{{- define "penstock.monitor.access" -}}
{{- $root := index . 0 }}{{ $process := index . 1 }}{{ $app := index . 2 }}{{ $client := $root.Values.http.clientSecret -}}
scheme: https
{{- if eq $root.Values.http.authentication "token" }}
authorization:
  type: Bearer
  credentials:
    name: {{ $root.Values.http.tokenSecret.name | default $root.Values.secretName }}
    key: {{ $root.Values.http.tokenSecret.key }}
{{- end }}
tlsConfig:
  serverName: {{ $app }}-0.{{ $app }}.{{ $root.Release.Namespace }}.svc
  ca:
    secret:
      name: {{ if $root.Values.certManager.enabled }}{{ $root.Release.Name }}-{{ $process }}-tls{{ else }}{{ $root.Values.secretName }}{{ end }}
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
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
{{- end }}

{{- define "penstock.pod.security" -}}
runAsNonRoot: true
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* The init container that writes the pod's name and number into the files. */}}
{{- define "penstock.configure" -}}
name: configure
image: {{ include "penstock.image" .Values.image }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
command: [sh, -euc]
args:
  - |
    for file in /templates/*/*; do
      sed -e "s/@NAME@/$POD_NAME/g" -e "s/@ID@/${POD_NAME##*-}/g" "$file" > "/rendered/${file##*/}"
    done
env:
  - name: POD_NAME
    valueFrom:
      fieldRef: {fieldPath: metadata.name}
securityContext: {{- include "penstock.locked" . | nindent 2 }}
resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}
{{- end }}

{{/* Certificate and key under the names in the configuration, from cert-manager's Secret or from secretName.
     Arguments: the root context and "proxy" or "controller". */}}
{{- define "penstock.certificate.source" -}}
{{- $root := index . 0 }}{{ $process := index . 1 -}}
- secret:
{{- if $root.Values.certManager.enabled }}
    name: {{ $root.Release.Name }}-{{ $process }}-tls
    items:
      - {key: tls.crt, path: {{ $process }}.crt}
      - {key: tls.key, path: {{ $process }}.key}
      - {key: ca.crt, path: ca.crt}
{{- else }}
    name: {{ $root.Values.secretName }}
    items:
      - {key: {{ $process }}.crt, path: {{ $process }}.crt}
      - {key: {{ $process }}.key, path: {{ $process }}.key}
      - {key: ca.crt, path: ca.crt}
{{- end }}
{{- end }}

{{- define "penstock.claim" -}}
accessModes: [ReadWriteOnce]
{{- with .storageClassName }}
storageClassName: {{ . }}
{{- end }}
resources: {requests: {storage: {{ .size }}}}
{{- end }}

{{/* Arguments: the root context and the values of brokers or controller. */}}
{{- define "penstock.placement" -}}
automountServiceAccountToken: false
{{- with (index . 0).Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with (index . 1).nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with (index . 1).tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
