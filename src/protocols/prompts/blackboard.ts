/** Prompts of the strategy `blackboard`. */
export const BLACKBOARD = {
  /** Prompt to an agent that begins, when the board has no entries for it. */
  begin: '{query}',
  /** Prompt to an agent with new entries. */
  contribute: '{query}\n\n# New on the blackboard\n\n{entries}',
  /** Prompt to the synthesizer, when there is no solution. */
  synthesize:
    'This is what a team has gathered on its blackboard. Reply with the one answer that follows from it.\n\n# Question\n\n{query}\n\n# Blackboard\n\n{entries}',
  /** Text that replaces the entries if there are none; it is the run's answer too. */
  nothing: 'Nobody wrote anything on the blackboard.',
} as const
