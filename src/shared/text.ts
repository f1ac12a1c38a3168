/** "Did you mean ...?": the known name that a mistyped one was meant to be. */

/**
 * The nearest of the known names, or undefined if none is near: at most one letter in three may differ, and no more
 * than `most`. Letter case, '_' and '-' count for nothing, so that `max_tokens` finds `maxTokens`.
 *
 * @example
 * nearest('debtae', ['debate', 'auction']) // 'debate'
 */
export function nearest(word: string, known: Iterable<string>, most = Number.POSITIVE_INFINITY): string | undefined {
  let best: string | undefined
  let least = Number.POSITIVE_INFINITY
  const letters = plain(word)
  for (const name of known) {
    const other = plain(name)
    const longer = Math.max(letters.length, other.length)
    const limit = Math.min(Math.floor(longer / 3), most)
    if (Math.abs(letters.length - other.length) > limit || longer > LONGEST) continue
    const edits = distance(letters, other)
    if (edits > limit) continue
    const score = edits - commonStart(letters, other) / (LONGEST + 1) // of two as near, the one that begins alike
    if (score >= least) continue
    least = score
    best = name
  }
  return best
}

/** The known option that another library calls so, else the nearest one. */
export function optionMeant(word: string, known: readonly string[]): string | undefined {
  const letters = plain(word)
  const [own] =
    Object.entries(ELSEWHERE).find(([name, words]) => known.includes(name) && words.split(' ').includes(letters)) ?? []
  return own ?? nearest(word, known)
}

/**
 * Words for options in other libraries (the AI SDK, the agents SDK of OpenAI, LangChain, CrewAI and their kin), by
 * their names here; without '_' and '-'.
 */
const ELSEWHERE = {
  systemPrompt: 'instructions system prompt systemmessage preamble persona backstory goal',
  canDelegateTo: 'handoffs handoff subagents delegates',
  delegationAllowed: 'allowdelegation',
  output: 'outputtype outputschema responseformat resulttype structuredoutput schema',
  model: 'llm modelname modelid',
  maxRounds: 'maxturns maxsteps maxiterations maxiter stopwhen recursionlimit',
  tools: 'functions toolkit toolkits',
  guardrails: 'inputguardrails outputguardrails',
  input: 'parameters inputschema argsschema schema args',
  run: 'execute func invoke handler call callback',
  receive: 'execute func invoke handler call callback run',
  approval: 'needsapproval requireapproval',
  agents: 'workers members nodes crew',
  orchestration: 'process pattern workflow topology',
  stateManagement: 'checkpointer persistence',
  messages: 'history conversation previousmessages',
  threadId: 'sessionid session conversationid',
  signal: 'abortsignal',
  baseURL: 'endpoint apibase url',
}

const LONGEST = 100 // the work grows with the square of it, and no name is longer

function commonStart(one: string, other: string): number {
  let length = 0
  while (length < one.length && one[length] === other[length]) length++
  return length
}

function plain(word: string): string {
  return word.toLowerCase().replaceAll(/[_-]/g, '')
}

/**
 * Letters to insert, remove, replace or swap with their neighbour to get from one word to the other.
 * Source: "optimal string alignment"; a swap is what fingers do most, and plain Levenshtein counts it twice.
 */
function distance(from: string, to: string): number {
  let before: number[] = []
  let last = Array.from({ length: to.length + 1 }, (_, i) => i)
  for (let i = 1; i <= from.length; i++) {
    const row = [i]
    for (let j = 1; j <= to.length; j++) {
      const same = from[i - 1] === to[j - 1]
      let edits = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + (same ? 0 : 1))
      const swapped = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1]
      if (swapped) edits = Math.min(edits, before[j - 2]! + 1)
      row.push(edits)
    }
    before = last
    last = row
  }
  return last[to.length]!
}

/** Figures as all faces show them: terminal and page. */

export const grouped = (value: number): string => String(Math.round(value)).replace(/\B(?=(?:\d{3})+$)/g, ',')

export function quoted(text: string, always = false): string {
  if (!always && /^[\w./:@%+=,-]+$/.test(text)) return text
  return `"${text.replaceAll(/[\\"$`]/g, '\\$&')}"`
}

/*
 * Text of a stranger, shown to a person who decides by it: nothing in it is invisible, and nothing changes the order of
 * the rest.
 */

/** Controls, format and direction characters, fillers, private and unassigned ones, every space but the plain one. */
const unseen = () => /(?! )[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/gu

/** The same with what cannot be seen as `\u{...}`. Characters of `except` stay. */
export function visible(text: string, except = ''): string {
  return text.replaceAll(unseen(), (character) =>
    except.includes(character) ? character : `\\u{${character.codePointAt(0)!.toString(16)}}`,
  )
}
