{{/* Settings: what the values of the chart imply, with those of `config` on top. */}}
{{- define "linkwise.config" -}}
{{- $name := include "linkwise.fullname" . -}}
{{- $f := .Values.features -}}
{{- $webhook := dict "enabled" .Values.webhook.enabled -}}
{{- if .Values.webhook.enabled -}}
{{- $webhook = dict
  "enabled" true
  "port" .Values.webhook.port
  "configuration" $name
  "secret" (printf "%s-webhook" $name)
  "service" (printf "%s-webhook" $name)
  "scheduler" .Values.scheduler.name
  "gates" $f.gates
  "volcano_gates" $f.gates
  "hide_devices" .Values.webhook.hideDevices
-}}
{{- if .Values.protection.controllers -}}{{- $_ := set $webhook "controllers" .Values.protection.controllers -}}{{- end -}}
{{- if .Values.certManager.enabled -}}
{{- $_ := set $webhook "cert_file" "/etc/linkwise/webhook/tls.crt" -}}
{{- $_ := set $webhook "key_file" "/etc/linkwise/webhook/tls.key" -}}
{{- end -}}
{{- end -}}
{{- $leader := dict "enabled" .Values.leaderElection.enabled "service" $name -}}
{{- if .Values.leaderElection.enabled -}}
{{- $_ := set $leader "lease" $name -}}
{{- $_ := set $leader "lease_duration" .Values.leaderElection.leaseDuration -}}
{{- $_ := set $leader "renew_deadline" .Values.leaderElection.renewDeadline -}}
{{- $_ := set $leader "retry_period" .Values.leaderElection.retryPeriod -}}
{{- end -}}
{{- $tls := dict "enabled" .Values.tls.enabled -}}
{{- if .Values.tls.enabled -}}
{{- if .Values.certManager.enabled -}}
{{- $_ := set $tls "cert_file" "/etc/linkwise/tls/tls.crt" -}}
{{- $_ := set $tls "key_file" "/etc/linkwise/tls/tls.key" -}}
{{- $_ := set $tls "client_ca_file" "/etc/linkwise/tls/ca.crt" -}}
{{- else -}}
{{- $_ := set $tls "secret" (printf "%s-tls" $name) -}}
{{- $_ := set $tls "client_secret" (printf "%s-scheduler-tls" $name) -}}
{{- $_ := set $tls "service" $name -}}
{{- end -}}
{{- end -}}
{{- $agent := dict
  "port" .Values.agent.port
  "kubelet" .Values.agent.kubeletPath
  "cdi_folder" .Values.agent.cdiPath
  "host_root" "/host"
  "driver_root" .Values.agent.driverRoot
  "koordinator_device" .Values.agent.koordinatorDevice
  "ascend" (dict "device_info" .Values.agent.deviceInfo)
-}}
{{- if .Values.agent.dra.enabled -}}{{- $_ := set $agent "mode" "dra" -}}{{- end -}}
{{- $derived := dict
  "http" (dict "port" .Values.service.port)
  "leader" $leader
  "tls" $tls
  "explain" (dict "publish" $f.conditions "tenants" $f.tenants "port" ($f.tenants | ternary .Values.service.tenantsPort 0) "schedulers" (list .Values.scheduler.name))
  "placing" (dict
    "every_pod" .Values.scheduler.everyPod
    "rank_tables" $f.rankTables
    "group" (dict "gates" $f.gates "evict_half_bound" $f.evictHalfBound)
    "preemption" (dict "evict" $f.evict)
    "volcano" (dict "schedulers" .Values.volcano.schedulers))
  "agent" $agent
  "page" (dict "enabled" .Values.page.enabled)
  "webhook" $webhook
-}}
{{- $without := list -}}
{{- range $feature := list "budgets" "volumes" "policies" "inventories" "koordinator" "numa" "configmaps" "claims" "groups" "network" -}}
{{- if not (get $f $feature) -}}{{- $without = append $without $feature -}}{{- end -}}
{{- end -}}
{{- if $without -}}{{- $_ := set $derived "kube" (dict "without" $without) -}}{{- end -}}
{{- if .Values.volcano.enabled -}}{{- $_ := set $derived "volcano" (dict "port" .Values.volcano.port) -}}{{- end -}}
{{- toYaml (mustMergeOverwrite $derived (deepCopy .Values.config)) -}}
{{- end -}}

{{/* A setting after the merge: list of the root, the section, the key and the default. */}}
{{- define "linkwise.setting" -}}
{{- $section := index (include "linkwise.config" (index . 0) | fromYaml) (index . 1) | default dict -}}
{{- $value := index $section (index . 2) -}}
{{- kindIs "invalid" $value | ternary (index . 3) $value -}}
{{- end -}}

{{/* Configuration of kube-scheduler, equal to what `linkwise config scheduler` prints for the same options. */}}
{{- define "linkwise.schedulerConfig" -}}
{{- $name := include "linkwise.fullname" . -}}
{{- $file := .Files.Get "files/scheduler.yaml" | fromYaml -}}
{{- $scheduler := .Values.scheduler -}}
{{- $_ := set $file "leaderElection" (dict "leaderElect" true "resourceName" $scheduler.name "resourceNamespace" .Release.Namespace) -}}
{{- $_ := set (first $file.profiles) "schedulerName" $scheduler.name -}}
{{- if $scheduler.defaultScheduler -}}
{{- $_ := set $file "profiles" (append $file.profiles (dict "schedulerName" "default-scheduler")) -}}
{{- end -}}
{{- $extender := first $file.extenders -}}
{{- $_ := set $extender "weight" $scheduler.weight -}}
{{- $_ := set $extender "urlPrefix" (printf "%s://%s.%s.svc:%v" (.Values.tls.enabled | ternary "https" "http") $name .Release.Namespace .Values.service.port) -}}
{{- if $scheduler.everyPod -}}{{- $_ := unset $extender "managedResources" -}}{{- end -}}
{{- if .Values.tls.enabled -}}
{{- $_ := set $extender "enableHTTPS" true -}}
{{- $_ := set $extender "tlsConfig" (dict "caFile" "/etc/linkwise/tls/ca.crt" "certFile" "/etc/linkwise/tls/tls.crt" "keyFile" "/etc/linkwise/tls/tls.key") -}}
{{- end -}}
{{- toYaml $file -}}
{{- end -}}
