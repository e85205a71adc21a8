#!/bin/sh
# Prints one line per namespace: how many pods use devices, how many devices they have, and how busy these are.
# Needs rights to list pods, nodes and device inventories in the whole cluster.
set -eu
linkwise top pods --all-namespaces --no-headers | awk '
  { pods[$1]++; devices[$1] += $3
    if ($6 ~ /^[0-9]+%$/) { busy[$1] += $6; known[$1]++ } }
  END {
    for (namespace in pods)
      printf "%s pods=%d devices=%d utilization=%s\n", namespace, pods[namespace], devices[namespace],
        known[namespace] ? sprintf("%.0f%%", busy[namespace] / known[namespace]) : "unknown"
  }' | sort
