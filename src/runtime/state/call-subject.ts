/** Subject of the call of a verb, by its arguments: a sync point, a key, a tool, an agent or a model. */
const SUBJECTS = ['point', 'key', 'name', 'agent', 'model', 'pattern'] as const

export function subjectOf(args: Readonly<Record<string, unknown>>): string | undefined {
  return SUBJECTS.map((field) => args[field]).find((value) => typeof value === 'string')
}
