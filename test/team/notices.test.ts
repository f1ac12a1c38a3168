/** What the logger is told by itself: at which level, and never what messages say. */
import t from 'tap'
import { type AgentDefinition, defineAgent, type Logger } from '../../src/index.ts'
import { where } from '../kit/lists.ts'
import { after, echo, type Options, stage, type Test, throws } from './stage.ts'

interface Line {
  level: string
  text: string
  [field: string]: unknown
}

function logged<Name extends string>(
  t: Test,
  cast: Record<Name, AgentDefinition>,
  options: Options<NoInfer<Name>> = {},
) {
  const lines: Line[] = []
  const note = (level: string) => (fields: object, text: string) => void lines.push({ level, ...fields, text })
  const logger: Logger = { debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') }
  return { team: stage(t, cast, { ...options, logger }), lines }
}

t.test('a run that goes well is told to who asks for everything, and to nobody else', async (t) => {
  const { team, lines } = logged(t, { a: echo })
  const { runId } = await team.execute('my secret')
  await team.close()
  t.match(
    lines.map(({ level, text, agent, ...fields }) => ({ level, text, agent, runId: fields.runId })),
    [
      { level: 'debug', runId, text: 'a run begins' },
      { level: 'debug', agent: '$orchestrator', text: 'is ready' },
      { level: 'debug', agent: 'a', text: 'is ready' },
      { level: 'debug', runId, text: 'a run has ended' },
    ],
  )
  t.notMatch(JSON.stringify(lines), 'my secret')
})

t.test('a run that fails is an error with its agent, its code and what to do, and without its query', async (t) => {
  const broken = logged(t, { a: throws() })
  const failed = await broken.team.execute('my secret')
  const { team, lines } = logged(t, { a: after(100) })
  const late = team.launch('my secret', { timeoutMs: 5 })
  const aborted = team.launch('my secret')
  await team.clock.advance(5)
  await aborted.cancel('no need')
  await late.result
  t.match(
    [...broken.lines, ...lines].filter(({ text }) => /^a run (failed|was)/.test(text)),
    [
      {
        level: 'error',
        event: 'run.finished',
        agent: 'a',
        runId: failed.runId,
        code: 'AGENT_FAILED',
        error: /^Agent "a" failed in/,
      },
      {
        level: 'error',
        event: 'run.finished',
        runId: late.id,
        code: 'RUN_TIMEOUT',
        error: /within 5 ms \(globalTimeoutMs,/,
      },
      { level: 'debug', runId: aborted.id, code: 'RUN_ABORTED', text: 'a run was aborted' },
    ],
  )
  t.notMatch(JSON.stringify([broken.lines, lines]), 'my secret')
})

t.test('a crash is a warning, the next life is information, the end for good an error', async (t) => {
  const { team, lines } = logged(t, { a: echo }, { supervision: { maxRestarts: 1, backoff: { baseMs: 100 } } })
  await team.start()
  for (let i = 0; i < 2; i++) {
    team.crash('a')
    await team.clock.advance(10)
  }
  t.match(
    lines.filter(({ level }) => level !== 'debug'),
    [
      { level: 'warn', agent: 'a', event: 'agent.crashed', epoch: 1, text: 'crashed and restarts in 0 ms' },
      { level: 'info', agent: 'a', epoch: 2, text: 'is ready again' },
      { level: 'warn', agent: 'a', event: 'agent.crashed', epoch: 2, text: 'crashed and does not restart' },
      { level: 'error', agent: 'a', error: { code: 'AGENT_TERMINATED' }, text: 'is stopped for good' },
    ],
  )
})

t.test('an agent that cannot start is an error with the reason', async (t) => {
  const broken = defineAgent({
    start() {
      throw new Error('no disk')
    },
    receive: () => '',
  })
  const { team, lines } = logged(t, { a: broken })
  await t.rejects(team.start())
  await team.clock.advance(0)
  t.match(where(lines, 'level', 'error'), [
    { agent: 'a', error: { code: 'START_FAILED', message: /no disk/ }, text: 'is stopped for good' },
  ])
})

t.test('a sync point that some did not come to is a warning, with names and without what was brought', async (t) => {
  const comes = defineAgent({ receive: async (_message, context) => void (await context.sync('noon', 'my secret')) })
  const { team, lines } = logged(
    t,
    { a: comes, b: comes },
    { syncPoints: [{ name: 'noon', requiredAgents: ['a', 'b'], timeoutMs: 1_000 }] },
  )
  await Promise.all(['a', 'b'].map((recipient) => team.sendMessage({ recipient, content: 'go' })))
  await team.clock.advance(1_000)
  const warnings = lines.filter(({ level }) => level === 'warn')
  const text = 'a generation of a sync point ended without some'
  t.match(warnings, [
    { event: 'sync', point: 'noon', generation: 1, missing: ['b'], runId: /./, text },
    { event: 'sync', point: 'noon', generation: 1, missing: ['a'], runId: /./, text },
  ])
  t.equal(warnings.length, 2)
  t.notMatch(JSON.stringify(lines), 'my secret')
})

t.test('dead letters are a warning for each agent and reason, with ids and without words', async (t) => {
  const { team, lines } = logged(t, { a: throws('said by the handler'), b: echo })
  await team.sendMessage({ recipient: 'a', content: 'my secret' })
  await t.rejects(team.sendMessage({ recipient: 'nobody', content: 'my secret' }))
  await team.clock.advance(10)
  const [letter] = team.deadLetters.list()
  const warnings = lines.filter(({ level }) => level === 'warn')
  t.match(
    warnings.sort((a, b) => String(a.agent).localeCompare(String(b.agent))),
    [
      { agent: 'a', event: 'message.dead', reason: 'failed', count: 1, code: 'AGENT_FAILED' },
      { agent: 'nobody', event: 'message.dead', reason: 'unknown_agent', count: 1, code: 'UNKNOWN_AGENT' },
    ],
  )
  t.ok(warnings.some(({ messageId }) => messageId === letter!.id))
  t.notMatch(JSON.stringify(lines), 'my secret')
  t.notMatch(JSON.stringify(warnings), 'said by the handler')
})

t.test('however many messages die at a time, it is one line', async (t) => {
  const { team, lines } = logged(t, { a: after(1_000) }, { supervision: { maxRestarts: 0 } })
  for (let i = 0; i < 50; i++) await team.sendMessage({ recipient: 'a', content: 'x' })
  team.crash('a')
  await team.clock.advance(0)
  const letters = lines.filter(({ event, level }) => event === 'message.dead' && level === 'warn')
  t.match(letters, [{ agent: 'a', reason: 'stopped', count: 50 }])
})

t.test('a message that was withdrawn is no trouble', async (t) => {
  const sends = defineAgent({
    async receive(_message, context) {
      for (let i = 0; i < 3; i++) await context.send('b', 'hi')
      await context.sleep(1_000)
    },
  })
  const cast = { a: sends, b: after(1_000) }
  const { team, lines } = logged(t, cast, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const run = team.launch('q')
  await team.clock.advance(1)
  await run.cancel()
  await team.clock.advance(10_000)
  t.ok(lines.some(({ level, agent, reason }) => level === 'debug' && agent === 'b' && reason === 'cancelled'))
  t.same(
    lines.filter(({ level }) => level === 'warn' || level === 'error'),
    [],
  )
})
