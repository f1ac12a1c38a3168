/** Commands for the runs of a durable log: runs, questions, answer, resume. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import t from 'tap'
import { createTeam } from '../../src/index.ts'
import { folderOf } from '../durability/log-folders.ts'
import { dramatis } from './command-line.ts'

const teamFile = fileURLToPath(new URL('../fixtures/durability/desk-team-file.js', import.meta.url))
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

/** A folder, and the commands as they run there. */
function place(t: Test) {
  const folder = folderOf(t)
  mkdirSync(folder, { recursive: true })
  const env = { DESK_LOG: join(folder, 'log'), DESK_EFFECTS: join(folder, 'effects') }
  const command = (args: string[], more: Parameters<typeof dramatis>[1] = {}) =>
    dramatis(args, { cwd: folder, ...more, env })
  return { folder, env, command }
}

/** The same team in this process, with run "one" that waits for a person. */
async function asking(t: Test, env: { DESK_LOG: string; DESK_EFFECTS: string }) {
  Object.assign(process.env, env)
  const { default: definition } = await import('../fixtures/durability/desk-team-file.js')
  const team = createTeam({ ...definition, stateManagement: { path: env.DESK_LOG }, logger: silent })
  t.teardown(() => team.close())
  const run = team.launch('go', { runId: 'one' })
  for await (const event of run.events()) if (event.type === 'question') break
  await team.flush()
  return { team, questionId: team.questions()[0]!.questionId }
}

t.test('a question is answered while no process has the log, and the run goes on with the answer', async (t) => {
  const { env, command } = place(t)
  const { team, questionId } = await asking(t, env)
  const log = ['--log', 'log']
  t.match((await command(['runs', ...log])).stdout, /^one {2}waiting +\S+Z {2}go\n$/)
  const held = await command(['answer', questionId, 'yes', ...log])
  t.match(held, { code: 1, stderr: /LOG_HELD: .*Answer there \(run\.answer/ })
  await team.close()

  t.match(await command(['runs', ...log]), { code: 0, stdout: /^one {2}interrupted {2}\S+Z {2}go\n$/, stderr: '' })
  t.same((await command(['questions', ...log])).stdout, `${questionId}  bob in run one\n  really?\n  - yes\n  - no\n`)
  const [open] = JSON.parse((await command(['questions', ...log, '--json'])).stdout)
  t.match(open, { questionId, runId: 'one', agent: 'bob', text: 'really?', choices: ['yes', 'no'], askedAt: Number })
  t.match(await command(['answer', questionId, 'perhaps', ...log]), { code: 2, stderr: /accepted: "yes", "no"/ })
  const reason = await command(['answer', questionId, 'yes', '--reason', 'why not', ...log])
  t.match(reason, { code: 2, stderr: /--reason: it goes with the answer "no" alone/ })
  const input = await command(['answer', questionId, 'yes', '--input', '{}', ...log])
  t.match(input, { code: 2, stderr: /asks no approval of a tool/ })
  t.match(await command(['answer', 'unknown', 'yes', ...log]), { code: 2, stderr: new RegExp(`Open: ${questionId}`) })

  const answered = await command(['answer', questionId, 'yes', ...log])
  t.match(answered, { code: 0, stdout: '', stderr: 'bob gets the answer when run one goes on.\n' })
  t.match(await command(['questions', ...log]), { code: 0, stdout: '', stderr: 'No question is open.\n' })
  t.match(await command(['answer', questionId, 'no', ...log]), { code: 2 }, 'it is answered once')
  t.match(await command(['resume', 'one', teamFile]), { code: 0, stdout: 'go: 4444 yes\n' })
  t.match((await command(['runs', ...log, '--status', 'finished', '--json'])).stdout, '"id": "one"')
  t.match(await command(['runs', ...log, '--status', 'interrupted']), {
    stdout: '',
    stderr: 'No run is interrupted.\n',
  })
})

t.test('resume puts the open questions, and Ctrl-C leaves the run as it is', async (t) => {
  const { env, command } = place(t)
  const { team } = await asking(t, env)
  await team.close()

  const stopped = await command(['resume', teamFile], { interruptAt: 'bob asks: really?', keepsInput: true })
  t.match(stopped, { code: 130, stdout: '' })
  t.match((await command(['runs', '--log', 'log'])).stdout, /^one {2}interrupted /)
  const unanswered = await command(['resume', teamFile])
  t.match(unanswered, { code: 2, stdout: '', stderr: /The run stays interrupted: answer with dramatis answer/ })
  t.match(await command(['resume', teamFile], { input: 'no\n' }), { code: 0, stdout: 'go: 4444 no\n' })
  t.match(await command(['resume', teamFile]), { code: 0, stdout: '', stderr: /No run is interrupted/ })
})

t.test('what cannot be resumed is named', async (t) => {
  const { command } = place(t)
  t.match(await command(['resume', 'three', teamFile]), { code: 2, stderr: /UNKNOWN_RUN: No run "three" is known/ })
  const other = fileURLToPath(new URL('../fixtures/cli/echo-team.js', import.meta.url))
  t.match(await command(['resume', other]), { code: 2, stderr: /echo-team\.js" has no stateManagement/ })
  t.match(await command(['runs', '--log', 'nowhere']), { code: 2, stderr: /--log: "nowhere"/ })
  t.match(await command(['runs', '--log', 'log', '--status', 'gone']), { code: 2, stderr: /interrupted/ })
})
