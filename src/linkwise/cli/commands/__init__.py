"""Commands, one file each; their work and output are in the folders beside this one."""
