/** Prompts of the strategy `hierarchical`. */
export const HIERARCHICAL = {
  plan: `Plan how your workers do the job below. Give each only what it is good at, and nothing twice. A worker sees nothing but its task, so write into it all that it needs. In dependsOn are the numbers, counted from 1, of the tasks whose results it needs. Leave the tasks empty if no worker is needed any more.

# Job

{query}

# Workers

{workers}`,
  alone: `You give no tasks. Answer the job below yourself.

# Job

{query}`,
  propose: `Say in a few sentences how you would do the task below. Do not do it yet: your manager has to agree.

# Task

{task}`,
  approve: `"{worker}" proposes how to do its task. Approve it, or say in the remarks what it has to do otherwise.

# Task

{task}

# Proposal

{proposal}`,
  task: '{task}',
  earlier: `# Results of earlier tasks

{results}`,
  agreed: `# How you do it

{proposal}`,
  remarks: `# Remarks of your manager

{remarks}`,
  review: `"{worker}" has done its task. Approve the result, or say in the remarks what has to be better; it is sent back once.

# Task

{task}

# Result

{result}`,
  again: `# Your first result

{result}`,
  reassign: `"{worker}" has not done its task: {error}

Name the worker that is to do it now, it may be the same one, or null to go on without. Say in the remarks what it has to do otherwise.

# Task

{task}

# Workers

{workers}`,
  summary: `Answer the job below from the results of your workers. Say what could not be done.

# Job

{query}

# Results

{results}`,
} as const
