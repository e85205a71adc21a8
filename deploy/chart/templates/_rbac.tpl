{{/* Features that are on, by the names of the table in the package. */}}
{{- define "linkwise.features" -}}
{{- $on := dict "extender" true -}}
{{- range $name, $value := .Values.features -}}{{- $_ := set $on (kebabcase $name) $value -}}{{- end -}}
{{- $_ := set $on "evict" (or .Values.features.evict .Values.features.evictHalfBound) -}}
{{- $_ := set $on "leader" .Values.leaderElection.enabled -}}
{{- $_ := set $on "tls" (and .Values.tls.enabled (not .Values.certManager.enabled)) -}}
{{- toJson $on -}}
{{- end -}}

{{- define "linkwise.agentFeatures" -}}
{{- toJson (dict
  "inventory" true
  "pods" true
  "node" .Values.agent.nodeLabels
  "events" .Values.agent.events
  "dra" .Values.agent.dra.enabled
  "koordinator" .Values.agent.koordinatorDevice
  "device-info" .Values.agent.deviceInfo) -}}
{{- end -}}

{{/* Roles and bindings: root, features of the table, those that are on, name, account and component. */}}
{{- define "linkwise.roles" -}}
{{- $root := .root -}}{{- $arguments := . -}}
{{- $chosen := list -}}
{{- range .table -}}{{- if get $arguments.on .feature -}}{{- $chosen = append $chosen . -}}{{- end -}}{{- end -}}
{{- $places := list -}}
{{- range $chosen -}}{{- $places = append $places .namespace -}}{{- end -}}
{{- range $place := uniq $places }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $place | empty | ternary "ClusterRole" "Role" }}
metadata:
  name: {{ $arguments.name }}
  {{- with $place }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "linkwise.labels" (list $root $arguments.component) | nindent 4 }}
rules:
{{- range $chosen }}
{{- if eq .namespace $place }}
  # {{ .feature }}: {{ .why }}
  {{- toYaml .rules | nindent 2 }}
{{- end }}
{{- end }}
{{ include "linkwise.binding" (dict "root" $root "place" $place "name" $arguments.name "account" $arguments.account "component" $arguments.component) }}
{{- end }}
{{- end -}}

{{- define "linkwise.binding" -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .place | empty | ternary "ClusterRoleBinding" "RoleBinding" }}
metadata:
  name: {{ .name }}
  {{- with .place }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "linkwise.labels" (list .root .component) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .role | default "" | empty | ternary (.place | empty | ternary "ClusterRole" "Role") .kind }}
  name: {{ .role | default .name | quote }}
subjects:
  - kind: ServiceAccount
    name: {{ .account }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}
