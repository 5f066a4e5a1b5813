{{/* Metadata that every custom resource definition has, below `metadata:` */}}
{{- define "whetstone-crds.metadata" -}}
labels:
  app.kubernetes.io/name: whetstone-crds
  app.kubernetes.io/instance: {{ .Release.Name }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  app.kubernetes.io/part-of: whetstone
  helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- if .Values.keep }}
annotations:
  helm.sh/resource-policy: keep
{{- end }}
{{- end -}}

{{/* A deadline: from a second to ten years. */}}
{{- define "whetstone-crds.seconds" -}}
type: integer
minimum: 1
maximum: 315360000
{{- end -}}

{{/* The closed list of services/controller/src/operator/training-job/schema.ts; a test compares the two. */}}
{{- define "whetstone-crds.trainingJobReasons" -}}
- Accepted
- InvalidSpec
- ModuleMissing
- DependencyMissing
- CannotCheck
- NameTaken
- KueueMissing
- KubeRayMissing
- NotQueued
- WaitingForQuota
- Evicted
- QuotaReserved
- Ready
- NotReady
- NotNeeded
- WaitingForTrainer
- WaitingForEngines
- Progressing
- NoProgress
- NatsRefusesWrites
- InSync
- Syncing
- SuspendedByUser
- Updating
- Restarting
- Finished
- Cancelled
- JobFailed
- DeadlineExceeded
- PreRunningDeadlineExceeded
- ActiveDeadlineExceeded
- Pending
- NotRunning
- Running
- Ended
- Deleting
{{- end -}}
