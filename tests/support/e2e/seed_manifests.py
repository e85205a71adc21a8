"""Manifests with the keys and values of the five systems, as their users write them: no scheduler, gate or record of ours."""

from __future__ import annotations

from typing import Final

__all__ = ["ALL", "ASCEND_JOBS", "GPU_SHARE", "KEP", "KOORDINATOR", "KUBERNETES_2016", "WORKER"]

KEP: Final = """
apiVersion: v1
kind: Pod
metadata:
  name: kep-690
spec:
  containers:
  - name: cuda
    image: nvidia/cuda:12.2.0-base-ubuntu22.04
    resources:
      limits:
        nvidia.com/gpu: 2
"""

WORKER: Final = """
apiVersion: v1
kind: Pod
metadata:
  name: worker-{number}
  labels:
    gputopology.scheduling.koordinator.sh/name: "train"
    gputopology.scheduling.koordinator.sh/replica: "2"
  annotations:
    gang.scheduling.koordinator.sh/name: "train"
    gang.scheduling.koordinator.sh/min-available: "2"
spec:
  containers:
  - name: worker
    image: pytorch/pytorch
    resources:
      limits:
        {request}
"""

_PERCENT: Final = """
apiVersion: v1
kind: Pod
metadata:
  name: half-a-card
spec:
  containers:
  - name: notebook
    image: jupyter/base-notebook
    resources:
      limits:
        kubernetes.io/gpu-core: "50"
        kubernetes.io/gpu-memory-ratio: "50"
"""
"""names of resources as in the Device object of seed 001"""

KOORDINATOR: Final = "---".join(
    [*(WORKER.format(number=number, request="koordinator.sh/gpu: 200") for number in range(2)), _PERCENT]
)

KUBERNETES_2016: Final = """
apiVersion: v1
kind: Pod
metadata:
  name: from-2016
spec:
  containers:
  - name: gpu
    image: example.com/cuda
    resources:
      limits:
        alpha.kubernetes.io/nvidia-gpu: 1
"""

_ASCEND_JOB: Final = """
apiVersion: batch/v1
kind: Job
metadata:
  name: mindspore-{chips}
spec:
  template:
    spec:
      containers:
      - name: mindspore
        image: example.com/mindspore
        resources:
          limits:
            huawei.com/Ascend910: {chips}
          requests:
            huawei.com/Ascend910: {chips}
      restartPolicy: Never
"""

ASCEND_JOBS: Final = "---".join(_ASCEND_JOB.format(chips=chips) for chips in (1, 2, 4, 8))

GPU_SHARE: Final = """
apiVersion: apps/v1
kind: Deployment
metadata:
  labels:
    app: binpack-1
  name: binpack-1
spec:
  progressDeadlineSeconds: 600
  replicas: 1
  revisionHistoryLimit: 10
  selector:
    matchLabels:
      app: binpack-1
  strategy:
    rollingUpdate:
      maxSurge: 25%
      maxUnavailable: 25%
    type: RollingUpdate
  template:
    metadata:
      creationTimestamp: null
      labels:
        app: binpack-1
    spec:
      containers:
      - env:
        - name: NVIDIA_VISIBLE_DEVICES
          value: all
        image: hub.kce.ksyun.com/ksyun/gpu-player:v2
        imagePullPolicy: IfNotPresent
        name: binpack-1
        resources:
          limits:
            aliyun.com/gpu-mem: "1"
        terminationMessagePath: /dev/termination-log
        terminationMessagePolicy: File
      dnsPolicy: ClusterFirst
      restartPolicy: Always
      schedulerName: default-scheduler
      securityContext: {}
      terminationGracePeriodSeconds: 30
"""

ALL: Final = f"{KEP}---{KOORDINATOR}---{KUBERNETES_2016}---{ASCEND_JOBS}---{GPU_SHARE}"
