"""The verbs for one pod: filter, bind, and questions that change nothing."""
