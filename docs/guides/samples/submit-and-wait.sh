#!/bin/sh
# Applies a manifest and waits until its pods run. If they still wait when the time is over, prints why.
#
#   submit-and-wait.sh FILE SELECTOR [SECONDS]
#   submit-and-wait.sh ddp-gang.yaml app=ddp 300
set -eu
file=$1
selector=$2
seconds=${3:-120}

kubectl apply --filename "$file"
end=$(($(date +%s) + seconds))
waiting="pods to be created"
while [ "$(date +%s)" -lt "$end" ]; do
  pods=$(kubectl get pods --selector "$selector" --output name)
  waiting=$(kubectl get pods --selector "$selector" --field-selector status.phase=Pending --output name)
  if [ -n "$pods" ] && [ -z "$waiting" ]; then
    kubectl get pods --selector "$selector" --output wide
    exit 0
  fi
  sleep 1
done

echo "still pending after $seconds seconds:" >&2
for pod in $waiting; do
  linkwise explain "$pod" >&2 || true
done
exit 1
