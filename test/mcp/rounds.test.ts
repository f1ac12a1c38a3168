/** Calls of MCP tools in rounds: what their servers ask is a question to a person, over restarts too; and tasks. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import t from 'tap'
import { createTeam, type Run } from '../../src/index.ts'
import { type McpServer, mcpTools } from '../../src/mcp/index.ts'
import { silent } from '../kit/team.ts'
import { asked, type Call, callerModule, ledger } from '../toolbox/desk.ts'
import { modernHttp } from './modern-http-server.ts'

const modern = fileURLToPath(new URL('../fixtures/mcp/modern.js', import.meta.url))
const held = fileURLToPath(new URL('../fixtures/mcp/held-team.js', import.meta.url))

/** A run in which an agent calls that tool of the server. */
async function called(t: Test, server: McpServer, tool: string, input: object) {
  const { tools, close } = await mcpTools(server)
  const team = createTeam({
    agents: [{ name: 'ann', module: callerModule, tools }],
    orchestration: {
      strategy: 'custom',
      run: async (script, call) => JSON.stringify((await script.request('ann', call)).structuredData),
    },
    threads: { warmSpares: 0 },
    logger: silent,
  })
  t.teardown(close)
  t.teardown(() => team.close())
  return { team, run: team.launch(asked(tool, input)) }
}

async function outcomeOf(run: Run): Promise<Call | undefined> {
  const { finalOutput } = await run.result
  return (JSON.parse(finalOutput!) as { outcomes: Call[] }).outcomes[0]
}

/** Answers what the run asks, in its order, and resolves to the questions. */
async function answering(run: Run, answers: string[]): Promise<string[]> {
  const texts: string[] = []
  for await (const event of run.events({ types: ['question'] })) {
    if (event.type !== 'question') continue
    texts.push(event.text)
    await run.answer(event.questionId, answers.shift()!)
  }
  return texts
}

const served: [over: string, era: '2025' | '2026', server: (t: Test, file: string) => Promise<McpServer>][] = [
  ['stdio', '2026', async (_t, file) => ({ command: process.execPath, args: [modern, file], era: '2026' })],
  ['stdio', '2025', async (_t, file) => ({ command: process.execPath, args: [modern, file], era: '2025' })],
  ['HTTP', '2026', async (t, file) => ({ url: await modernHttp(t, file), era: '2026' })],
]

for (const [over, era, server] of served)
  t.test(`over ${over} in ${era}: what a server asks is a question to a person`, async (t) => {
    for (const [answers, output, effects] of [
      [['{"sure":true}', '{"sure":true}'], 'deployed to here', 1],
      [['{"sure":true}', 'no'], 'not deployed', 0],
    ] as [string[], string, number][]) {
      const { file, runs } = ledger(t)
      const { run } = await called(t, await server(t, file), 'deploy', { to: 'here' })
      const texts = await answering(run, answers)
      t.match(texts.sort(), [/^the MCP server .* asks: Deploy to here\? Answer "no", or in JSON/, /asks: Really\?/])
      t.match(await outcomeOf(run), { output })
      t.equal(runs(), effects)
    }
  })

t.test(
  'an address that a person is to open is shown whole; a no is a decline, and other addresses are refused',
  async (t) => {
    const { file } = ledger(t)
    const url = await modernHttp(t, file)
    for (const [address, answers, outcome] of [
      ['https://login.example/?a=1', ['done'], { output: '{"login":{"action":"accept"}}' }],
      ['https://login.example/?a=1', ['declined'], { output: '{"login":{"action":"decline"}}' }],
      ['file:///etc/passwd', [], { code: 'TOOL_FAILED', message: /which is no address of the web/ }],
    ] as [string, string[], Call][]) {
      const { run } = await called(t, { url }, 'open', { url: address })
      const texts = await answering(run, answers)
      t.match(texts, answers.length > 0 ? [/asks: Log in\. Open https:\/\/login\.example\/\?a=1$/] : [])
      t.match(await outcomeOf(run), outcome)
    }
  },
)

t.test('a server that never has enough is given up', async (t) => {
  const { file } = ledger(t)
  const { run } = await called(t, { url: await modernHttp(t, file) }, 'endless', {})
  t.match(await outcomeOf(run), { code: 'TOOL_FAILED', message: /it asked for more in each of 10 rounds/ })
})

t.test('a task is waited for to its end, and what it asks is asked once', async (t) => {
  const { file, keys } = ledger(t)
  const { run } = await called(t, { url: await modernHttp(t, file) }, 'slow', {})
  t.match(await answering(run, ['{"sure":true}']), [/asks: Go on\?/])
  t.match(await outcomeOf(run), { output: 'done {"q":{"action":"accept","content":{"sure":true}}}' })
  t.same(keys(), ['begun', 'update {"q":{"action":"accept","content":{"sure":true}}}'])
})

t.test('the server is told that nobody waits for a task any more', async (t) => {
  const { file, keys } = ledger(t)
  const { run } = await called(t, { url: await modernHttp(t, file) }, 'slow', {})
  for await (const event of run.events({ types: ['question'] }))
    if (event.type === 'question') await run.cancel('enough')
  await run.result
  while (keys().length < 2) await new Promise((resolve) => setImmediate(resolve))
  t.match(keys(), ['begun', /^cancel t/])
})

/** Where the service dies, and whether the outcome may be unknown then; and the effects of each tool. */
const deaths: [tool: string, input: object, effect: RegExp, points: [die: string, mayBeUnknown: boolean][]][] = [
  [
    'deploy',
    { to: 'here' },
    /^deployed/,
    [
      ['before 1', true],
      ['after 1', true],
      ['asked', false],
      ['answered', false],
      ['before 2', true],
      ['after 2', true],
    ],
  ],
  [
    'slow',
    {},
    /^begun/,
    [
      ['after 1', true],
      ['asked', false],
      ['answered', false],
      ['before 2', false],
      ['after 2', false],
    ],
  ],
]

for (const [tool, input, effect, points] of deaths)
  for (const [die, mayBeUnknown] of points)
    t.test(`${tool}: a service that is killed (${die}) goes on, and does nothing twice`, async (t) => {
      const folder = mkdtempSync(join(tmpdir(), 'dramatis-held-'))
      t.teardown(() => rmSync(folder, { recursive: true, force: true }))
      const { file, keys } = ledger(t)
      const url = await modernHttp(t, file)
      const life = async (death: string) => {
        const args = [held, join(folder, 'log'), url, tool, JSON.stringify(input), death]
        const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'ignore'] })
        const said = child.stdout.toArray()
        const [code, signal] = (await once(child, 'exit')) as [number | null, string | null]
        return { code, signal, said: (await said).join('') }
      }
      t.match(await life(die), { signal: 'SIGKILL' })
      const { said, code } = await life('')
      t.equal(code, 0)
      const { outcomes } = JSON.parse(said) as { outcomes: Call[] }
      const isUnknown = outcomes[0]?.code === 'OUTCOME_UNKNOWN'
      t.equal(isUnknown, mayBeUnknown, said)
      const effects = keys().filter((line) => effect.test(line)).length
      t.ok(isUnknown ? effects <= 1 : effects === 1, keys().join())
    })
