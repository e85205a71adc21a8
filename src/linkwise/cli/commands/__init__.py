"""The commands, one file each; what they work out and show is beside this folder."""
