/** Prompts of the strategy `collaborate` to the agents that split a task and that combine its results. */

export const COLLABORATE = {
  decompose: `Take the task apart into sub-tasks, each of which one member of a team can do alone. Reply with a JSON array of strings and nothing else, one string for each sub-task, in the order in which they are to be done. Reply with [] if the task is simple enough to be done in one piece.

# Task

{query}`,

  dependencies: `Take the task apart into sub-tasks, each of which one member of a team can do alone. Reply with JSON and nothing else: {"tasks": [{"task": "what to do", "dependsOn": [1]}]}, where dependsOn has the numbers, from 1, of the sub-tasks whose results it needs; it is [] for one that needs none. Add "runIf": {"task": 1, "outcome": "failed"} to one that is done only in that case (completed, failed, skipped), or "runIf": {"task": 1, "compare": "contains", "value": "yes"} to compare the result (equals, differs, contains, lacks, above, below). Reply with [] if the task is simple enough to be done in one piece.

# Task

{query}`,

  synthesize: `Members of a team have worked on this task. Make one text of their results: say who found what, and of what is missing that it is missing, and why. Add nothing of your own.

# Task

{query}

# Results

{results}`,
} as const
