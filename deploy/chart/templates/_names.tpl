{{- define "linkwise.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains "linkwise" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-linkwise" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Service accounts: list of the root and "service", "scheduler" or "agent". */}}
{{- define "linkwise.account" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}
{{- $suffix := eq $part "service" | ternary "" (printf "-%s" $part) -}}
{{- (index $root.Values $part).serviceAccount.name | default (printf "%s%s" (include "linkwise.fullname" $root) $suffix) -}}
{{- end -}}

{{/* Labels of an object: list of the root and its component. */}}
{{- define "linkwise.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{ include "linkwise.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels by which pods are selected. */}}
{{- define "linkwise.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: linkwise
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "linkwise.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}{{ $image.repository }}@{{ $image.digest }}
{{- else -}}{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}{{- end -}}
{{- end -}}

{{/* kube-scheduler of the cluster's own version: vendors' suffixes such as -gke.100 have no upstream image. */}}
{{- define "linkwise.schedulerImage" -}}
{{- $image := .Values.scheduler.image -}}
{{- if $image.digest -}}{{ $image.repository }}@{{ $image.digest }}
{{- else -}}{{ $image.repository }}:{{ $image.tag | default (regexFind "^v[0-9]+[.][0-9]+[.][0-9]+" .Capabilities.KubeVersion.Version) }}{{- end -}}
{{- end -}}

{{- define "linkwise.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A generated file with the names of this release. */}}
{{- define "linkwise.generated" -}}
{{- $root := index . 0 -}}
{{- $root.Files.Get (index . 1) | replace "@NAMESPACE@" $root.Release.Namespace | replace "@FULLNAME@" (include "linkwise.fullname" $root) | replace "@SCHEDULER@" $root.Values.scheduler.name -}}
{{- end -}}

{{/* Pods of one component prefer different nodes. */}}
{{- define "linkwise.spread" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}{{- $values := index $root.Values $part -}}
affinity:
{{- if $values.affinity }}
  {{- toYaml $values.affinity | nindent 2 }}
{{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- include "linkwise.selector" . | nindent 14 }}
{{- end }}
topologySpreadConstraints:
{{- if $values.topologySpreadConstraints }}
  {{- toYaml $values.topologySpreadConstraints | nindent 2 }}
{{- else }}
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "linkwise.selector" . | nindent 8 }}
{{- end }}
{{- end -}}

{{/* Security context of containers that need nothing from their node. */}}
{{- define "linkwise.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* What the pod knows about itself. */}}
{{- define "linkwise.podEnvironment" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
{{- end -}}

{{/* Client certificate of kube-scheduler. With named keys the kubelet waits until the service has written them. */}}
{{- define "linkwise.clientSecret" -}}
- name: tls
  secret:
    secretName: {{ include "linkwise.fullname" . }}-scheduler-tls
    items:
      - {key: ca.crt, path: ca.crt}
      - {key: tls.crt, path: tls.crt}
      - {key: tls.key, path: tls.key}
{{- end -}}
