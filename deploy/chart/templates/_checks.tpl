{{/* Values that can't work together, which a schema can't express. */}}
{{- define "linkwise.checks" -}}
{{- if and (not .Values.leaderElection.enabled) (gt (int .Values.service.replicas) 1) -}}
{{- fail "service.replicas: without leaderElection.enabled two replicas would allocate devices twice; set service.replicas=1 or enable it" -}}
{{- end -}}
{{- if .Values.page.ingress.enabled -}}
{{- if not (and .Values.page.enabled .Values.features.tenants) -}}
{{- fail "page.ingress.enabled: page.enabled and features.tenants must be on" -}}
{{- end -}}
{{- if not .Values.page.ingress.host -}}
{{- fail "page.ingress.host: required with page.ingress.enabled" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.features.tenants (eq (int .Values.service.port) (int .Values.service.tenantsPort)) -}}
{{- fail "service.tenantsPort: it is service.port too; choose another port" -}}
{{- end -}}
{{- if eq .Values.scheduler.name (include "linkwise.fullname" .) -}}
{{- fail (printf "scheduler.name: the Leases of the service and of kube-scheduler would both be %s; choose another name" .Values.scheduler.name) -}}
{{- end -}}
{{- if and .Values.scheduler.defaultScheduler (not .Values.scheduler.enabled) -}}
{{- fail "scheduler.defaultScheduler: the kube-scheduler of this chart is off; set scheduler.enabled=true" -}}
{{- end -}}
{{- include "linkwise.definitionChecks" . -}}
{{- end -}}

{{/* CustomResourceDefinitions of another release, whose objects this one can't read, or whose versions it would remove. */}}
{{- define "linkwise.definitionChecks" -}}
{{- range $path, $_ := .Files.Glob "files/crds/*.yaml" -}}
{{- $definition := $.Files.Get $path | fromYaml -}}
{{- $known := list -}}
{{- range $definition.spec.versions -}}{{- $known = append $known .name -}}{{- end -}}
{{- $readable := false -}}
{{- $others := list -}}
{{- range $.Capabilities.APIVersions -}}
{{- $parts := splitList "/" . -}}
{{- if and (eq (len $parts) 3) (eq (first $parts) $definition.spec.group) (eq (last $parts) $definition.spec.names.kind) -}}
{{- if has (index $parts 1) $known -}}{{- $readable = true -}}{{- else -}}{{- $others = append $others (index $parts 1) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $others (or $.Values.crds.enabled (not $readable)) -}}
{{- fail (printf "CustomResourceDefinition %s in this cluster serves %s, and Linkwise %s reads %s: it is of another release; install that one" $definition.metadata.name (join ", " $others) $.Chart.AppVersion (join ", " $known)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
