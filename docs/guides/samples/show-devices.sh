#!/bin/sh
# Prints the devices that a container sees: variables of the vendors' runtimes, and device nodes.
# Run it as the first command of a job, and the log of each pod says which devices it had.
set -eu
for variable in NVIDIA_VISIBLE_DEVICES CUDA_VISIBLE_DEVICES ALIYUN_COM_GPU_MEM_IDX ALIYUN_COM_GPU_MEM_CONTAINER \
  ASCEND_VISIBLE_DEVICES AMD_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES; do
  value=$(printenv "$variable" || true)
  if [ -n "$value" ]; then
    echo "$variable=$value"
  fi
done
for node in /dev/nvidia[0-9]* /dev/davinci[0-9]* /dev/dri/renderD*; do
  if [ -e "$node" ]; then
    echo "$node"
  fi
done
