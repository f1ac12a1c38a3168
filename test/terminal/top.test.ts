/** `dramatis top`: what its screen says of a team, at every size, and what its keys do. */
import t from 'tap'
import { type Digest, defineAgent } from '../../src/index.ts'
import { span } from '../../src/runtime/views/slow.ts'
import { DigestFold } from '../../src/service/digest/digest-fold.ts'
import { localSource } from '../../src/service/terminal/source.ts'
import { showTop } from '../../src/service/terminal/top.ts'
import {
  columns,
  cut,
  fit,
  orderedAgents,
  type TopState,
  topLines,
  wrapped,
} from '../../src/service/terminal/top-view.ts'
import { systemClock } from '../../src/shared/clock.ts'
import { after, all, echo, stage, throws } from '../team/stage.ts'
import { FakeTerminal } from './fake-terminal.ts'

const alive = systemClock.hold()
t.teardown(() => alive.cancel())

const state: TopState = { view: 'agents', sort: 'trouble', selected: undefined, note: '' }

/** The state of a team in which one agent waits for another for ever, and one has crashed. */
async function troubled(t: Parameters<typeof stage>[0]) {
  const asks = defineAgent({ receive: async (_message, context) => (await context.request('slow', 'well?')).content })
  const team = stage(t, { asks, slow: after(60_000), idle: echo, 机器: throws('out of 纸') }, {
    orchestration: { strategy: 'parallel', agents: ['asks', '机器'] },
  } as never)
  const fold = new DigestFold()
  const stop = new AbortController()
  const watching = (async () => {
    for await (const line of team.watch({ signal: stop.signal })) fold.read(line)
  })()
  await new Promise((resolve) => setImmediate(resolve))
  void team.execute('Should we migrate?')
  await team.clock.advance(3_000)
  team.crash('idle')
  await team.clock.advance(2_000)
  while (fold.agents.get('asks')?.status !== 'waiting' || !fold.agents.get('idle')?.crashes || !fold.waits.length)
    await new Promise((resolve) => setTimeout(resolve, 20))
  stop.abort()
  await watching
  return { fold, now: team.clock.now() }
}

t.test('the screen has runs, waits with their age, and agents by their trouble', async (t) => {
  const { fold, now } = await troubled(t)
  const lines = topLines(fold, state, { width: 140, height: 30 }, now)
  t.match(lines[0], /^1 run .* msg\/s .* tokens\/s .* 00:00:0\d$/)
  t.match(lines[1], /agent +status +waits for +since +turns +mailbox +restarts +tokens +last error/)
  const names = orderedAgents(fold, 'trouble').map(({ name }) => name)
  t.equal(names[0], 'idle', 'a crash comes before a wait')
  t.equal(names[1], 'asks')
  t.ok(
    lines.some((line) => /asks +waiting +request slow +5\.0 s/.test(line)),
    lines.join('\n'),
  )
  t.ok(
    lines.some(
      (line) => /idle .* 1 +0 {2}The test ended the life/.test(line) || /idle .*The thread of agent/.test(line),
    ),
  )
  t.ok(
    lines.some((line) => /[.=X]{5}.*running +Should we migrate\?/.test(line)),
    'the run has a lane',
  )
  t.match(lines.at(-1), /Enter agent {2}s sort \(trouble\)/)
  t.match(topLines(fold, state, { width: 79, height: 30 }, now).at(-1), /q quit$/, 'all keys fit 80 columns')
})

t.test('every size is kept, and wide letters take two columns', async (t) => {
  const { fold, now } = await troubled(t)
  for (const view of ['agents', 'agent', 'waits', 'letters'] as const)
    for (const width of [20, 40, 80, 200])
      for (const height of [3, 8, 24]) {
        const lines = topLines(fold, { ...state, view, selected: '机器' }, { width, height }, now)
        t.ok(lines.length <= height, `${lines.length} lines`)
        t.ok(
          lines.every((line) => columns(line) <= width),
          `${view} ${width}`,
        )
      }
  t.equal(columns(fit('机器人', 5)), 5)
  t.equal(cut('机器人', 4), '机…')
  t.same(wrapped('aa bb ccccccc 机器人', 4), ['aa', 'bb', 'cccc', 'ccc', '机器', '人'])
  t.same([400, 12_000, 180_000, 3 * 3_600_000].map(span), ['0.4 s', '12 s', '3 min', '3 h'])
})

t.test('what is slow stands above all, with its age and what it does', (t) => {
  const fold = new DigestFold()
  const usage = { inputTokens: 0, outputTokens: 0, totalTokens: 0, calls: 0 }
  const figures = { queued: 0, inFlight: 1, restarts: 0, usage, turns: 0, failedTurns: 0, toolCalls: 0 }
  const agents = [{ name: 'ann', status: 'running', ...figures } as const]
  const step = { runId: 'r', agent: 'ann', turn: 'm', kind: 'step', for: ['fetch'], since: 5_000, turnSince: 1_000 }
  const queued = { runId: 's', agent: null, turn: null, kind: 'limit', for: ['maxConcurrentRuns'], since: 6_000 }
  const waits = [
    { ...step, slowAfterMs: 30_000 },
    { ...queued, limit: 1, cause: '1 of 1 runs: step "fetch"', slowAfterMs: 30_000 },
  ]
  fold.read({ seq: 0, at: 9_000, n: 0, snapshot: { log: 'l', agents, runs: [], questions: [], waits, deadLetters: 0 } })
  const shown = (view: 'agents' | 'waits', now: number) =>
    topLines(fold, { ...state, view }, { width: 160, height: 20 }, now).join('\n')
  t.notMatch(shown('agents', 34_000), /slow/)
  t.match(shown('agents', 36_500), /^! slow: ann: step "fetch" for 32 s \(slow after 30 s\) \(and 1 more\)$/m)
  t.match(shown('agents', 36_500), /ann +running +step fetch +32 s slow/)
  t.match(shown('waits', 36_500), /! ann: step "fetch" for 32 s .*; its turn began 36 s ago/)
  t.match(
    shown('waits', 36_500),
    /! a run: waits at the limit maxConcurrentRuns \(1\) for 31 s .*: 1 of 1 runs: step "fetch"/,
  )
  t.end()
})

t.test('what agents are called or say does not steer the terminal', async (t) => {
  const fold = new DigestFold()
  const usage = { inputTokens: 0, outputTokens: 0, totalTokens: 0, calls: 0 }
  const figures = { queued: 0, inFlight: 0, restarts: 0, usage, turns: 0, failedTurns: 0, toolCalls: 0 }
  const agent = { name: 'e\u001b[31mvil\n', status: 'idle', ...figures } as const
  const line: Digest = {
    seq: 0,
    at: 1_000,
    n: 0,
    snapshot: { log: 'l', agents: [agent], runs: [], questions: [], waits: [], deadLetters: 0 },
    facts: [{ type: 'stall', seq: 1, at: 1_000, runId: 'r', sentence: 'a\u001b[2Jb' }],
  }
  fold.read(line)
  const text = topLines(fold, state, { width: 80, height: 10 }, 1_000).join('')
  t.notOk(text.includes('\u001b'))
})

t.test('keys mark an agent, show it, sort, and leave', async (t) => {
  const team = stage(t, { a: echo, b: echo })
  await team.start()
  const terminal = new FakeTerminal()
  const showing = showTop({
    source: localSource(team),
    screen: terminal.screen,
    keys: terminal.keys,
    signal: new AbortController().signal,
    now: () => team.clock.now(),
  })
  await terminal.shows('sort (trouble)')
  terminal.press('s')
  await terminal.shows('sort (name)')
  terminal.press('j')
  await terminal.shows(/> a/)
  terminal.press('\u001b[B')
  await terminal.shows(/> b/)
  terminal.press('\r')
  await terminal.shows('b: idle')
  terminal.press('w')
  await terminal.shows('nobody waits')
  terminal.press('d')
  await terminal.shows('no message has died')
  terminal.press('r')
  await terminal.shows(/stopped/)
  terminal.press('q')
  await showing
  await all(team.digestOf('none')).catch(() => {})
})

t.test('Tab leads to the next team and around, and the screen has what is of that team', async (t) => {
  const teams = { desk: stage(t, { writer: echo }), lab: stage(t, { chemist: echo }) }
  for (const team of Object.values(teams)) await team.start()
  const [source, other] = Object.entries(teams).map(([team, of]) => ({ ...localSource(of), team }))
  const terminal = new FakeTerminal({ columns: 120 })
  const showing = showTop({
    source: source!,
    others: [other!],
    screen: terminal.screen,
    keys: terminal.keys,
    signal: new AbortController().signal,
  })
  await terminal.shows(/desk {2}0 runs[\s\S]*writer[\s\S]*Tab next team/)
  terminal.press('\t')
  await terminal.shows(/lab {2}0 runs[\s\S]*chemist/)
  terminal.press('\t')
  await terminal.shows(/desk {2}0 runs[\s\S]*writer/)
  terminal.press('q')
  await showing
})
