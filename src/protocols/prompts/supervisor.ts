/**
 * Prompts of the strategy `supervisor`, for its planner and its aggregator. `apology` is the text of a run in which no
 * expert could help.
 */

export const SUPERVISOR = {
  plan: `Take this question apart into tasks for the experts below: one task for each thing that is asked for, in the language of the question. An expert may get several tasks, or none. Tasks are worked on at the same time, but for those that depend on others.

# Question

{query}

# Experts

{experts}`,

  replan: `A task of your plan has failed. Give one task in its place: for another expert, in other words, or with another input. Give none where no task can help.

# Question

{query}

# The task that failed

{task} (by {agent})

# Why

{reason}

# Experts

{experts}`,

  combine: `Answer the question from these results alone, in the language of the question, in your own words. Say of what is missing that it could not be found out, and why.

# Question

{query}

# Results

{results}`,

  apology: `None of the experts could help this time:

{failures}

Please try again later.`,
} as const
