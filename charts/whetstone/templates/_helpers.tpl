{{/* Name of an object: include "whetstone.fullname" (list $ "controller") */}}
{{- define "whetstone.fullname" -}}
{{- $root := index . 0 -}}
{{- printf "%s-%s" ($root.Release.Name | trunc 40 | trimSuffix "-") (index . 1) -}}
{{- end -}}

{{- define "whetstone.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: whetstone
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "whetstone.labels" -}}
{{- $root := index . 0 -}}
{{ include "whetstone.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/part-of: whetstone
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* include "whetstone.image" (list $ .Values.controller "controller") */}}
{{- define "whetstone.image" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}
{{- $part.image | default (printf "%s/%s:%s" $root.Values.images.registry (index . 2) $root.Values.images.tag) -}}
{{- end -}}

{{- define "whetstone.natsUrl" -}}
{{- if .Values.nats.enabled -}}
nats://{{ include "whetstone.fullname" (list . "nats") }}:4222
{{- else -}}
{{- required "nats.external.url is needed when nats.enabled is false" .Values.nats.external.url -}}
{{- end -}}
{{- end -}}

{{- define "whetstone.dataClaim" -}}
{{- .Values.data.existingClaim | default (include "whetstone.fullname" (list . "data")) -}}
{{- end -}}

{{/* Metadata of a pod: (list $ values component) */}}
{{- define "whetstone.podMetadata" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}
labels:
  {{- include "whetstone.labels" (list $root (index . 2)) | nindent 2 }}
{{- with $part.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
What every pod has: no token, no privileges, where it may run. (list $ values component mountsData)
Without links: Kubernetes would write WHETSTONE_* variables of its own for the services of the namespace.
*/}}
{{- define "whetstone.podSettings" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}{{- $component := index . 2 -}}
serviceAccountName: {{ include "whetstone.fullname" (list $root $component) }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with $root.Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $part.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with $part.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $part.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $together := and (index . 3) (eq $root.Values.data.accessMode "ReadWriteOnce") }}
{{- with $part.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- else }}
{{- if $together }}
{{- /* A volume that one node can mount: whoever comes first chooses the node. */}}
affinity:
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            app.kubernetes.io/name: whetstone
            app.kubernetes.io/instance: {{ $root.Release.Name }}
          matchExpressions:
            - key: app.kubernetes.io/component
              operator: In
              values: [controller, gateway, engine, trainer]
{{- end }}
{{- end }}
{{- end -}}

{{- define "whetstone.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{/* Settings of every process of ours: (list $ values) */}}
{{- define "whetstone.env" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}
- name: WHETSTONE_LOG_LEVEL
  value: {{ $root.Values.logLevel | quote }}
{{- range $name, $value := $part.env }}
- name: {{ $name }}
  {{- /* Helm holds numbers as floats: a large one would be written with an exponent. */}}
  value: {{ ternary (int64 $value) $value (kindIs "float64" $value) | quote }}
{{- end }}
{{- end -}}

{{/* The metrics port of a TypeScript service, if it is on */}}
{{- define "whetstone.metricsEnv" -}}
{{- if .Values.metrics.enabled }}
- name: WHETSTONE_METRICS_PORT
  value: "9464"
{{- end }}
{{- end -}}
{{- define "whetstone.metricsPort" -}}
{{- if .Values.metrics.enabled }}
- { name: metrics, containerPort: 9464 }
{{- end }}
{{- end -}}

{{/* gRPC health; a process that computes answers late, so that only a long silence ends it. */}}
{{- define "whetstone.grpcProbes" -}}
startupProbe:
  grpc: { port: {{ . }} }
  periodSeconds: 1
  timeoutSeconds: 5
  failureThreshold: 120
readinessProbe:
  grpc: { port: {{ . }} }
  periodSeconds: 5
  timeoutSeconds: 5
livenessProbe:
  grpc: { port: {{ . }} }
  periodSeconds: 20
  timeoutSeconds: 10
  failureThreshold: 6
{{- end -}}

{{/* The same by HTTP: (list port path) */}}
{{- define "whetstone.httpProbes" -}}
{{- $get := printf "{ port: %v, path: %s }" (index . 0) (index . 1) -}}
startupProbe:
  httpGet: {{ $get }}
  periodSeconds: 1
  timeoutSeconds: 5
  failureThreshold: 300
readinessProbe:
  httpGet: {{ $get }}
  periodSeconds: 5
  timeoutSeconds: 5
livenessProbe:
  httpGet: {{ $get }}
  periodSeconds: 20
  timeoutSeconds: 10
  failureThreshold: 6
{{- end -}}

{{/* Pods start in any order, and a service gives up when NATS is not there: it would then wait for its next restart. */}}
{{- define "whetstone.waitForNats" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}
- name: wait-for-nats
  image: {{ include "whetstone.image" (list $root $part (index . 2)) }}
  imagePullPolicy: {{ $root.Values.images.pullPolicy }}
  command:
    - node
    - -e
    - |
      const targets = process.argv[1].split(",").map((url) => new URL(url.includes("://") ? url : "nats://" + url));
      const answers = ({ hostname, port }) => new Promise((resolve) => {
        const socket = require("net").connect({ host: hostname, port: Number(port || 4222), timeout: 1000 });
        const end = (ok) => { socket.destroy(); resolve(ok); };
        socket.once("data", () => end(true)).once("error", () => end(false)).once("timeout", () => end(false));
      });
      (async () => {
        while (!(await Promise.all(targets.map(answers))).includes(true)) await new Promise((r) => setTimeout(r, 250));
      })();
    - {{ include "whetstone.natsUrl" $root | quote }}
  {{- include "whetstone.containerSecurity" . | nindent 2 }}
  resources:
    requests: { cpu: 10m, memory: 64Mi }
    limits: { memory: 128Mi }
{{- end -}}
