"""Planning of groups: the planner's input, runs in steps, preemption of plans, and what-if plans."""
