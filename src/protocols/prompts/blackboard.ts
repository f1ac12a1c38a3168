/** Prompts of the strategy `blackboard`. */
export const BLACKBOARD = {
  /** Prompt to an agent that begins, when the board has no entries for it. */
  begin: '{query}',
  /** Prompt to an agent with new entries. */
  contribute: '{query}\n\n# New on the blackboard\n\n{entries}',
  /** Prompt to the synthesizer, when there is no solution. */
  synthesize:
    'This is what a team has gathered on its blackboard. Reply with the one answer that follows from it.\n\n# Question\n\n{query}\n\n# Blackboard\n\n{entries}',
  /** Said to a model with the first two: how it contributes. */
  write:
    'What you add counts as an entry of the blackboard alone: write it with publish. An entry of the type "{solutionType}" is the answer of the team, and ends the work.',
} as const
