/**
 * Prompts of the strategy `supervisor`, for its planner and its aggregator. `apology` is for the aggregator, if a model
 * plays it and no expert could help; a user's own text in its place is the answer itself.
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

  apology: `Nobody could help with this question. Write the answer for who asked it: one or two friendly sentences in the language of the question, which say what could not be found out, and that it can be tried again later. If it took too long, say so. Name no expert, no agent, no tool and no address, and call no tool.

# Question

{query}

# What was tried

{failures}`,
} as const
