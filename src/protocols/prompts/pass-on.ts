/** Prompts for what is passed on as a summary: to the model that writes it, and around the summary. */
export const PASS_ON = {
  summary: `Sum up what agents of your team have said, for "{agent}", who goes on from your summary alone. Keep facts, names, numbers, sources and paths; decisions and their reasons; what is open; and who said it. Keep the wording where it matters, and the language. Write plain sentences, at most {words} words, no preamble.

{text}`,

  passed: `(This is a summary: what was said before is too long to be passed on whole.)

{summary}`,
} as const
