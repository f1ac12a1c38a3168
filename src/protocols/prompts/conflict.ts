/**
 * Prompts to a judge about answers that contradict each other. `answers` are under headings with their agents' names.
 */
export const CONFLICT = {
  find: 'Which statements of these answers contradict each other? List each contradiction: what it is about, and the statement of each agent on it, word for word. An empty list if there is none. What they only put in other words is none.\n\n# Question\n\n{query}\n\n# Answers\n\n{answers}',
  join: 'Make one answer of these. Where they contradict each other keep to what is decided, and leave the rest of it out.\n\n# Question\n\n{query}\n\n# Decided\n\n{decided}\n\n# Answers\n\n{answers}',
} as const
