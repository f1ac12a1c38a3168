/** What a round of the game can have in it: one hostile thing each, and what it may come to. */
import { fileURLToPath } from 'node:url'
import { mcpTools } from '../../src/mcp/index.ts'
import type { Dice } from '../dice.ts'
import { ATTACKS } from '../fixtures/hostile/agent.ts'
import { HARMS } from '../fixtures/hostile/mcp-server.ts'
import { TOOL_ACTS } from '../fixtures/hostile/tools.ts'
import { ANSWERS, PAGES } from '../fixtures/hostile/web.ts'
import { call } from '../tools/calls.ts'
import { hostileCode } from '../tools/hostile-code.ts'
import { hostileCsv, hostileJson, hostileUnits, hostileYaml } from '../tools/hostile-data.ts'
import { hostileExpressions } from '../tools/hostile-expressions.ts'
import { codeOf, type Ending, MALLORIES, type Stage } from './stage.ts'

export interface Part {
  readonly name: string
  play(stage: Stage, dice: Dice): Promise<Ending>
}

const parts = (
  kind: string,
  names: readonly string[],
  play: (name: string, stage: Stage, dice: Dice) => Promise<Ending>,
) => names.map((name): Part => ({ name: `${kind}: ${name}`, play: (stage, dice) => play(name, stage, dice) }))

const attacks = parts('agent', ATTACKS, async (name, stage, dice) => {
  const agent = dice.pick(MALLORIES)
  const ending = await stage.run(agent, name)
  if (name.startsWith('break ')) stage.disinfect(agent)
  return ending
})

const posts = parts('posts of an agent', ['post', 'scribble', 'flood', 'pour'], (name, stage, dice) =>
  stage.run('vandal', `${name} ${dice.upTo(2 ** 31)}`),
)

const clumsy = [
  'throw',
  'throw a string',
  'throw later',
  'reject',
  'exit',
  'exit once',
  'ring',
  'never',
  'let go',
  'large',
]
const accidents = parts('accident of an agent', clumsy, (name, stage) => stage.run('clumsy', name))

const acts = parts('tool', TOOL_ACTS, (act, stage) => stage.tool('harm', { act }))
const forgeries: Record<string, object> = {
  posting: { posts: [5, null, { log: 'fatal', fields: '{}' }, { done: 5 }, { ready: true }] },
  flood: { flood: 100_000 },
  infecting: {},
  honest: {},
}
const posting = parts('posts of a tool', Object.keys(forgeries), (name, stage) =>
  stage.tool(name === 'flood' ? 'posting' : name, forgeries[name]!, 2),
)

const models = parts('model', Object.keys(ANSWERS), (name, stage) => stage.run('oracle', name))
const pages = parts('page', Object.keys(PAGES), (name, stage) =>
  stage.tool('read_webpage', { url: stage.pageOf(name) }),
)

const texts: Record<string, (dice: Dice) => [tool: string, input: object]> = {
  program: (dice) => ['run_code', { code: dice.pick(hostileCode) }],
  loop: () => ['run_code', { code: 'for (;;);' }],
  memory: () => ['run_code', { code: 'const a = []; for (;;) a.push(new Array(10000).fill(a))' }],
  expression: (dice) => ['calculator', { expression: dice.pick(hostileExpressions) }],
  document: (dice) => {
    const [from, values] = dice.pick([
      ['yaml', hostileYaml],
      ['json', hostileJson],
      ['csv', hostileCsv],
    ] as const)
    return ['convert', { value: dice.pick(values), from, to: from === 'json' ? 'yaml' : 'json' }]
  },
  unit: (dice) => ['convert', { value: '1', from: dice.pick(hostileUnits), to: 'm' }],
}
const sandboxed = parts('text', Object.keys(texts), (name, stage, dice) => stage.tool(...texts[name]!(dice)))

const program = fileURLToPath(new URL('../fixtures/hostile/mcp-server.js', import.meta.url))
const servers = parts('MCP server', HARMS, async (harm) => {
  try {
    const server = { command: process.execPath, args: [program, harm] }
    await using mcp = await mcpTools(server, { connectTimeoutMs: 3_000, timeoutMs: 2_000 })
    for (const tool of mcp.tools) await call(tool, {}, AbortSignal.timeout(2_000))
    return 'answered'
  } catch (error) {
    return codeOf(error)
  }
})

export const PARTS: readonly Part[] = [
  ...attacks,
  ...posts,
  ...accidents,
  ...acts,
  ...posting,
  ...models,
  ...pages,
  ...sandboxed,
  ...servers,
]
