/** Coding agents by the Agent Client Protocol as roles: prompts, permissions, steps, and ends of programs. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import t from 'tap'
import {
  type AgentRole,
  createTeam,
  type MultiAgentPatternOptions,
  type Run,
  type RuntimeEvent,
} from '../../src/index.ts'
import { rehearseRun } from '../../src/testing.ts'
import { Dice } from '../dice.ts'
import { howMany } from '../how-many.ts'
import { silent } from '../kit/team.ts'

const killed = fileURLToPath(new URL('../fixtures/remote/killed-desk.js', import.meta.url))
const coder = fileURLToPath(new URL('../fixtures/remote/coder.js', import.meta.url))

type Acp = NonNullable<NonNullable<AgentRole['remote']>['acp']>

interface Extras extends Partial<Omit<MultiAgentPatternOptions, 'agents'>> {
  fault?: string
  env?: Record<string, string>
  role?: Partial<AgentRole>
  /** Folder of the log, in that of the agent. */
  path?: string
}

/** A team of one coding agent, and what the agent has done. */
function desk(t: Test, acp: Partial<Acp> = {}, { env, fault = '', role, path, ...options }: Extras = {}) {
  const cwd = mkdtempSync(join(tmpdir(), 'dramatis-acp-'))
  t.teardown(() => rmSync(cwd, { recursive: true }))
  const effects = join(cwd, 'effects')
  const given = { command: process.execPath, args: [coder], cwd, env: { EFFECTS: effects, FAULT: fault, ...env } }
  const made: MultiAgentPatternOptions<string> = {
    agents: [{ name: 'coder', remote: { acp: { ...given, ...acp } }, ...role }],
    orchestration: {
      strategy: 'custom',
      run: async (script, query) => (await script.request('coder', query)).content,
    },
    threads: { warmSpares: 0 },
    logger: silent,
    ...(path && { stateManagement: { path: join(cwd, path) } }),
    ...options,
  }
  const open = () => {
    const team = createTeam(made)
    t.teardown(() => team.close())
    return team
  }
  const done = () => {
    try {
      return readFileSync(effects, 'utf8').trim().split('\n')
    } catch {
      return []
    }
  }
  const noted = async (what: RegExp) => {
    while (!done().some((line) => what.test(line))) await new Promise((resolve) => setTimeout(resolve, 10))
  }
  return { team: open(), open, made, done, noted, cwd }
}

async function eventsOf(run: Run<unknown>, types: RuntimeEvent['type'][]): Promise<RuntimeEvent<unknown>[]> {
  const events: RuntimeEvent<unknown>[] = []
  for await (const event of run.events({ types })) events.push(event)
  return events
}

/** One that has ended may stand there until its parent looks, and where that is gone, for ever. */
const isAlive = (pid: number): boolean => {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

/** Resolves when they have ended: a kill takes a moment. */
async function gone(...pids: number[]): Promise<void> {
  while (pids.some(isAlive)) await new Promise((resolve) => setTimeout(resolve, 10))
}

const pidIn = (lines: string[], word: string): number =>
  Number(lines.find((line) => line.startsWith(`${word} `))!.split(' ')[1])

t.test('a message is a prompt, what the agent says is the answer, and its calls are steps', async (t) => {
  const { team } = desk(t)
  const run = await team.launch('say:hello think:hm do:a.txt plan:more usage', { stream: true })
  const events = eventsOf(run, ['tool.started', 'tool.finished', 'tool.progress', 'model.delta'])
  t.match(await run.result, {
    success: true,
    finalOutput: 'hello\n\nmade a.txt',
    totalTokenUsage: { totalTokens: 120 },
  })
  const told = (await events).map((event) =>
    event.type === 'model.delta'
      ? `${event.part} ${event.text.trim()}`
      : 'tool' in event && `${event.type} ${event.tool} ${'note' in event ? event.note : ''}`.trim(),
  )
  t.same(told.sort(), [
    'reasoning hm',
    'text hello',
    'text made a.txt',
    'tool.finished edit',
    'tool.finished prompt',
    'tool.progress prompt [ ] more',
    'tool.started edit',
    'tool.started prompt',
  ])
})

for (const [answer, picked, output] of [
  ['yes', 'o', 'made a.txt'],
  ['no', 'n', 'not a.txt'],
  ['Always', 'a', 'made a.txt'],
] as const)
  t.test(`a permission is an approval of a person: "${answer}"`, async (t) => {
    const { team, done } = desk(t, {}, { path: 'log' })
    const run = await team.launch('edit:a.txt', { caller: 'ann' })
    for await (const event of run.events({ types: ['question'] })) {
      if (event.type !== 'question') continue
      const { questionId, kind, tool, input, choices } = event
      t.match({ kind, tool, choices }, { kind: 'approval', tool: 'edit', choices: ['yes', 'no', 'Always'] })
      t.same(input, { title: 'Edit a.txt', rawInput: { file: 'a.txt' } })
      await t.rejects(run.answer(questionId, answer, { by: { id: 'ann' } }), { code: 'ANSWER_REFUSED' })
      await t.rejects(run.answer(questionId, { approved: true, input: {} }, { by: { id: 'bob' } }), {
        code: 'CONFIGURATION',
        message: /takes no other input/,
      })
      t.same(
        done().filter((line) => /permission|effect/.test(line)),
        [],
      )
      await run.answer(questionId, answer, { by: { id: 'bob' } })
    }
    t.match(await run.result, { finalOutput: output })
    t.ok(done().includes(`permission ${picked}`))
  })

for (const [name, permissions, picked] of [
  ['deny', 'deny', 'n'],
  ['a function that allows', () => 'allow', 'o'],
  ['a function that denies', async () => 'deny', 'n'],
  ['a function that throws', () => Promise.reject(new Error('no idea')), 'n'],
] as [string, Acp['permissions'], string][])
  t.test(`permissions: ${name}`, async (t) => {
    const asked: unknown[] = []
    const decide = typeof permissions === 'function' ? permissions : undefined
    const given: Acp['permissions'] = decide
      ? (call) => {
          asked.push(call)
          return decide(call)
        }
      : permissions
    const { team, done } = desk(t, { permissions: given! })
    const run = await team.launch('edit:a.txt')
    await run.result
    t.ok(done().includes(`permission ${picked}`))
    if (decide) t.match(asked, [{ agent: 'coder', runId: run.id, kind: 'edit', title: 'Edit a.txt' }])
  })

t.test('nobody answers in time: the agent hears that its question is cancelled', async (t) => {
  const { team, done } = desk(t, {}, { communication: { answerWithinMs: 50 } })
  t.match(await (await team.launch('edit:a.txt')).result, { finalOutput: 'not a.txt' })
  t.ok(done().includes('permission cancelled'))
})

t.test('a cancelled task is stopped, and the program works on', async (t) => {
  const { team, done, noted } = desk(t)
  const run = await team.launch('hang')
  await noted(/^hangs/)
  await run.cancel('enough')
  t.match(await run.result, { success: false, error: { code: 'RUN_ABORTED' } })
  await noted(/^cancelled/)
  t.match(await (await team.launch('say:again')).result, { finalOutput: 'again' })
  t.equal(done().filter((line) => line.startsWith('began')).length, 1)
})

t.test('a cancelled task takes its question back, and the agent hears so', async (t) => {
  const { team, done, noted } = desk(t)
  const run = await team.launch('edit:a.txt')
  for await (const event of run.events({ types: ['question', 'question.closed'] }))
    if (event.type === 'question') void run.cancel('enough')
    else t.match(event, { how: 'withdrawn' })
  await noted(/^permission cancelled/)
  t.match(await (await team.launch('say:again')).result, { finalOutput: 'again' })
  t.same(
    done().filter((line) => line.startsWith('effect')),
    [],
  )
})

t.test('what an agent says behind its end is a part of its answer', async (t) => {
  const { team } = desk(t)
  t.match(await (await team.launch('say:one late:two')).result, { finalOutput: 'onetwo' })
})

t.test('a program that does not stop is ended, with all that it has started', async (t) => {
  const { team, done, noted } = desk(t, { cancelMs: 50 }, { fault: 'deaf' })
  const run = await team.launch('child hang')
  await noted(/^hangs/)
  await run.cancel('enough')
  await run.result
  t.match(await (await team.launch('say:again')).result, { finalOutput: 'again' })
  t.equal(done().filter((line) => line.startsWith('began')).length, 2)
  await gone(pidIn(done(), 'began'), pidIn(done(), 'child'))
})

t.test('nothing of a program outlives its team, also in a group of its own', async (t) => {
  for (const child of ['child', process.platform === 'linux' ? 'child:detached' : 'child']) {
    const { team, done } = desk(t)
    await (await team.launch(child)).result
    const pids = [pidIn(done(), 'began'), pidIn(done(), 'child')]
    t.same(pids.map(isAlive), [true, true])
    await team.close()
    await gone(...pids)
  }
})

t.test(
  'a program that dies has crashed: its task has an unknown outcome, and the next one a new program',
  async (t) => {
    const { team, done } = desk(t)
    const run = await team.launch('do:a.txt die')
    t.match(await run.result, {
      success: false,
      error: {
        code: 'AGENT_FAILED',
        message:
          /OutcomeUnknownError: .* ended while it worked: it exited with code 9; .*: a bug of mine\. It may have/,
      },
    })
    t.match(await (await team.launch('say:again')).result, { finalOutput: 'again' })
    t.same(
      done().filter((line) => line.startsWith('effect')),
      ['effect a.txt'],
    )
    t.equal(done().filter((line) => line.startsWith('began')).length, 2)
  },
)

t.test('an idempotent task goes on in the next program, in its session if that loads it', async (t) => {
  for (const [LOADS, goesOn] of [
    ['yes', /^prompt You were interrupted/],
    ['no', /^prompt You were interrupted/],
  ] as [string, RegExp][]) {
    const { team, done } = desk(t, { idempotent: true, mode: 'build' }, { env: { LOADS } })
    t.match(await (await team.launch('say:one dieonce say:two')).result, {
      success: true,
      finalOutput: 'onetwo',
    })
    t.match(
      done().filter((line) => line.startsWith('prompt')),
      [/^prompt say:one/, goesOn],
    )
    t.equal(done().filter((line) => line.startsWith('loaded')).length, LOADS === 'yes' ? 1 : 0)
  }
})

for (const [fault, message] of [
  ['initialize dies', /ended at initialize: it exited with code 3; its last words on stderr: no way past initialize/],
  ['initialize hangs', /did not answer initialize within 5000 ms \(startMs\)/],
  ['version', /speaks version 7 of the protocol; 1 is needed/],
  ['session/new dies', /ended at session\/new: it exited with code 3/],
  ['session/new hangs', /did not answer session\/new within 5000 ms/],
  ['auth', /refuses session\/new: Authentication required\. Log in with the program itself \(coder login\)/],
] as const)
  t.test(`a handshake that fails ends the task alone: ${fault}`, async (t) => {
    const { team, done } = desk(t, { startMs: /hangs/.test(fault) ? 5_000 : 60_000 }, { fault })
    t.match(await (await team.launch('say:hello')).result, {
      success: false,
      error: { code: 'AGENT_FAILED', message },
    })
    await team.close()
    await gone(pidIn(done(), 'began'))
  })

for (const [prompt, message] of [
  ['refuse', /refused the task/],
  ['fail', /failed: Internal error \(\{"why":"the model is away"\}\)/],
  ['hang', /said nothing for 1000 ms \(idleMs\)/],
  ['flood', /gave an answer of more than 8388608 characters/],
  ['line', /OutcomeUnknownError: .*: it sends a line of more than 16 MiB/],
  ['nonsense', /OutcomeUnknownError: .*: it sends more than 10000 lines that are no message/],
] as const)
  t.test(`what a program does wrong ends its task, and what comes after it works: ${prompt}`, async (t) => {
    const { team } = desk(t, { idleMs: prompt === 'hang' ? 1_000 : 60_000, cancelMs: 500 })
    t.match(await (await team.launch(prompt)).result, { success: false, error: { code: 'AGENT_FAILED', message } })
    t.match(await (await team.launch('say:again')).result, { finalOutput: 'again' })
  })

t.test('messages that nobody understands do no harm', async (t) => {
  const { team } = desk(t)
  t.match(await (await team.launch('banner say:one strange say:two')).result, { finalOutput: /^one\s+two$/ })
})

/** Kills a process in which the agent works on that prompt, and opens the team again. */
async function afterKill(t: Test, prompt: string, until: RegExp | 'asked', idempotent: boolean) {
  const { cwd, done, noted, open, team } = desk(t, { idempotent }, { path: 'log' })
  await team.close() // it has not begun
  const child = spawn(process.execPath, [killed, cwd, prompt, idempotent ? 'yes' : ''], {
    stdio: ['ignore', 'pipe', 2],
  })
  if (until === 'asked') await once(child.stdout!, 'data')
  else await noted(until)
  child.kill('SIGKILL')
  await once(child, 'exit')
  const before = pidIn(done(), 'began')
  await gone(before)
  const next = open()
  await next.start()
  return { run: next.getRun('one')!, done }
}

t.test('this process is killed within a task: its outcome is unknown, and it is not begun again', async (t) => {
  for (const [prompt, until] of [
    ['do:a.txt hang', /^hangs/],
    ['edit:a.txt', 'asked'],
  ] as const) {
    const { run, done } = await afterKill(t, prompt, until, false)
    t.match(await run.result, { success: false, error: { message: /OutcomeUnknownError/ } })
    t.same(run.questions, [])
    t.equal(done().filter((line) => line.startsWith('prompt')).length, 1)
  }
})

t.test('this process is killed within an idempotent task: the next one goes on, and asks anew', async (t) => {
  const { run, done } = await afterKill(t, 'edit:a.txt', 'asked', true)
  const events = eventsOf(run, ['question', 'question.closed'])
  while (run.questions.length === 0) await new Promise((resolve) => setTimeout(resolve, 10))
  t.equal(run.questions.length, 1)
  await run.answer(run.questions[0]!.questionId, 'yes')
  t.match(await run.result, { success: true, finalOutput: 'made a.txt' })
  t.match(
    done().filter((line) => /^(prompt|loaded|effect)/.test(line)),
    ['prompt edit:a.txt', /^loaded s/, /^prompt You were interrupted/, 'effect a.txt'],
  )
  t.match(
    (await events).map((event) => ('how' in event ? event.how : event.type)),
    ['question', 'withdrawn', 'question'],
  )
})

t.test(
  'this process or the program is killed at random moments: nothing is done twice, and nothing hangs',
  async (t) => {
    for (let seed = 1; seed <= howMany(1, 50); seed++) {
      const dice = new Dice(seed)
      const idempotent = dice.pick([true, false])
      const { cwd, done, noted, open, team } = desk(t, { idempotent }, { path: 'log' })
      await team.close()
      const child = spawn(process.execPath, [killed, cwd, 'edit:a.txt', idempotent ? 'yes' : '', 'answers'], {
        stdio: ['ignore', 'ignore', 2],
      })
      const ended = once(child, 'exit')
      await noted(/^began/)
      await new Promise((resolve) => setTimeout(resolve, dice.upTo(250)))
      if (dice.chance(0.4)) process.kill(pidIn(done(), 'began'), 'SIGKILL')
      else child.kill('SIGKILL')
      await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 2_000))])
      child.kill('SIGKILL')
      await ended
      const next = open()
      await next.start()
      const run = next.getRun('one') ?? (await next.launch('edit:a.txt', { runId: 'one' }))
      const over = run.result.finally(() => stop.abort())
      const stop = new AbortController()
      for await (const event of run.events({ types: ['question'], signal: stop.signal }))
        if (event.type === 'question' && run.questions.some(({ questionId }) => questionId === event.questionId))
          await run.answer(event.questionId, 'yes').catch(() => {})
      const { success, finalOutput, error } = await over
      const effects = done().filter((line) => line.startsWith('effect')).length
      const how = `seed ${seed}: ${finalOutput} ${error?.message} ${done().join('; ')}`
      if (success) t.match([finalOutput, effects >= 1], ['made a.txt', true], how)
      else
        t.match(
          error?.message,
          effects > 0 ? /OutcomeUnknownError/ : /OutcomeUnknownError|ended at (initialize|session)/,
          how,
        )
      t.ok(effects <= (idempotent ? 2 : 1), how)
      await next.close()
    }
  },
)

t.test('an agent remembers in its session: that of the run, or of the thread, over restarts', async (t) => {
  for (const [session, again] of [
    ['run', false],
    ['thread', true],
  ] as const) {
    const { team, open, done } = desk(t, { session }, { path: 'log' })
    const ask = async (of: typeof team) => (await (await of.launch('session', { threadId: 'one' })).result).finalOutput
    const first = await ask(team)
    t.equal((await ask(team)) === first, again)
    await team.close()
    t.equal((await ask(open())) === first, again)
    t.equal(done().filter((line) => line.startsWith('loaded')).length, again ? 1 : 0)
  }
})

t.test('a program has the variables that its role grants, and no others', async (t) => {
  process.env.CODER_KEY = 'a-key-of-the-coder'
  t.teardown(() => delete process.env.CODER_KEY)
  const { team } = desk(t, {}, { role: { env: ['CODER_KEY'] } })
  t.match(await (await team.launch('env')).result, { finalOutput: 'CODER_KEY,DRAMATIS_AGENT,EFFECTS,FAULT' })
})

t.test('wrong options are refused by name', async (t) => {
  const good = { command: 'coder', cwd: '/' }
  for (const [role, message] of [
    [{ remote: {} }, /agents\[0\]\.remote/],
    [{ remote: { acp: { command: 'coder' } } }, /agents\[0\]\.remote\.acp.*cwd/],
    [{ remote: { acp: { ...good, cwd: 'here' } } }, /remote\.acp\.cwd: got "here"; accepted: an absolute path/],
    [{ remote: { acp: { ...good, env: { KEY: 7 } } } }, /remote\.acp\.env\.KEY: got no text/],
    [{ remote: { acp: { ...good, permissions: 'allow' } } }, /remote\.acp\.permissions: got "allow"/],
    [{ remote: { acp: good }, systemPrompt: 'Be kind.' }, /agents\[0\]\.systemPrompt: .*nothing beside remote/],
    [{ remote: { acp: good }, tools: ['delegate'] }, /agents\[0\]\.tools/],
    [{ remote: { acp: good }, instances: 2 }, /agents\[0\]\.instances/],
    [{ remote: { acp: { ...good, session: 'thread' } }, concurrency: 2 }, /agents\[0\]\.concurrency/],
  ] as [object, RegExp][])
    t.throws(
      () =>
        createTeam({
          agents: [{ name: 'coder', ...role }],
          orchestration: { strategy: 'custom', run: async () => '' },
        }),
      { code: 'CONFIGURATION', message },
    )
  const { team } = desk(t, { cwd: '/no/such/folder' })
  await t.rejects(team.start(), { message: /remote\.acp\.cwd of agent "coder": "\/no\/such\/folder" is no folder/ })
})

t.test('a rehearsal from a log has the answers of a coding agent, and asks none', async (t) => {
  const { team, made, cwd, done } = desk(t, {}, { path: 'log' })
  const { finalOutput } = await team.execute('say:hello', { runId: 'r' })
  await team.close()
  const before = done()
  const { result, mismatches } = await rehearseRun(made, { log: join(cwd, 'log'), runId: 'r' })
  t.match({ output: result.finalOutput, mismatches }, { output: finalOutput, mismatches: [] })
  t.same(done(), before)
})
