/** Verbs of a model for what agents share: the blackboard, and shared state. Source: document 002, 2.4. */
import type { SharedScope } from '../definition/context/context.ts'
import { POLL_MARK } from '../definition/poll-mark.ts'
import { ALONE, shownValue, TEXT, tool, type VerbTool } from './verb-tool.ts'

const SCOPE = {
  type: 'string',
  enum: ['agent_shared', 'team_shared', 'persistent'],
  description:
    'agent_shared: what one agent lets others read; team_shared: of the whole team; persistent: also of later sessions.',
} as const

export const STATE_TOOLS: readonly VerbTool[] = [
  tool(
    'publish',
    "Writes an entry on the team's blackboard.",
    {
      key: TEXT,
      value: { description: 'Any JSON value.' },
      entryType: { ...TEXT, description: 'Such as fact, finding, solution.' },
      confidence: { type: 'number', description: 'How sure you are of it, from 0 to 1.' },
      supersedes: { ...TEXT, description: 'The key of an entry that it replaces.' },
      references: { type: 'array', items: TEXT, description: 'The keys of the entries that it is based on.' },
    },
    ['key', 'value', 'entryType'],
    async ({ context }, { key, value, entryType, ...options }) => {
      const entry = await context.publish(String(key), value, String(entryType), options) // the host checks these
      return { text: `Written: "${entry.key}", version ${entry.version}.`, means: `Written: "${entry.key}".` }
    },
    ALONE,
  ),
  tool(
    'read_blackboard',
    "Reads the entries of the team's blackboard.",
    {
      key: { ...TEXT, description: 'Only entries of that key.' },
      entryType: { ...TEXT, description: 'Only entries of that type.' },
      ...POLL_MARK,
    },
    [],
    async ({ context }, { polling: _mark, ...filter }) => ({
      text: shownValue(await context.blackboard.query(filter)),
    }),
  ),
  tool(
    'subscribe',
    "Lets you read each new entry of the team's blackboard whose key fits a pattern, from now on.",
    { pattern: { ...TEXT, description: "Such as finding.*; '*' stands for one word, '**' for any number of words." } },
    ['pattern'],
    async (turn, { pattern }) => {
      await turn.news.subscribe(String(pattern))
      return { text: `You will read new entries that fit "${pattern}".` }
    },
    ALONE,
  ),
  tool(
    'blackboard_history',
    "Reads all versions of an entry of the team's blackboard, the oldest first.",
    { key: TEXT },
    ['key'],
    async ({ context }, { key }) => ({ text: shownValue(await context.blackboard.getHistory(String(key))) }),
  ),
  tool(
    'read_shared',
    'Reads a value that agents of the team share; null if there is none.',
    {
      scope: SCOPE,
      key: TEXT,
      owner: { ...TEXT, description: 'Of agent_shared: whose value it is, if not yours.' },
      ...POLL_MARK,
    },
    ['scope', 'key'],
    async ({ context }, { scope, key, owner }) => {
      const state = context.shared(scope as SharedScope, owner as string | undefined)
      return { text: shownValue(await state.get(String(key))) }
    },
  ),
  tool(
    'write_shared',
    'Sets a value that agents of the team share, in place of the one that is there.',
    { scope: SCOPE, key: TEXT, value: { description: 'Any JSON value.' } },
    ['scope', 'key', 'value'],
    async ({ context }, { scope, key, value }) => {
      await context.shared(scope as SharedScope).update(String(key), () => value)
      return { text: `Written: "${key}".` }
    },
    ALONE,
  ),
]
