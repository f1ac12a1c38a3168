/** opencode plays a role by ACP, with a model on the loopback: it asks, edits, is refused, cancelled and killed. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { test } from 'node:test'
import { createTeam } from '../../dist/src/index.js'
import { modelServer } from '../../dist/test/fixtures/model-server.js'

const silent = { debug() {}, info() {}, warn() {}, error() {} }

/** The model does what the task says: `write <file>`, `bash <command>`, or says it. */
function acts({ body }) {
  const last = body.messages.at(-1)
  const names = (body.tools ?? []).map((tool) => tool.function.name)
  const task = body.messages.findLast(({ role }) => role === 'user')
  const text = typeof task.content === 'string' ? task.content : task.content.map((part) => part.text ?? '').join('\n')
  const [, verb, what] = /(write|bash) (.+)/.exec(text) ?? []
  const usage = { inputTokens: 10, outputTokens: 5 }
  if (names.length === 0) return { text: 'A title', usage }
  if (last.role === 'tool') return { text: `The tool says: ${String(last.content).slice(0, 40)}`, usage }
  if (verb === 'write') return { toolCalls: [{ name: 'write', input: { filePath: what, content: 'made\n' } }], usage }
  if (verb === 'bash')
    return {
      toolCalls: [{ name: 'bash', input: { command: what, description: 'a command', timeout: 100_000 } }],
      usage,
    }
  return { text: 'I have seen it.', usage }
}

/** A desk with opencode in it. */
async function desk(t, acp = {}, more = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'dramatis-opencode-'))
  const cwd = join(folder, 'work')
  const home = join(folder, 'home')
  for (const path of [cwd, home]) mkdirSync(path)
  const endings = []
  t.after(async () => {
    for (const end of endings.reverse()) await end()
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
  })
  const model = await modelServer({ teardown: (end) => endings.push(end) })
  model.always(acts)
  const provider = {
    npm: '@ai-sdk/openai-compatible',
    name: 'loop',
    options: { baseURL: model.baseURL, apiKey: 'none' },
    models: { m: { name: 'm' } },
  }
  const config = {
    provider: { loop: provider },
    model: 'loop/m',
    small_model: 'loop/m',
    permission: { edit: 'ask', bash: 'ask' },
    autoupdate: false,
    share: 'disabled',
  }
  writeFileSync(join(cwd, 'opencode.json'), JSON.stringify(config))
  const env = {
    HOME: home,
    PATH: process.env.PATH,
    OPENCODE_DISABLE_AUTOUPDATE: '1',
    OPENCODE_DISABLE_MODELS_FETCH: '1',
    OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
  }
  const options = {
    agents: [
      {
        name: 'coder',
        remote: { acp: { command: resolve('node_modules/.bin/opencode'), args: ['acp'], cwd, env, ...acp } },
      },
    ],
    orchestration: { strategy: 'sequential' },
    stateManagement: { path: join(folder, 'log') },
    ...more,
  }
  const open = () => {
    const team = createTeam({ ...options, logger: silent })
    endings.push(() => team.close())
    return team
  }
  return { open, options, cwd, folder, model }
}

/** Processes whose command line has that text, but for this one. */
const running = (text) =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => {
      try {
        const isGone = /\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
        return !isGone && readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').includes(text)
      } catch {
        return false
      }
    })

const until = async (holds) => {
  while (!holds()) await new Promise((wake) => setTimeout(wake, 50))
}

/** Answers what the run asks, and resolves to its result and what it has told. */
async function answered(run, answer) {
  const told = []
  for await (const event of run.events({ types: ['question', 'tool.started', 'tool.finished', 'model.delta'] })) {
    told.push(event)
    // one of an earlier process is told again, though it was withdrawn
    if (run.questions.some(({ questionId }) => questionId === event.questionId))
      await run.answer(event.questionId, answer, { by: { id: 'bob' } })
  }
  return { result: await run.result, told }
}

test('it asks, and edits when it may', async (t) => {
  const { open, cwd } = await desk(t)
  const team = open()
  for (const [answer, file, isMade] of [
    ['yes', 'made.txt', true],
    ['no', 'refused.txt', false],
  ]) {
    const run = team.launch(`write ${join(cwd, file)}`, { stream: true, caller: 'ann' })
    const { result, told } = await answered(run, answer)
    const question = told.find(({ type }) => type === 'question')
    assert.equal(question.kind, 'approval')
    assert.equal(question.tool, 'edit')
    assert.match(JSON.stringify(question.input), new RegExp(file))
    assert.deepEqual(question.choices.slice(0, 2), ['yes', 'no'])
    assert.equal(existsSync(join(cwd, file)), isMade)
    if (isMade) assert.match(result.finalOutput, /The tool says/)
    const steps = told.filter(({ type, tool }) => type === 'tool.finished' && tool === 'edit')
    assert.deepEqual(
      steps.map(({ error }) => error === null),
      [isMade],
    )
    assert.equal(result.totalTokenUsage.totalTokens, 15)
  }
  await team.close()
  assert.deepEqual(running(cwd), [])
})

test('a cancelled command is stopped, and nothing of it is left', async (t) => {
  const { open } = await desk(t, { permissions: () => 'allow', cancelMs: 5_000 })
  const team = open()
  const run = team.launch('bash sleep 987')
  await until(() => running('sleep 987').length > 0)
  await run.cancel('enough')
  assert.equal((await run.result).success, false)
  const next = await team.execute('say something')
  assert.equal(next.finalOutput, 'I have seen it.')
  await until(() => running('sleep 987').length === 0)
  await team.close()
})

test('it is killed: the outcome is unknown, and the next task has a new one', async (t) => {
  const { open } = await desk(t, { permissions: () => 'allow' })
  const team = open()
  const run = team.launch('bash sleep 986')
  await until(() => running('sleep 986').length > 0)
  for (const pid of running('opencode'))
    if (readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('acp')) process.kill(pid, 'SIGKILL')
  assert.match((await run.result).error.message, /OutcomeUnknownError/)
  await until(() => running('sleep 986').length === 0)
  assert.equal((await team.execute('say something')).finalOutput, 'I have seen it.')
})

test('the process of the team is killed: an idempotent task goes on in the session, and asks anew', async (t) => {
  const { open, options, cwd, folder } = await desk(t, { idempotent: true })
  const file = join(cwd, 'made.txt')
  const program = join(folder, 'team.mjs')
  const dramatis = JSON.stringify(resolve('../../dist/src/index.js'))
  writeFileSync(
    program,
    `import { createTeam } from ${dramatis}
const team = createTeam(${JSON.stringify(options)})
team.events.subscribe(({ type }) => type === 'question' && team.flush().then(() => console.log('asked')))
await team.start()
team.launch(${JSON.stringify(`write ${file}`)}, { runId: 'one' })`,
  )
  const child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  child.kill('SIGKILL')
  await once(child, 'exit')
  await until(() => running(`opencode acp`).length === 0)
  const team = open()
  await team.start()
  const { result } = await answered(team.getRun('one'), 'yes')
  assert.equal(result.success, true)
  assert.equal(readFileSync(file, 'utf8'), 'made\n')
})
