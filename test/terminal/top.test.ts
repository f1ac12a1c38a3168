/** `dramatis top` and the panel of `dramatis chat`: what their screens say, at every size, and what keys do. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { createTeam, type Digest, defineAgent, loadTeam } from '../../src/index.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { span } from '../../src/runtime/views/slow.ts'
import { httpApi } from '../../src/service/api/index.ts'
import { DigestFold } from '../../src/service/digest/digest-fold.ts'
import type { Screen } from '../../src/service/shared/screen.ts'
import { Chat } from '../../src/service/terminal/chat.ts'
import { type ChatState, chatLines, taskLines } from '../../src/service/terminal/chat-view.ts'
import { localSource, remoteSource } from '../../src/service/terminal/source.ts'
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
import { SeenSubtasks, WorkNews, workLines } from '../../src/service/terminal/work.ts'
import { systemClock } from '../../src/shared/clock.ts'
import { silent } from '../kit/team.ts'
import { type Answer, calls, FakeModel } from '../models/fake-model.ts'
import { callerOf, send } from '../service/http/stage.ts'
import { after, all, echo, says, stage, throws } from '../team/stage.ts'
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

// The panel of `dramatis chat`, and its lines for a pipe: what is worked on, by whom, and how far it is.

t.teardown(() => alive.cancel())

const REGISTRY = `agents:
  orchestrator: { class: OrchestratorAgent, can_delegate_to: [task_executor], max_tokens: 8000 }
  task_executor: { class: TaskExecutorAgent, max_rounds: 4 }
`

/** The executor has one sub-task done, and its model is at the second for the third time, until `open` is called. */
async function desk(t: Test) {
  let open = () => {}
  let reached = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  const isAtWork = new Promise<void>((resolve) => {
    reached = resolve
  })
  const looks = calls(['list_dir', {}])
  const scripts: Record<string, (Answer | (() => Promise<Answer>))[]> = {
    orchestrator: [calls(['delegate_to_executor', { task: 'Write the calculator.' }]), 'I am at it.', 'It is there.'],
    task_executor: [
      calls(['decompose_task', { subtasks: ['write calc.py', '測試它', 'tidy up'] }], ['mark_subtask_complete', {}]),
      looks,
      looks,
      async () => {
        reached()
        await opened
        return 'done'
      },
    ],
  }
  const model = new FakeModel(async ({ agent = '' }) => {
    const answer = scripts[agent]?.shift() ?? 'nothing more'
    return typeof answer === 'function' ? answer() : answer
  })
  const file = join(t.testdir({ 'agents.yaml': REGISTRY }), 'agents.yaml')
  const team = createTeam({ ...(await loadTeam(file)), models: { default: model }, logger: silent })
  t.teardown(() => team.close())
  return { team, open: () => open(), isAtWork }
}

const STATE: ChatState = {
  writing: '',
  isBusy: false,
  hasPanel: true,
  seen: new SeenSubtasks(),
  others: new Map(),
  input: '',
  cursor: 0,
}

t.test(
  'the panel has goal, tasks and sub-tasks with bars, the conversation, the round, and what was said',
  async (t) => {
    const { team, open, isAtWork } = await desk(t)
    const source = localSource(team)
    const fold = new DigestFold()
    const watching = new AbortController()
    const digest = source.watch(watching.signal)[Symbol.asyncIterator]()
    const foldedUntil = async (isThere: () => boolean) => {
      while (!isThere()) fold.read((await digest.next()).value!)
    }
    const isFolded = foldedUntil(() => (fold.agents.get('task_executor')?.modelCalls ?? 0) >= 3)
    const run = team.launch('I need a calculator.')
    await Promise.all([isAtWork, isFolded])
    STATE.seen.look(fold.agents.keys(), source.progress)
    for (const [width, height] of [
      [79, 40],
      [159, 40],
      [40, 12],
      [20, 8],
    ] as const) {
      const lines = chatLines(fold, STATE, { width, height }, fold.now, source)
      t.ok(lines.length <= height && lines.every((line) => columns(line) <= width), `${width} columns`)
      if (width < 79) continue
      const text = lines.join('\n')
      for (const part of [
        /^goal {2}\[\.{5}\] I need a calculator\. +0 of 2 tasks$/m,
        /^ {2}\[>\] \[\.{5}\] I need a calculator\. +orchestrator: blocked/m,
        /^ {4}\[>\] \[##\.{3}\] Write the calculator\. +task_executor: in_progress {2}\S+ \S+$/m,
        /^ {6}\[x\] \[#{5}\] write calc\.py +completed$/m,
        /^ {6}\[>\] \[\.{5}\] 測試它 +in_progress$/m,
        /^ {6}\[ \] \[\.{5}\] tidy up +pending$/m,
        /^task_executor: \w+ {2}turn \d {2}round 3 of 4 ! {2}3 calls, 45 tokens$/m,
        /^ {2}conversation \[\.{8}\|\.{2}\] 4 messages, 15\/8,000 tokens, summary at 6,400$/m,
        /^ {2}conversation \[\.{10}\] \d messages, 15\/128,000 tokens$/m,
        /^last messages of task_executor\n(?: {2}(?:assistant|tool): .*\n){4}/m,
        /^figures {2}\S+ \S+, 2 tasks, \d+ messages, 0 turns, \d calls of models, \d of tools,\s+\d+\s+tokens$/m,
      ])
        t.match(text, part, `${width} columns`)
    }
    const api = httpApi({ teams: { desk: team }, authorize: callerOf, logger: silent })
    t.teardown(() => api.close())
    const progressOf = async (query: string) => {
      const { body } = await send(api, 'GET', `/api/agents${query}`)
      return body.agents.find(({ name }: { name: string }) => name === 'task_executor').progress
    }
    t.match(await progressOf('?progress=1'), { round: 3, maxRounds: 4, subtask: '2 of 3: 測試它' }, 'over HTTP')
    t.equal(await progressOf(''), undefined, 'for who asks for it')
    open()
    t.match(await run.result, { finalOutput: 'It is there.' })
    t.equal(team.getAgent('task_executor')?.getProgress(), undefined, 'it handles nothing')
    await foldedUntil(() => [...fold.runs.values()].every(({ endedAt }) => endedAt !== null))
    const text = chatLines(fold, STATE, { width: 79, height: 40 }, fold.now, source).join('\n')
    t.match(text, /^goal {2}\[#{5}\] I need a calculator\. +2 of 2 tasks$/m, 'the last work stays')
    t.match(text, /^ {4}\[x\] \[#{5}\] Write the calculator\. +task_executor: completed/m)
    t.match(text, /^ {6}\[x\] \[#{5}\] write calc\.py +completed$/m, 'with its sub-tasks')
    t.match(text, /^ {6}\[ \] \[\.{5}\] 測試它 +pending$/m, 'nobody is at it any more')
    watching.abort()
  },
)

t.test('without a terminal tasks and sub-tasks are lines, and the last round but one is warned of', async (t) => {
  const { team, open } = await desk(t)
  const terminal = new FakeTerminal()
  void terminal.shows(/^sub-task .*!$/m).then(open)
  const chat = new Chat({
    source: localSource(team),
    screen: terminal.screen as Screen,
    input: Readable.from([]),
    tell: async () => {},
    isTerminal: false,
    signal: new AbortController().signal,
  })
  t.equal(await chat.talk('I need a calculator.'), true)
  t.match(terminal.text, /^task {2}task_executor: in_progress {2}Write the calculator\.$/m)
  t.match(terminal.text, /^sub-task {2}task_executor: 2 of 3: 測試它 {2}round 3 of 4 !$/m)
})

t.test('the panel of a chat keeps the sub-tasks of a task that has ended', async (t) => {
  const { team, open, isAtWork } = await desk(t)
  const terminal = new FakeTerminal({ columns: 100, rows: 40 })
  const chat = new Chat({
    source: localSource(team),
    screen: terminal.screen,
    input: terminal.keys,
    tell: async () => {},
    isTerminal: true,
    signal: new AbortController().signal,
  })
  const talking = chat.talk(undefined)
  await terminal.shows('A line is a message')
  terminal.press('\u0014') // the panel
  await terminal.shows('-- team')
  terminal.press('I need a calculator.\r')
  await isAtWork
  await terminal.shows(/3 calls, 45 tokens/)
  open()
  await terminal.shows(/task_executor: completed/)
  terminal.press('\u0014\u0014') // away, and back
  await terminal.shows(/-- team[\s\S]*\[x\] \[#{5}\] write calc\.py +completed/)
  terminal.press('\u0004')
  await talking
})

t.test('top shows tasks with their sub-tasks, also of a task that has ended', async (t) => {
  const { team, open, isAtWork } = await desk(t)
  const terminal = new FakeTerminal({ columns: 100, rows: 40 })
  const { screen, keys } = terminal
  await team.start()
  const showing = showTop({ source: localSource(team), screen, keys, signal: new AbortController().signal })
  await terminal.shows('t tasks')
  const run = team.launch('I need a calculator.')
  await isAtWork
  await terminal.shows(/task_executor .* 45\b/)
  terminal.press('t')
  await terminal.shows(/ {4}\[>\] \[##\.{3}\] Write the calculator\.[\s\S]* {6}\[>\] \[\.{5}\] 測試它 +in_progress/)
  open()
  await run.result
  await terminal.shows(/task_executor: completed/)
  terminal.press('t')
  await terminal.shows('mailbox')
  terminal.press('t')
  await terminal.shows(/ {6}\[x\] \[#{5}\] write calc\.py +completed/)
  terminal.press('q')
  await showing
})

t.test('a question that is wider than the screen takes several lines, with all of its choices', (t) => {
  const fold = new DigestFold()
  const choices = ['Simple HTML with +, -, * and /', 'Scientific, with a history', '測試計算機與其所有功能']
  const question = { questionId: 'q', runId: 'r', agent: 'orchestrator', text: 'Which calculator do you want?' }
  fold.questions.set('q', { ...question, choices, askedAt: 0 })
  for (const width of [79, 40, 20]) {
    const nothing = { context: () => undefined, progress: () => undefined }
    const lines = chatLines(fold, STATE, { width, height: 40 }, 0, nothing)
    t.ok(
      lines.every((line) => columns(line) <= width),
      `${width} columns`,
    )
    const text = lines.join('').replaceAll(' ', '')
    for (const [at, choice] of choices.entries()) t.match(text, `${at + 1}${choice.replaceAll(' ', '')}`)
  }
  t.end()
})

const RAINS = { task: 1, value: 'rain' }
const names = ['ann', 'bob']
const plans: [string, OrchestrationConfig<string>][] = [
  ['agent', { strategy: 'supervisor', supervisor: 'chief', experts: names }],
  ['worker', { strategy: 'hierarchical', manager: 'chief', workers: names, workerAutonomy: 'high' }],
]

for (const [field, orchestration] of plans)
  t.test(
    `a sub-task that ${orchestration.strategy} skips has a row with the reason, here and behind a URL`,
    async (t) => {
      const plan = [
        { [field]: 'ann', task: 'look at the sky' },
        { [field]: 'bob', task: 'fetch (two) umbrellas', runIf: RAINS },
      ]
      let isPlanned = false
      const chief = defineAgent({
        receive() {
          const answer = isPlanned ? { content: 'done' } : { structuredData: { tasks: plan, reasoning: 'as it is' } }
          isPlanned = true
          return answer
        },
      })
      const cast = { chief, ann: says('sun'), bob: says('got them') }
      const team = stage<string>(t, cast, { orchestration })
      const run = team.launch('Shall I get wet?')
      await run.result
      const lines = await all(team.digestOf(run.id))
      const server = createServer((_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.end(lines.map((line) => `event: digest\ndata: ${JSON.stringify(line)}\n\n`).join(''))
      })
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      t.teardown(() => server.close())
      const watching = new AbortController()
      const remote = remoteSource(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, undefined)
      const behind: Digest[] = []
      for await (const line of remote.watch(watching.signal)) if (behind.push(line) === lines.length) watching.abort()
      for (const seen of [lines, behind]) {
        const fold = new DigestFold()
        const news = new WorkNews()
        const none = () => undefined
        const told = seen.flatMap((line) => {
          fold.read(line)
          return news.news(line, fold, none)
        })
        const panel = chatLines(fold, STATE, { width: 99, height: 40 }, fold.now, {
          context: none,
          progress: none,
        }).join('\n')
        const reason = 'It is run only if the result of task 1 equals "rain", and that is "sun".'
        t.match(panel, /^ {2}\[-\] \[\.{5}\] fetch \(two\) umbrellas +skipped {2}\S+ s$/m)
        t.ok(panel.includes(`\n    ${reason}\n`))
        t.match(panel, /^goal .* (\d) of \1 tasks$/m, 'what is skipped is nothing to be done')
        t.ok(told.includes(`task  skipped  fetch (two) umbrellas: ${reason}`))
        t.ok(taskLines(fold).includes(`skipped  fetch (two) umbrellas: ${reason}`))
        const size = { width: 99, height: 40 }
        const top = { view: 'tasks', sort: 'trouble', selected: undefined, note: '' } as const
        const work = workLines(fold, 99, fold.now, none, new SeenSubtasks())
        t.ok(topLines(fold, top, size, fold.now, work).includes(`    ${reason}`))
      }
      const { tasks = [] } = team.getRun(run.id) ?? {}
      t.match(
        tasks.filter(({ status }) => status === 'skipped'),
        [{ description: 'fetch (two) umbrellas', assignedTo: null, reason: /"rain", and that is "sun"/ }],
      )
    },
  )
