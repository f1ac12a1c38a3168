/**
 * The rehearsal model, which answers if a team has no model: without key or network, and with nothing that could be
 * taken for a real answer. The answer depends only on the seed and the request. So a run can be repeated, whatever
 * other requests come meanwhile.
 */
import { textOf } from '../../actors/definition/content.ts'
import type { ModelClient, ModelMessage, ModelPiece, ModelRequest, ToolSpec } from '../../actors/definition/model.ts'
import { COLLEAGUES } from '../../actors/model/prompt.ts'
import { countPrompt, countTokens } from '../../actors/model/tokens.ts'
import { verbTool } from '../../actors/model/verb-tools.ts'
import { Dice } from '../../shared/random.ts'

const LABEL = '[rehearsal]'
const LONGEST_QUOTE = 160 // characters
const MOST_CALLS = 8 // of tools in one answer
const WORDS_OF_A_PIECE = 4

/**
 * Makes the rehearsal model, which works offline. A text answer repeats, with a label, the question and the results of
 * tools, or takes one of the names that a judge is asked for. A JSON answer is a value that fits the schema. Before
 * that, the model calls each offered tool once, all in one answer, with arguments that fit; tools that are not
 * `readOnly` do not run then. It never uses verbs (`request`, `delegate`, ...), because a run could go round in
 * circles, but for `publish` where it reads the board as well, and at times for `handoff` where it can turn to others
 * in no other way: that has a bound. `maxOutputTokens` cuts its text off like that of a real
 * model. `countTokens` counts its usage. `seed` is an integer.
 */
export function rehearsalModel(seed = 1): ModelClient {
  return { rehearsal: true, complete: (request) => answerTo(request, seed) }
}

async function* answerTo(request: ModelRequest, seed: number): AsyncGenerator<ModelPiece> {
  const { agent, runId = '', messages, tools = [], jsonSchema, model, signal } = request
  const { maxOutputTokens = Number.POSITIVE_INFINITY } = request
  const dice = new Dice(seed, whatIsAsked(request))
  const since = messages.slice(messages.findLastIndex(({ role }) => role === 'user') + 1)
  const runMark = `_${new Dice(seed, runId).upTo(2 ** 32).toString(36)}` // a conversation has calls of several runs
  const left = leftOf(tools, messages, since, runMark)
  // The sampler loads slowly, and a team of code agents never needs it.
  const sampleOf = left.length > 0 || jsonSchema ? (await import('./json-sample.ts')).sampleOf : () => undefined
  const calls = left.map(({ name, inputSchema }) => ({
    id: `call_${dice.upTo(2 ** 32).toString(36)}${runMark}`,
    name,
    input: JSON.stringify({
      ...Object(sampleOf(inputSchema, dice, LABEL)),
      ...(name === 'publish' && entryOf(agent)),
    }),
  }))
  const answer = () => (jsonSchema ? JSON.stringify(sampleOf(jsonSchema, dice, LABEL)) : words(request, since, dice))
  const heirs = calls.length === 0 ? heirsIn(tools, messages, since) : []
  if (heirs.length > 0 && dice.chance(HANDING_ODDS))
    calls.push({
      id: `call_${dice.upTo(2 ** 32).toString(36)}${runMark}`,
      name: HANDOFF,
      input: JSON.stringify({ to: dice.pick(heirs), task: `${LABEL} Go on with it.` }),
    })
  const text = calls.length > 0 ? '' : answer()
  const pieces = [
    ...piecesOf(text).map((piece) => ({ piece: { text: piece }, words: [piece] })),
    ...calls.map((toolCall) => ({ piece: { toolCall }, words: [toolCall.name, toolCall.input] })),
  ]
  let outputTokens = 0
  let isCut = false
  for (const { piece, words } of pieces) {
    signal.throwIfAborted()
    const tokens = words.reduce((sum, word) => sum + countTokens(word, model), 0)
    isCut = outputTokens + tokens > maxOutputTokens
    if (isCut) break
    outputTokens += tokens
    yield piece
  }
  const inputTokens = countPrompt(request)
  yield {
    usage: { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens, calls: 1 },
    finishReason: isCut ? 'length' : calls.length > 0 ? 'tool_calls' : 'stop',
  }
}

/** Each agent writes its own key, whoever comes first, and no optional field: made up it would be wrong. */
const entryOf = (agent = '') => {
  const left = { confidence: undefined, supersedes: undefined, references: undefined }
  return { key: `rehearsal.${agent}`, ...left }
}

/** Returns the request as text, without ids, because each run has other ids. */
function whatIsAsked({ model, agent, messages, tools, jsonSchema }: ModelRequest): string {
  const said = messages.map(({ role, content, toolCalls = [] }) => [role, content, toolCalls.map(({ name }) => name)])
  return JSON.stringify([model, agent, said, tools, jsonSchema])
}

/** Returns the tools that were not called since the last question, or, of those that write on a board, in the run. */
function leftOf(
  tools: readonly ToolSpec[],
  said: readonly ModelMessage[],
  since: readonly ModelMessage[],
  runMark: string,
): ToolSpec[] {
  const done = new Set(since.flatMap(({ toolCalls = [] }) => toolCalls.map(({ name }) => name)))
  const isAtBoard = tools.some(({ name }) => name === 'read_blackboard')
  const hasWritten = said.some(({ toolCalls = [] }) =>
    toolCalls.some(({ name, id }) => name === 'publish' && id.endsWith(runMark)),
  )
  const isUsed = (name: string) =>
    (!verbTool(name) || (isAtBoard && name === 'publish' && !hasWritten)) && !done.has(name)
  return tools.filter(({ name }) => isUsed(name)).slice(0, MOST_CALLS)
}

const HANDOFF = 'handoff'
const HANDING_ODDS = 0.4
/** Verbs by which agents without a bound turn to others. */
const TURNS: readonly string[] = ['request', 'send', 'delegate', 'delegate_to_executor']

/** Returns the names of agents to whom the model may hand off, if it has not tried to since the last question. */
function heirsIn(tools: readonly ToolSpec[], [system]: readonly ModelMessage[], since: readonly ModelMessage[]) {
  const offered = tools.map(({ name }) => name)
  const hasTried = since.some(({ toolCalls = [] }) => toolCalls.some(({ name }) => name === HANDOFF))
  if (hasTried || !offered.includes(HANDOFF) || offered.some((name) => TURNS.includes(name))) return []
  const [, others = ''] = textOf(system?.content ?? '').split(`\n${COLLEAGUES}\n`)
  return Array.from(others.matchAll(/^- ([^:\n]+)/gm), ([, name = '']) => name)
}

const ENDINGS = [
  'A model would now weigh the facts and say where they come from.',
  'A model would now give its reasons, then a conclusion.',
  'A model would now set out the choices and take one.',
  'A model would now answer in its own words.',
]

/** The end of a question for one of some names, such as a judge's. */
const CHOICE = /\balone: ([\w-]+(?:, [\w-]+)*)\.$/m

function words({ agent = 'The model', messages }: ModelRequest, since: readonly ModelMessage[], dice: Dice): string {
  const asked = messages.findLast(({ role }) => role === 'user') ?? messages.at(-1)
  const choice = CHOICE.exec(textOf(asked?.content ?? ''))?.[1]
  if (choice) return `${LABEL} ${dice.pick(choice.split(', '))}`
  const names = new Map(since.flatMap(({ toolCalls = [] }) => toolCalls.map(({ id, name }) => [id, name])))
  const told = since
    .filter(({ role }) => role === 'tool')
    .map(({ toolCallId = '', content }) => ` ${names.get(toolCallId) ?? 'A tool'} said "${quote(textOf(content))}".`)
  return `${LABEL} ${agent} was asked "${quote(textOf(asked?.content ?? ''))}".${told.join('')} ${dice.pick(ENDINGS)}`
}

function quote(text: string): string {
  const line = text
    .slice(0, 10 * LONGEST_QUOTE)
    .replaceAll(LABEL, '')
    .replaceAll(/\s+/g, ' ')
    .trim()
  const letters = [...line]
  return letters.length > LONGEST_QUOTE ? `${letters.slice(0, LONGEST_QUOTE).join('')}...` : line
}

function piecesOf(text: string): string[] {
  const all = text.match(/\S+\s*|^\s+/g) ?? []
  const count = Math.ceil(all.length / WORDS_OF_A_PIECE)
  return Array.from({ length: count }, (_, i) => all.slice(i * WORDS_OF_A_PIECE, (i + 1) * WORDS_OF_A_PIECE).join(''))
}
