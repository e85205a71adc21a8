"""AMD GPUs: the AMD SMI library, the tools amd-smi and rocm-smi, and the files of the kernel driver."""
