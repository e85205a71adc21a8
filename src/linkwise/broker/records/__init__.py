"""What the broker keeps of groups and preemptions: one record each, and the stages of a group."""
