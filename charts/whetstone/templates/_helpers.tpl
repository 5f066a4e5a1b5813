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
{{ ternary "tls" "nats" (eq (include "whetstone.tls.on" .) "true") }}://{{ include "whetstone.fullname" (list . "nats") }}:4222
{{- else -}}
{{- required "nats.external.url is needed when nats.enabled is false" .Values.nats.external.url -}}
{{- end -}}
{{- end -}}

{{- define "whetstone.dataClaim" -}}
{{- .Values.data.existingClaim | default (include "whetstone.fullname" (list . "data")) -}}
{{- end -}}

{{/* The volume `data` of trainer and engines: everybody's, or the pod's own. */}}
{{- define "whetstone.dataVolume" -}}
- name: data
{{- if .Values.data.shared }}
  persistentVolumeClaim: { claimName: {{ include "whetstone.dataClaim" . }} }
{{- else }}
  {{- toYaml .Values.data.perPod | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Of a pod that does not see the controller's data: where it fetches what was pushed. */}}
{{- define "whetstone.artifactEnv" -}}
{{- if not .Values.data.shared }}
- { name: WHETSTONE_ARTIFACT_ADDRESS, value: "{{ include "whetstone.fullname" (list . "controller") }}:9083" }
{{- end }}
{{- end -}}

{{/* The same, of one that keeps it. */}}
{{- define "whetstone.ownDataEnv" -}}
{{- if not .Values.data.shared }}
- { name: WHETSTONE_DATA_PATH, value: /data }
{{- include "whetstone.artifactEnv" . }}
{{- end }}
{{- end -}}

{{/*
How many, of what is scaled by others too; nothing where no number is set. (list $ kind number [name])
Helm 3 sends what differs from the text of the former release, so the same text changes nothing. Helm 4 applies the whole text, and
what it says other than there is a conflict with whoever scaled: it says the number that is there, unless the value has changed.
*/}}
{{- define "whetstone.replicas" -}}
{{- $root := index . 0 -}}{{- $number := index . 2 -}}
{{- if semverCompare ">=4.0.0-0" $root.Capabilities.HelmVersion.Version -}}
{{- $name := ternary (last .) "default" (eq (len .) 4) -}}
{{- $there := lookup "whetstone.dev/v1alpha1" (index . 1) $root.Release.Namespace $name | default dict -}}
{{- $before := dig "metadata" "annotations" "whetstone.dev/replicas-wished" "" $there -}}
{{- if and (hasKey $there "spec") (has (include "whetstone.number" $number) (list "" $before)) -}}
{{- $number = dig "spec" "replicas" $number $there -}}
{{- end -}}
{{- end -}}
{{- include "whetstone.number" $number -}}
{{- end -}}

{{/* A number as text; nothing for null. 0 is a number, which `with` and `default` forget. */}}
{{- define "whetstone.number" -}}
{{- if not (kindIs "invalid" .) }}{{ . }}{{ end -}}
{{- end -}}

{{/* Metadata of a pod: (list $ values component) */}}
{{- define "whetstone.podMetadata" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}
labels:
  {{- include "whetstone.labels" (list $root (index . 2)) | nindent 2 }}
  {{- if eq (index . 2) "env-runner" }}
  whetstone.dev/pool: {{ include "whetstone.fullname" (list $root "env-runner") }}
  {{- else if eq (index . 2) "engine" }}
  whetstone.dev/fleet: {{ include "whetstone.fullname" (list $root "engine") }}
  {{- end }}
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
    {{- toYaml ($part.seccompProfile | default (dict "type" "RuntimeDefault")) | nindent 4 }}
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
{{- $mounts := ternary (list "controller" "gateway" "engine" "trainer" "trainer-verl") (list "controller") $root.Values.data.shared }}
{{- $together := and (index . 3) (has $component $mounts) (eq $root.Values.data.accessMode "ReadWriteOnce") }}
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
              values: [{{ join ", " $mounts }}]
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

{{/*
TLS. A workload of role R has: env "whetstone.tls.env" $, a mount "whetstone.tls.mount" $, a volume "whetstone.tls.volume" (list $ R),
the port "whetstone.healthPort" and the probes "whetstone.probes". All but the last two are empty with tls.mode: off.
*/}}
{{- define "whetstone.tls.on" -}}
{{- if ne .Values.tls.mode "off" }}true{{ end }}
{{- end -}}

{{- define "whetstone.tls.roles" -}}
{{- $roles := list "controller" "orchestrator" "env-runner" "gateway" "engine" "trainer" "client" -}}
{{- if .Values.nats.enabled }}{{ $roles = append $roles "nats" }}{{ end -}}
{{- toJson $roles -}}
{{- end -}}

{{- define "whetstone.tls.authority" -}}
{{- include "whetstone.fullname" (list . "ca") -}}
{{- end -}}

{{/* Name of a role's Secret: (list $ "trainer"). The client's is <release>-client. */}}
{{- define "whetstone.tls.secret" -}}
{{- $root := index . 0 -}}{{- $role := index . 1 -}}
{{- $default := include "whetstone.fullname" (list $root (ternary "client" (printf "%s-tls" $role) (eq $role "client"))) -}}
{{- get $root.Values.tls.secrets $role | default $default -}}
{{- end -}}

{{/* Components of the trainers, JSON: the first is called as a single one is. */}}
{{- define "whetstone.trainers" -}}
{{- $trainers := list "trainer" -}}
{{- range $index := untilStep 1 (int .Values.trainer.replicas) 1 }}{{ $trainers = append $trainers (printf "trainer-%d" $index) }}{{ end -}}
{{- toJson $trainers -}}
{{- end -}}

{{/* TrainerService of each, with commas between. */}}
{{- define "whetstone.trainerAddresses" -}}
{{- $root := . -}}{{- $addresses := list -}}
{{- range include "whetstone.trainers" . | fromJsonArray }}{{ $addresses = append $addresses (printf "%s:7400" (include "whetstone.fullname" (list $root .))) }}{{ end -}}
{{- join "," $addresses -}}
{{- end -}}

{{/* "true" where the gateway has, or may get, more than one replica. */}}
{{- define "whetstone.gateway.several" -}}
{{- if or .Values.gateway.autoscaling.enabled (gt (int .Values.gateway.replicas) 1) }}true{{ end -}}
{{- end -}}

{{/* Where our own services find the gateway: with several replicas every one of them by its address. */}}
{{- define "whetstone.gateway.host" -}}
{{- include "whetstone.fullname" (list . "gateway") }}{{ if include "whetstone.gateway.several" . }}-headless{{ end -}}
{{- end -}}

{{/* Where agents find the gateway's port for them: within the cluster by a name that holds in every namespace. */}}
{{- define "whetstone.agentsUrl" -}}
{{- $name := printf "%s.%s.svc" (include "whetstone.fullname" (list . "agents")) .Release.Namespace -}}
{{- .Values.gateway.agents.url | default (printf "%s://%s:8081" (include "whetstone.tls.scheme" .) $name) -}}
{{- end -}}

{{/* By which names a role is reached beside its role's, JSON. Clients of ours ask for the role's; those of others know these. */}}
{{- define "whetstone.tls.names" -}}
{{- $root := index . 0 -}}{{- $service := include "whetstone.fullname" . -}}
{{- $names := list "localhost" "127.0.0.1" -}}
{{- if ne (index . 1) "client" -}}
{{- range list $service (printf "%s-headless" $service) -}}
{{- $full := printf "%s.%s" . $root.Release.Namespace -}}
{{- $names = concat $names (list . $full (printf "%s.svc" $full) (printf "*.%s" .) (printf "*.%s" $full) (printf "*.%s.svc" $full)) -}}
{{- end -}}
{{- end -}}
{{- if eq (index . 1) "gateway" -}}
{{- $agents := include "whetstone.fullname" (list $root "agents") -}}
{{- $full := printf "%s.%s" $agents $root.Release.Namespace -}}
{{- $names = concat $names (list $agents $full (printf "%s.svc" $full)) -}}
{{- with $root.Values.gateway.agents.url -}}
{{- $names = append $names (regexReplaceAll ":[0-9]+$" (get (urlParse .) "host") "") -}}
{{- end -}}
{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{/* What the controller makes, JSON. */}}
{{- define "whetstone.tls.desired" -}}
{{- $root := . -}}{{- $leaves := list -}}
{{- range $role := include "whetstone.tls.roles" . | fromJsonArray -}}
{{- $names := include "whetstone.tls.names" (list $root $role) | fromJsonArray -}}
{{- $leaves = append $leaves (dict "role" $role "secret" (include "whetstone.tls.secret" (list $root $role)) "names" $names) -}}
{{- end -}}
{{- $labels := include "whetstone.selector" (list . "certificates") | fromYaml -}}
{{- dict "authority" (include "whetstone.tls.authority" .) "days" (int .Values.tls.days) "leaves" $leaves "labels" $labels | toJson -}}
{{- end -}}

{{- define "whetstone.tls.env" -}}
{{- if include "whetstone.tls.on" . }}
- { name: WHETSTONE_TLS_PATH, value: /tls }
{{- end }}
{{- end -}}

{{- define "whetstone.tls.mount" -}}
{{- if include "whetstone.tls.on" . }}
- { name: tls, mountPath: /tls, readOnly: true }
{{- end }}
{{- end -}}

{{/* With items a pod waits until the certificate is there. */}}
{{- define "whetstone.tls.volume" -}}
{{- $root := index . 0 }}
{{- if include "whetstone.tls.on" $root }}
- name: tls
  secret:
    secretName: {{ include "whetstone.tls.secret" . }}
    defaultMode: 0440
    items:
      - { key: ca.crt, path: ca.crt }
      - { key: tls.crt, path: tls.crt }
      - { key: tls.key, path: tls.key }
{{- end }}
{{- end -}}

{{/* http or https */}}
{{- define "whetstone.tls.scheme" -}}
{{- ternary "https" "http" (eq (include "whetstone.tls.on" .) "true") -}}
{{- end -}}

{{/* Settings of whoever talks to NATS. */}}
{{- define "whetstone.natsEnv" -}}
- { name: WHETSTONE_NATS_URL, value: {{ include "whetstone.natsUrl" . | quote }} }
{{- if not .Values.nats.enabled }}
{{- if .Values.nats.external.credentialsSecret.name }}
- { name: WHETSTONE_NATS_CREDENTIALS, value: "/nats/credentials/{{ .Values.nats.external.credentialsSecret.key }}" }
{{- end }}
{{- if .Values.nats.external.caSecret.name }}
- { name: WHETSTONE_NATS_CA, value: "/nats/ca/{{ .Values.nats.external.caSecret.key }}" }
{{- end }}
{{- end }}
{{- end -}}

{{/* Monitoring port of each server, whichever leads. */}}
{{- define "whetstone.objectStoreEnv" -}}
{{- with .Values.objectStore }}
{{- if .url }}
- { name: WHETSTONE_OBJECT_STORE, value: {{ .url | quote }} }
{{- range $name, $value := dict "WHETSTONE_OBJECT_STORE_STYLE" .style "AWS_ENDPOINT_URL_S3" .endpoint "AWS_REGION" .region }}
{{- if $value }}
- { name: {{ $name }}, value: {{ $value | quote }} }
{{- end }}
{{- end }}
{{- with .credentialsSecret }}
{{- $secret := . }}
{{- range $key := list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" }}
- { name: {{ $key }}, valueFrom: { secretKeyRef: { name: {{ $secret }}, key: {{ $key }} } } }
{{- end }}
{{- end }}
{{- if .caSecret.name }}
- { name: AWS_CA_BUNDLE, value: "/object-store/{{ .caSecret.key }}" }
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Whether there are authorities of the object store to mount */}}
{{- define "whetstone.objectStoreCa" -}}
{{- if and .Values.objectStore.url .Values.objectStore.caSecret.name }}true{{ end -}}
{{- end -}}

{{- define "whetstone.objectStoreMounts" -}}
{{- if include "whetstone.objectStoreCa" . }}
- { name: object-store-ca, mountPath: /object-store, readOnly: true }
{{- end }}
{{- end -}}

{{- define "whetstone.objectStoreVolumes" -}}
{{- if include "whetstone.objectStoreCa" . }}
- name: object-store-ca
  secret: { secretName: {{ .Values.objectStore.caSecret.name }} }
{{- end }}
{{- end -}}

{{- define "whetstone.natsMonitors" -}}
{{- $name := include "whetstone.fullname" (list . "nats") -}}{{- $urls := list -}}
{{- range $index := until (int .Values.nats.replicas) -}}
{{- $urls = append $urls (printf "http://%s-%d.%s-headless:8222" $name $index $name) -}}
{{- end -}}
{{- join "," $urls -}}
{{- end -}}

{{- define "whetstone.natsMounts" -}}
{{- if not .Values.nats.enabled }}
{{- if .Values.nats.external.credentialsSecret.name }}
- { name: nats-credentials, mountPath: /nats/credentials, readOnly: true }
{{- end }}
{{- if .Values.nats.external.caSecret.name }}
- { name: nats-ca, mountPath: /nats/ca, readOnly: true }
{{- end }}
{{- end }}
{{- end -}}

{{- define "whetstone.natsVolumes" -}}
{{- if not .Values.nats.enabled }}
{{- with .Values.nats.external.credentialsSecret.name }}
- name: nats-credentials
  secret: { secretName: {{ . }}, defaultMode: 0440 }
{{- end }}
{{- with .Values.nats.external.caSecret.name }}
- name: nats-ca
  secret: { secretName: {{ . }}, defaultMode: 0440 }
{{- end }}
{{- end }}
{{- end -}}

{{/* Health of a gRPC service has a port of its own in plain text: the kubelet's probes have no certificates. Nothing else is there. */}}
{{- define "whetstone.healthEnv" -}}
- { name: WHETSTONE_HEALTH_PORT, value: "9090" }
{{- end -}}
