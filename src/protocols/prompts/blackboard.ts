/** What the strategy `blackboard` says to its agents. */
export const BLACKBOARD = {
  /** To an agent that begins, when there is nothing on the board for it. */
  begin: '{query}',
  /** To an agent that there is something for. */
  contribute: '{query}\n\n# New on the blackboard\n\n{entries}',
  /** To the synthesizer, when there is no solution. */
  synthesize:
    'This is what a team has gathered on its blackboard. Reply with the one answer that follows from it.\n\n# Question\n\n{query}\n\n# Blackboard\n\n{entries}',
  /** In the place of entries where there are none; the run's answer too. */
  nothing: 'Nobody wrote anything on the blackboard.',
} as const
