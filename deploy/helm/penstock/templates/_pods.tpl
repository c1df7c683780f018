{{/* Labels and annotations of a pod. Arguments: the root context, a component, its values, and the annotations of the chart. */}}
{{- define "penstock.pod.metadata" -}}
labels: {{- mergeOverwrite (deepCopy (index . 2).podLabels) (include "penstock.labels" (list (index . 0) (index . 1)) | fromYaml) | toYaml | nindent 2 }}
{{- with mergeOverwrite (deepCopy (index . 2).podAnnotations) (index . 3) }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Where a pod runs, and under which account. Arguments: the root context, a component, and its values. */}}
{{- define "penstock.placement" -}}
{{- $root := index . 0 }}{{- $values := index . 2 -}}
serviceAccountName: {{ include "penstock.account" $root }}
automountServiceAccountToken: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- if $values.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml $values.topologySpreadConstraints | nindent 2 }}
{{- else if hasKey $values "topologySpreadConstraints" }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "penstock.selector" (list $root (index . 1)) | nindent 8 }}
{{- end }}
{{- end }}

{{/* The volumes of a process: its configuration and secrets in one, so that a change shows them together.
     Arguments: the root context and "proxy" or "controller". */}}
{{- define "penstock.volumes" -}}
{{- $root := index . 0 }}{{- $process := index . 1 }}{{- $values := get $root.Values $process }}{{- $cluster := $root.Values.cluster -}}
- name: penstock
  projected:
    defaultMode: 0440
    sources:
      - configMap: {name: {{ include "penstock.fullname" $root }}-{{ $process }}}
      - secret:
          name: {{ include "penstock.certificate" . }}
          items:
{{- if $root.Values.certManager.enabled }}
            - {key: tls.crt, path: secrets/{{ $process }}.crt}
            - {key: tls.key, path: secrets/{{ $process }}.key}
{{- else }}
            - {key: {{ $process }}.crt, path: secrets/{{ $process }}.crt}
            - {key: {{ $process }}.key, path: secrets/{{ $process }}.key}
{{- end }}
            - {key: ca.crt, path: secrets/ca.crt}
      # What checks credentials at the HTTP port; never a monitor's own key.
      - secret:
{{- if eq $root.Values.http.authentication "token" }}
          name: {{ $root.Values.http.tokenSecret.name | default $root.Values.secretName }}
          items:
            - {key: {{ $root.Values.http.tokenSecret.key }}, path: secrets/http.token}
{{- else }}
          name: {{ $root.Values.http.clientSecret.name }}
          items:
            - {key: {{ $root.Values.http.clientSecret.ca }}, path: secrets/monitoring-ca.crt}
{{- end }}
{{- if eq $root.Values.mode "bundled" }}
      - secret:
          name: {{ $root.Values.secretName }}
          items:
            - {key: broker.password, path: secrets/broker.password}
{{- else }}
{{- if hasPrefix "SASL" $cluster.securityProtocol }}
      - secret:
          name: {{ $cluster.passwordSecret.name | default $root.Values.secretName }}
          items:
            - {key: {{ $cluster.passwordSecret.key }}, path: secrets/broker.password}
{{- end }}
{{- if $cluster.caSecret.key }}
      - secret:
          name: {{ $cluster.caSecret.name | default $root.Values.secretName }}
          items:
            - {key: {{ $cluster.caSecret.key }}, path: secrets/brokers-ca.crt}
{{- end }}
{{- end }}
{{- $keys := list }}
{{- if $root.Values.controller.enabled }}
{{- $keys = append $keys "controller.password" }}
{{- if $root.Values.signing.enabled }}{{- $keys = append $keys "controllers.pub" }}{{- end }}
{{- end }}
{{- if and (eq $process "proxy") (not $values.usersSecret) }}{{- $keys = concat $keys $values.secretFiles }}{{- end }}
{{- with $keys }}
      - secret:
          name: {{ $root.Values.secretName }}
          items:
{{- range . }}
            - {key: {{ . }}, path: secrets/{{ . }}}
{{- end }}
{{- end }}
{{- if and (eq $process "controller") $root.Values.signing.enabled }}
      - secret:
          name: {{ $root.Values.signing.secretName }}
          items:
            - {key: signing.key, path: secrets/signing.key}
{{- end }}
{{- if and (eq $process "proxy") $values.usersSecret }}
- name: penstock-users
  secret: {secretName: {{ $values.usersSecret }}, defaultMode: 0440}
{{- end }}
- name: penstock-temporary
  emptyDir: {}
{{- with $values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Arguments: the root context, "proxy" or "controller", and the name of the volume of the spool. */}}
{{- define "penstock.mounts" -}}
{{- $process := index . 1 }}{{- $values := get (index . 0).Values $process -}}
- {name: penstock, mountPath: /etc/penstock, readOnly: true}
{{- if and (eq $process "proxy") $values.usersSecret }}
- {name: penstock-users, mountPath: /etc/penstock-users, readOnly: true}
{{- end }}
- {name: {{ index . 2 }}, mountPath: /var/lib/penstock}
- {name: penstock-temporary, mountPath: /tmp}
{{- with $values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "penstock.environment" -}}
- name: POD_NAME
  valueFrom:
    fieldRef: {fieldPath: metadata.name}
# For {nodeIP} in external.host: the internal address of the node.
- name: NODE_IP
  valueFrom:
    fieldRef: {fieldPath: status.hostIP}
{{- with . }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The init container that checks the files: a pod with wrong ones does not replace one that serves. Arguments as above. */}}
{{- define "penstock.check" -}}
{{- $root := index . 0 }}{{- $values := get $root.Values (index . 1) -}}
- name: penstock-check
  image: {{ include "penstock.image" (list $root $root.Values.image) }}
  imagePullPolicy: {{ $root.Values.image.pullPolicy }}
  args: [check, -c, /etc/penstock/$(POD_NAME).yaml{{ if $values.check.connect }}, --connect{{ end }}]
  env: {{- include "penstock.environment" $values.extraEnv | nindent 4 }}
  securityContext: {{- include "penstock.locked" . | nindent 4 }}
  resources: {{- toYaml $values.resources | nindent 4 }}
  volumeMounts: {{- include "penstock.mounts" . | nindent 4 }}
{{- end }}

{{/* The container of a proxy. Arguments: the root context, "proxy", the name of the volume of the spool, and whether it is a sidecar. */}}
{{- define "penstock.proxy.container" -}}
{{- $root := index . 0 }}{{- $values := $root.Values.proxy -}}
- name: penstock
  image: {{ include "penstock.image" (list $root $root.Values.image) }}
  imagePullPolicy: {{ $root.Values.image.pullPolicy }}
{{- if index . 3 }}
  # A native sidecar: it starts before the broker and can restart without it.
  restartPolicy: Always
{{- end }}
  args: [proxy, -c, /etc/penstock/$(POD_NAME).yaml]
  env: {{- include "penstock.environment" $values.extraEnv | nindent 4 }}
  ports:
    - {name: clients, containerPort: 9093}
{{- if $root.Values.external.type }}
    - {name: external, containerPort: 9096}
{{- end }}
    - {name: penstock-http, containerPort: 9190}
  # A kubelet checks no certificate and has no credential. /livez and /readyz need none.
  startupProbe:
    httpGet: {path: /livez, port: penstock-http, scheme: HTTPS}
    periodSeconds: 1
    failureThreshold: 60
  livenessProbe:
    httpGet: {path: /livez, port: penstock-http, scheme: HTTPS}
    periodSeconds: 10
    timeoutSeconds: 3
  readinessProbe:
    httpGet: {path: /readyz, port: penstock-http, scheme: HTTPS}
    periodSeconds: 5
    timeoutSeconds: 3
{{- if index . 3 }}
  lifecycle:
    preStop:
      # Kubernetes ends sidecars after the other containers. Here the proxy has to drain first, while
      # the broker still responds. The preStop hooks of all containers run at the same time, so
      # this one begins the drain, and the broker's waits for its end.
      exec: {command: [sh, -c, kill -TERM 1]}
{{- end }}
  securityContext: {{- include "penstock.locked" . | nindent 4 }}
  resources: {{- toYaml $values.resources | nindent 4 }}
  volumeMounts: {{- include "penstock.mounts" . | nindent 4 }}
{{- end }}

{{/* The hook of a broker's container that waits until the proxy beside it has drained. */}}
{{- define "penstock.wait" -}}
lifecycle:
  preStop:
    exec: {command: [bash, -c, "while (</dev/tcp/127.0.0.1/9190) 2>/dev/null; do sleep 1; done"]}
{{- end }}
