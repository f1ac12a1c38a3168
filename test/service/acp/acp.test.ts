/** A team as an agent of the Agent Client Protocol: prompts, permissions, questions in words, and sessions that load. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough, Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import * as acp from '@agentclientprotocol/sdk'
import t, { type Test } from 'tap'
import { createTeam } from '../../../src/index.ts'
import { serveAcp } from '../../../src/service/acp/stdio.ts'
import { silent } from '../../kit/team.ts'
import { opening } from '../chat/desk.ts'
import { openShop, type Shop } from '../chat/shop.ts'

const cli = fileURLToPath(new URL('../../../src/service/cli.js', import.meta.url))
const file = fileURLToPath(new URL('../../fixtures/mcp/shop-team.js', import.meta.url))
const { agent: of, client: to } = acp.methods

type Asked = acp.RequestPermissionRequest
type Outcome = acp.RequestPermissionOutcome

/** The editor's end of two pipes: what it is told, and what it says to requests for permission. */
async function editor(
  pipes: { stdin: Writable; stdout: Readable },
  decide: (asked: Asked) => Outcome | Promise<Outcome>,
) {
  const told: acp.SessionUpdate[] = []
  const asked: Asked[] = []
  const connection = acp
    .client({ name: 'editor' })
    .onRequest(to.session.requestPermission, async ({ params }) => {
      asked.push(params)
      return { outcome: await decide(params) }
    })
    .onNotification(to.session.update, ({ params }) => void told.push(params.update))
    .connect(
      acp.ndJsonStream(
        Writable.toWeb(pipes.stdin) as WritableStream<Uint8Array>,
        Readable.toWeb(pipes.stdout) as ReadableStream<Uint8Array>,
      ),
    )
  const { agent } = connection
  const begun = await agent.request(of.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} })
  const { sessionId } = await agent.request(of.session.new, { cwd: '/', mcpServers: [] })
  const prompt = (text: string) => agent.request(of.session.prompt, { sessionId, prompt: [{ type: 'text', text }] })
  const text = () =>
    told
      .flatMap((update) =>
        update.sessionUpdate === 'agent_message_chunk' && update.content.type === 'text' ? [update.content.text] : [],
      )
      .join('')
  return { agent, begun, sessionId, prompt, told, asked, text }
}

/** A shop that is served to an editor. */
async function served(t: Test, { approveOwn = false, ...shop }: Partial<Shop> & { approveOwn?: boolean } = {}) {
  const done: string[] = []
  const team = openShop({ does: (what) => done.push(what), ...shop })
  const caller = { id: 'local', may: ['run', 'watch', 'operate', 'approve'] as const }
  const closes: (() => Promise<unknown>)[] = [() => team.close()]
  const open = async (decide: (asked: Asked) => Outcome | Promise<Outcome> = () => picked('yes')) => {
    const [stdin, stdout] = [new PassThrough(), new PassThrough()]
    const write = async (text: string) => void stdout.write(text)
    const options = { teams: { shop: team }, approveOwn, logger: silent }
    const { close } = await serveAcp(options, caller, { stdin, answer: { write } })
    closes.unshift(close)
    return editor({ stdin, stdout }, decide)
  }
  t.teardown(async () => {
    for (const close of closes) await close()
  })
  return { team, done, open }
}

const picked = (optionId: string): Outcome => ({ outcome: 'selected', optionId })

t.test('a prompt is a run, whose words and calls the editor is told', async (t) => {
  const { open, team } = await served(t)
  const { begun, prompt, told, text, sessionId } = await open()
  t.match(begun, { protocolVersion: 1, agentCapabilities: { loadSession: true }, agentInfo: { name: 'shop' } })
  t.same(await prompt('use find lamp'), { stopReason: 'end_turn' })
  t.match(text(), /Let me see\..*result: {"done":"lamp"}/s)
  t.match(
    told.filter(({ sessionUpdate }) => /^tool/.test(sessionUpdate)),
    [
      { sessionUpdate: 'tool_call', title: 'find (shop)', status: 'in_progress', rawInput: { what: 'lamp' } },
      { sessionUpdate: 'tool_call_update', status: 'completed', rawOutput: { done: 'lamp' } },
    ],
  )
  await prompt('think hard')
  t.ok(told.some(({ sessionUpdate }) => sessionUpdate === 'agent_thought_chunk'))
  t.same(
    (await team.listRuns()).map(({ threadId }) => threadId),
    [sessionId, sessionId],
  )
})

t.test('an approval that the editor may give is a request for permission', async (t) => {
  const { open, done } = await served(t)
  let answer = 'yes'
  const { prompt, asked, text } = await open(() => picked(answer))
  await prompt('use buy lamp')
  t.match(asked, [{ toolCall: { title: 'buy (shop)', rawInput: { what: 'lamp' } } }])
  t.same(
    asked[0]!.options.map(({ kind }) => kind),
    ['allow_once', 'reject_once'],
  )
  answer = 'no'
  await prompt('use buy sofa')
  t.match(text(), /did not agree/)
  t.same(done, ['buy lamp'])
})

t.test(
  'an approval of others is told, and nothing to answer; who has asked cannot give it by hand either',
  async (t) => {
    const { open, done, team } = await served(t)
    const { prompt, asked, text, agent } = await open()
    const ended = prompt('use pay rent')
    while (!/local began this run and cannot approve it/.test(text())) await new Promise(setImmediate)
    const [question] = team.questions()
    await t.rejects(agent.request('dramatis/answer', { questionId: question!.questionId, answer: 'yes' }))
    await agent.notify('session/request_permission', { outcome: picked('yes') })
    t.same([asked, done], [[], []])
    await team.answer(question!.questionId, 'yes', { by: { id: 'bob' } })
    t.same(await ended, { stopReason: 'end_turn' })
    t.same(done, ['pay rent'])
  },
)

t.test('with approveOwn the person at the editor approves its own calls', async (t) => {
  const { open, done } = await served(t, { approveOwn: true })
  const { prompt } = await open()
  await prompt('use pay rent')
  t.same(done, ['pay rent'])
})

t.test('a question in words ends the turn, and the next prompt answers it', async (t) => {
  const { open } = await served(t)
  const { prompt, text } = await open()
  t.same(await prompt('use ship lamp'), { stopReason: 'end_turn' })
  t.match(text(), /Where to\? Answer "no", or in JSON/)
  t.same(await prompt('{"street":"Long Lane"}'), { stopReason: 'end_turn' })
  t.match(text(), /"shipped":"lamp","to":"{\\"street\\":\\"Long Lane\\"}"/)
})

t.test('a cancelled prompt ends so, also while it asks', async (t) => {
  const gate = opening()
  const { open, done, team } = await served(t, { pause: (word) => (word === 'slowly' ? gate.promise : undefined) })
  const { prompt, agent, sessionId, asked } = await open(() => new Promise(() => {}))
  for (const [text, isAt] of [
    ['say slowly', async () => (await team.listRuns()).length > 0],
    ['use buy lamp', async () => asked.length > 0],
  ] as const) {
    const ended = prompt(text)
    await t.rejects(prompt('say more'), { code: -32_602 })
    while (!(await isAt())) await new Promise(setImmediate)
    await agent.notify(of.session.cancel, { sessionId })
    const next = prompt('say again') // an editor does not wait
    t.same(await ended, { stopReason: 'cancelled' })
    t.same(await next, { stopReason: 'end_turn' })
  }
  gate.resolve()
  t.same(done, [])
  const ends = (await team.listRuns()).map(({ status }) => status)
  t.same(ends.filter((status) => status === 'aborted').length, 2)
})

t.test('a session loads: what was said comes again, and a stranger finds none', async (t) => {
  const { open, team } = await served(t)
  const first = await open()
  await first.prompt('say hello')
  await first.prompt('use find lamp')
  const next = await open()
  const { sessionId } = first
  await next.agent.request(of.session.load, { sessionId, cwd: '/', mcpServers: [] })
  t.match(
    next.told.flatMap((update) => ('content' in update && !Array.isArray(update.content) ? [update.content] : [])),
    [{ text: 'say hello' }, { text: /hello/ }],
  )
  t.equal(next.told.filter(({ sessionUpdate }) => sessionUpdate === 'tool_call').length, 1)
  await next.agent.request(of.session.prompt, { sessionId, prompt: [{ type: 'text', text: 'recall' }] })
  t.match(next.text(), /say hello\|use find lamp\|recall/)
  await team.execute('say something', { threadId: 's_eves', caller: 'eve' })
  for (const other of ['s_none', 's_eves'])
    await t.rejects(next.agent.request(of.session.load, { sessionId: other, cwd: '/', mcpServers: [] }), {
      code: -32_002,
      message: `There is no session "${other}" here.`,
    })
})

for (const isCancelled of [false, true])
  t.test(`a run goes on when its session loads after a restart, and can be cancelled: ${isCancelled}`, async (t) => {
    const state = { path: join(t.testdir(), 'log') }
    const first = await served(t, { state })
    const before = await first.open(() => new Promise(() => {}))
    const cut = before.prompt('use buy lamp')
    while (before.asked.length === 0) await new Promise(setImmediate)
    await first.team.flush()
    await first.team.close()
    await t.rejects(cut, { code: -32_603 })
    const { open, done, team } = await served(t, { state })
    const next = await open(() => (isCancelled ? new Promise(() => {}) : picked('yes')))
    const { sessionId } = before
    await next.agent.request(of.session.load, { sessionId, cwd: '/', mcpServers: [] })
    while (next.asked.length === 0) await new Promise(setImmediate)
    if (isCancelled) await next.agent.notify(of.session.cancel, { sessionId })
    while ((await team.listRuns())[0]!.status !== (isCancelled ? 'aborted' : 'finished'))
      await new Promise(setImmediate)
    t.same(done, isCancelled ? [] : ['buy lamp'])
  })

t.test('dramatis acp speaks nothing but the protocol on stdout, and ends when its editor leaves', async (t) => {
  const effects = join(t.testdir(), 'effects')
  mkdirSync(effects)
  const child = spawn(process.execPath, [cli, 'acp', `shop=${file}`], { env: { EFFECTS: effects }, stdio: 'pipe' })
  let printed = ''
  child.stderr.on('data', (text) => {
    printed += text
  })
  const { prompt, text } = await editor({ stdin: child.stdin, stdout: child.stdout }, () => picked('yes'))
  t.same(await prompt('use buy lamp'), { stopReason: 'end_turn' })
  t.match(text(), /result: {"done":"lamp"}/)
  const exited = once(child, 'exit')
  child.stdin.end()
  t.same((await exited)[0], 0)
  t.match(printed, /"jsonrpc"[\s\S]*serves shop by ACP[\s\S]*a tool prints/)
  const [name] = readdirSync(effects)
  t.equal(readFileSync(join(effects, name!), 'utf8'), 'buy lamp')
})

t.test('a team plays a role of another team, and asks the people there', async (t) => {
  const effects = join(t.testdir(), 'effects')
  mkdirSync(effects)
  const remote = {
    acp: { command: process.execPath, args: [cli, 'acp', `shop=${file}`], cwd: effects, env: { EFFECTS: effects } },
  }
  const team = createTeam({
    agents: [{ name: 'shop', remote }],
    orchestration: { strategy: 'sequential' },
    logger: silent,
  })
  t.teardown(() => team.close())
  const run = team.launch('use buy lamp')
  for await (const event of run.events({ types: ['question'] }))
    if (event.type === 'question') await run.answer(event.questionId, 'yes')
  t.match(await run.result, { finalOutput: /result: {"done":"lamp"}/ })
})
