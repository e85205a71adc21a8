{{/* Terms that select the nodes of the agent. Each of them excludes nodes without a kubelet of their own, and opted-out ones. */}}
{{- define "linkwise.agentNodes" -}}
{{- $always := list
  (dict "key" "kubernetes.io/os" "operator" "In" "values" (list "linux"))
  (dict "key" "linkwise.dev/agent" "operator" "NotIn" "values" (list "false"))
  (dict "key" "type" "operator" "NotIn" "values" (list "virtual-kubelet"))
  (dict "key" "eks.amazonaws.com/compute-type" "operator" "NotIn" "values" (list "fargate"))
-}}
{{- $terms := list -}}
{{- if eq .Values.agent.nodes "all" -}}
{{- $terms = append $terms (dict "matchExpressions" $always) -}}
{{- else -}}
{{- range $label := list
  "linkwise.dev/agent"
  "gpushare"
  "nvidia.com/gpu.present"
  "feature.node.kubernetes.io/pci-10de.present"
  "feature.node.kubernetes.io/pci-0300_10de.present"
  "feature.node.kubernetes.io/pci-0302_10de.present"
  "feature.node.kubernetes.io/amd-gpu"
  "feature.node.kubernetes.io/pci-1002.present"
  "feature.node.kubernetes.io/pci-0300_1002.present"
  "feature.node.kubernetes.io/pci-0302_1002.present"
  "feature.node.kubernetes.io/pci-0380_1002.present"
  "feature.node.kubernetes.io/pci-1200_1002.present"
  "feature.node.kubernetes.io/pci-19e5.present"
  "feature.node.kubernetes.io/pci-1200_19e5.present"
-}}
{{- $terms = append $terms (dict "matchExpressions" (append $always (dict "key" $label "operator" "In" "values" (list "true")))) -}}
{{- end -}}
{{- /* As Huawei's own manifests label nodes. */ -}}
{{- $ascend := list "huawei-Ascend910" "huawei-Ascend310P" "huawei-Ascend310" "huawei-npu" -}}
{{- $terms = append $terms (dict "matchExpressions" (append $always (dict "key" "accelerator" "operator" "In" "values" $ascend))) -}}
{{- end -}}
{{- toYaml $terms -}}
{{- end -}}
