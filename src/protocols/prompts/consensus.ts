/** Prompts of the strategy `consensus`. `query` is the question, `positions` a numbered list of the answers. */
export const CONSENSUS = {
  vote: 'Your team has to agree on one answer. Vote for one of these by its number.\n\n# Question\n\n{query}\n\n# Answers\n\n{positions}',
  discuss:
    'Your team has to agree on one answer. This is what each of you holds. Name in agreesWith the one whose answer you take (yourself to keep yours), or give another answer in answer. Say why in reasons.\n\n# Question\n\n{query}\n\n# Positions\n\n{positions}',
  draft:
    'Your team has to agree on one answer. Write the one that all of you can accept: reply with it alone.\n\n# Question\n\n{query}\n\n# Positions\n\n{positions}\n\n# Objections to your last text\n\n{objections}',
  accept:
    'Can you accept this as the answer of your team? If not, say in objection what has to change.\n\n# Question\n\n{query}\n\n# Answer\n\n{draft}',
  tieBreak:
    'Your team does not agree. Decide: choose one of these by its number, and say why in reasons.\n\n# Question\n\n{query}\n\n# Answers\n\n{positions}',
} as const
