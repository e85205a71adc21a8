{{/* Values that work, and that an administrator should know the price of. */}}
{{- define "linkwise.warnings" -}}
{{- $warnings := list -}}
{{- if not .Values.tls.enabled -}}
{{- $warnings = append $warnings "tls.enabled=false: every pod that reaches the extender can call it as kube-scheduler does." -}}
{{- end -}}
{{- if and (not .Values.tls.enabled) (not .Values.networkPolicy.enabled) -}}
{{- $warnings = append $warnings "networkPolicy.enabled=false: nothing restricts who reaches the extender." -}}
{{- end -}}
{{- if lt (int .Values.service.replicas) 2 -}}
{{- $warnings = append $warnings "service.replicas=1: pods that request accelerators wait while its node is drained or down." -}}
{{- end -}}
{{- if not .Values.protection.enabled -}}
{{- $warnings = append $warnings "protection.enabled=false: users who may patch pods can forge records of devices." -}}
{{- end -}}
{{- if and .Values.webhook.enabled (eq .Values.webhook.failurePolicy "Ignore") -}}
{{- $warnings = append $warnings "webhook.failurePolicy=Ignore: while the service is down, pods that request accelerators are created without checks and without a scheduler that knows devices." -}}
{{- end -}}
{{- if and .Values.volcano.enabled (not .Values.networkPolicy.enabled) -}}
{{- $warnings = append $warnings (printf "volcano.enabled without networkPolicy.enabled: port %v has no TLS, and every pod reaches it." .Values.volcano.port) -}}
{{- end -}}
{{- if .Values.scheduler.defaultScheduler -}}
{{- $warnings = append $warnings "scheduler.defaultScheduler=true: switch the cluster's own kube-scheduler off, or the two interfere." -}}
{{- end -}}
{{- if .Values.features.evictHalfBound -}}
{{- $warnings = append $warnings "features.evictHalfBound=true: members of gangs that are stuck halfway are evicted; those without a controller are not created again." -}}
{{- end -}}
{{- if not .Values.crds.keep -}}
{{- $warnings = append $warnings "crds.keep=false: helm uninstall deletes all DeviceInventories and AcceleratorPolicies." -}}
{{- end -}}
{{- toJson $warnings -}}
{{- end -}}
