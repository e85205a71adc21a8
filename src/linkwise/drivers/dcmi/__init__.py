"""Driver for Ascend NPUs through DCMI, Huawei's device management library."""
