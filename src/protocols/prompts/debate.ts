/**
 * Prompts of the strategy `debate`. `query` is the question, `position` the position of the debater, and `debate` the
 * arguments, under headings with the debaters and their positions. `for` and `against` are the positions if none are
 * given; then the debater gets `ownSide` too.
 */
export const DEBATE = {
  for: 'for the proposition',
  against: 'against the proposition',
  ownSide: 'If your role takes another side, argue for that one.',
  argue:
    'You are in a debate, in round {round} of {rounds}. Your position: {position}. Argue for it, and answer what the others have said.\n\n# Question\n\n{query}\n\n# Said since your last turn\n\n{debate}',
  cite: 'Cite evidence for your argument: list in evidence what it rests on (sources, figures, facts that can be checked).',
  evidence: 'Your argument came without evidence. Give it again, with what it rests on in evidence.',
  verdict:
    'You judge this debate. Name in winner the debater who has the better of it, one of {debaters}, and say why in reasons.\n\n# Criteria\n\n{criteria}\n\n# Question\n\n{query}\n\n# Debate\n\n{debate}',
  criteria: 'Which arguments are sound, and which evidence bears them out. What came without evidence counts less.',
  answer:
    '{winner} has won the debate ({position}). Now answer the question for its reader: say which side has the better of it and why, and what speaks against it.\n\n# Question\n\n{query}\n\n# Your reasons\n\n{reasons}',
} as const
