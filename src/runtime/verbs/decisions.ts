/** Verb with which an agent explains a choice that it has made. The log keeps the explanation, for people. */
import type { Verb } from '../../actors/definition/trust.ts'
import { refused } from '../checks/refused.ts'
import type { Journal } from '../state/journal.ts'
import type { HostVerb } from './host-verb.ts'

interface Needs {
  readonly journal: Journal
}

export const decisionVerbs = (needs: Needs): [Verb, HostVerb][] => [
  [
    'decide',
    (args, { run }) => {
      const { question, choice, reason } = args as { question: string; choice: string; reason: string }
      for (const [path, value] of Object.entries({ question, choice, reason }))
        if (typeof value !== 'string') throw refused(path, value, 'a string')
      needs.journal.record(run, { kind: 'decision', question, choice, reason })
    },
  ],
]
