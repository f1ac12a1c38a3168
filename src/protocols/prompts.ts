/**
 * Prompts of strategies. The defaults of each strategy are in one file of this folder; a user's own text replaces a
 * default by its name. `{word}` is a placeholder for a value that the strategy knows when it sends the prompt.
 */

import { type Check, isObject, NO_SUCH_OPTION, refused } from '../shared/checks.ts'
import { ConfigurationError } from '../shared/errors.ts'
import { nearest } from '../shared/text.ts'
import { own } from '../shared/values.ts'

/** Returns a prompt with sections under headings. */
export const withSections = (words: string, sections: Readonly<Record<string, string>>): string =>
  [words, ...Object.entries(sections).map(([title, text]) => `# ${title}\n\n${text}`)].join('\n\n')

/**
 * Prompts to a judge about answers that contradict each other. `answers` are under headings with their agents' names.
 */
export const CONFLICT = {
  find: 'Which statements of these answers contradict each other? List each contradiction: what it is about, and the statement of each agent on it, word for word. An empty list if there is none. What they only put in other words is none.\n\n# Question\n\n{query}\n\n# Answers\n\n{answers}',
  join: 'Make one answer of these. Where they contradict each other keep to what is decided, and leave the rest of it out.\n\n# Question\n\n{query}\n\n# Decided\n\n{decided}\n\n# Answers\n\n{answers}',
} as const

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

export const HIERARCHICAL = {
  plan: withSections(
    'Plan how your workers do the job below. Give each only what it is good at, and nothing twice. A worker sees nothing but its task, so write into it all that it needs. In dependsOn are the numbers, counted from 1, of the tasks whose results it needs. Leave the tasks empty if no worker is needed any more.',
    { Job: '{query}', Workers: '{workers}' },
  ),
  alone: withSections('You give no tasks. Answer the job below yourself.', { Job: '{query}' }),
  propose: withSections(
    'Say in a few sentences how you would do the task below. Do not do it yet: your manager has to agree.',
    { Task: '{task}' },
  ),
  approve: withSections(
    '"{worker}" proposes how to do its task. Approve it, or say in the remarks what it has to do otherwise.',
    { Task: '{task}', Proposal: '{proposal}' },
  ),
  task: '{task}',
  earlier: '# Results of earlier tasks\n\n{results}',
  agreed: '# How you do it\n\n{proposal}',
  remarks: '# Remarks of your manager\n\n{remarks}',
  review: withSections(
    '"{worker}" has done its task. Approve the result, or say in the remarks what has to be better; it is sent back once.',
    { Task: '{task}', Result: '{result}' },
  ),
  again: '# Your first result\n\n{result}',
  reassign: withSections(
    `"{worker}" has not done its task: {error}

Name the worker that is to do it now, it may be the same one, or null to go on without. Say in the remarks what it has to do otherwise.`,
    { Task: '{task}', Workers: '{workers}' },
  ),
  summary: withSections('Answer the job below from the results of your workers. Say what could not be done.', {
    Job: '{query}',
    Results: '{results}',
  }),
} as const

export const JUDGE = {
  best: 'Which of these answers is the best? Reply with the name of its agent alone: {names}.\n\n# Question\n\n{query}\n\n# Answers\n\n{answers}',
  synthesize:
    'These answers differ. Reconcile them: reply with the one answer that they support together.\n\n# Question\n\n{query}\n\n# Answers\n\n{answers}',
} as const

export type Prompts<Name extends string> = Readonly<Record<Name, string>>

const placeholder = () => /\{(\p{L}[\p{L}\p{Nd}]*)\}/gu

/** Returns the prompt of that name with its placeholders filled. A value is inserted as it is, whatever it contains. */
export type Speak<Name extends string> = (name: Name, values: Readonly<Record<string, string | number>>) => string

/**
 * Returns a function that fills the strategy's prompts, or the user's that replace them.
 *
 * @example
 * const say = speaking(DEBATE, config.prompts)
 * await orchestrator.request(judge, say('judge', { query, transcript }))
 */
export function speaking<Name extends string>(
  defaults: Prompts<Name>,
  texts: Partial<Record<string, string>> = {},
): Speak<Name> {
  return (name, values) =>
    (own(texts, name) ?? defaults[name]).replaceAll(placeholder(), (whole, word: string) =>
      String(own(values, word) ?? whole),
    )
}

/** Checks a user's own prompts: each has the name of one of the strategy's, and no placeholders but those. */
export function promptsOf(defaults: Prompts<string>): Check {
  const names = Object.keys(defaults)
  return (given, path) => {
    if (!isObject(given)) throw refused(path, given, `an object with texts of your own for ${names.join(', ')}`)
    for (const [name, text] of Object.entries(given)) {
      const ours = own(defaults, name)
      if (ours === undefined) throw unknownPrompt(`${path}.${name}`, name, names)
      if (text === undefined) continue
      if (typeof text !== 'string' || text.trim() === '')
        throw refused(`${path}.${name}`, text, 'a text that is not empty')
      const places = placesOf(ours)
      const other = placesOf(text).find((place) => !places.includes(place))
      if (other !== undefined) throw unknownPlace(`${path}.${name}`, other, places)
    }
  }
}

const placesOf = (text: string): string[] => [...new Set([...text.matchAll(placeholder())].map(([whole]) => whole))]

function unknownPrompt(path: string, name: string, names: readonly string[]): ConfigurationError {
  const meant = nearest(name, names)
  const advice = meant === undefined ? 'remove it.' : `did you mean "${meant}"?`
  const accepted = names.join(', ')
  const message = `${path}: this strategy has no such text; ${advice} Accepted: ${accepted}.`
  return new ConfigurationError(message, { path, got: NO_SUCH_OPTION, accepted })
}

function unknownPlace(path: string, place: string, places: readonly string[]): ConfigurationError {
  const accepted = places.join(', ') || 'none'
  const meant = nearest(place, places)
  const advice = meant === undefined ? 'remove it' : `did you mean ${meant}?`
  const message = `${path}: nothing is known here that ${place} could stand for; ${advice} Accepted: ${accepted}.`
  return new ConfigurationError(message, { path, got: place, accepted })
}
