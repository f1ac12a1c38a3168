/** Prompts to an agent that decides over the answers of others. */
export const JUDGE = {
  best: 'Which of these answers is the best? Reply with the name of its agent alone: {names}.\n\n# Question\n\n{query}\n\n# Answers\n\n{answers}',
  synthesize:
    'These answers differ. Reconcile them: reply with the one answer that they support together.\n\n# Question\n\n{query}\n\n# Answers\n\n{answers}',
} as const
