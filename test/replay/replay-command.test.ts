/** `dramatis replay`: the moments of a run, and its state at one of them, from its log. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { RunMoment, RunView } from '../../src/index.ts'
import { main } from '../../src/service/commands/program.ts'
import { scriptedModel } from '../../src/testing.ts'
import { deskOf, first, type Script } from '../durability/desk-team.ts'
import { folderOf } from '../durability/log-folders.ts'
import { pluck } from '../kit/lists.ts'
import { fakeSurroundings } from '../service/fake-team.ts'

const script: Script = async (desk) => {
  await desk.request('ann', 'publish plan')
  return (await desk.request('bob', 'ask really')).content
}

t.test('without --at it lists what happened, with numbers and times, in order', async (t) => {
  const path = join(folderOf(t), 'log')
  await answered(t, path)
  const { code, stdout } = await replayed('one', '--log', path)
  t.equal(code, 0)
  const lines = stdout.trimEnd().split('\n')
  for (const line of lines) t.match(line, /^ *\d+ {2}\d{4}-\d\d-\d\dT[\d:.]+Z {2}\S/)
  const sentences = lines.map((line) => line.slice(line.indexOf('Z  ') + 3))
  t.ok(
    inOrder(sentences, [
      'the run starts: "go"',
      '$orchestrator sends ann a request: "publish plan"',
      'ann writes "plan" on the blackboard, version 1',
      'ann answers $orchestrator: "version 1"',
      'bob asks a person: "really?"',
      'a person answers bob: "yes"',
      'bob answers $orchestrator: "yes"',
      'the run is finished',
    ]),
    stdout,
  )
  const moments: RunMoment[] = JSON.parse((await replayed('one', '--log', path, '--json')).stdout)
  t.same(pluck(moments, 'sentence'), sentences)
  t.same(
    pluck(moments, 'seq'),
    [...moments.map(({ seq }) => seq)].sort((a, b) => a - b),
  )
})

t.test('--at prints the state at a moment, and the numbers of those beside it', async (t) => {
  const path = join(folderOf(t), 'log')
  const team = await answered(t, path)
  const moments: RunMoment[] = JSON.parse((await replayed('one', '--log', path, '--json')).stdout)
  const index = moments.findIndex(({ sentence }) => sentence.startsWith('bob asks a person'))
  const [before, asked, after] = moments.slice(index - 1, index + 2)
  const { stdout } = await replayed('one', '--log', path, '--at', String(asked!.seq))
  t.match(stdout, /bob asks a person: "really\?"\n\nagents\n/)
  t.match(stdout, /\n {2}bob: waiting\n/)
  t.match(stdout, /\n {2}bob has a request of \$orchestrator \(in a turn\): ask really\n/)
  t.match(stdout, /\n {2}bob waits \(ask\)\n/)
  t.match(stdout, /\nboard\n {2}plan: {"by":"ann"}\n/)
  t.match(stdout, /\n {2}completed, ann: publish plan\n/)
  t.ok(stdout.endsWith(`\nprevious: ${before!.seq}  next: ${after!.seq}\n`), stdout)

  const state = JSON.parse((await replayed('one', '--log', path, '--at', String(asked!.seq), '--json')).stdout)
  const { moment, previous, next, ...view } = state
  t.same([moment, previous, next], [asked, before!.seq, after!.seq])
  t.same(view, plain((await team.replay('one')).at(asked!.seq)))
})

t.test('--at end is the last moment, and 0 is before the first', async (t) => {
  const path = join(folderOf(t), 'log')
  await answered(t, path)
  const end = await replayed('one', '--log', path, '--at', 'end')
  t.match(end.stdout, /the run is finished\n[\s\S]*mailboxes: none\n\nwaits: none\n/)
  t.match(end.stdout, /\nprevious: \d+\n$/)
  const begin = await replayed('one', '--log', path, '--at', '0')
  t.match(begin.stdout, /^before the first moment\n[\s\S]*tasks: none\n\nnext: \d+\n$/)
  t.match(JSON.parse((await replayed('one', '--log', path, '--at', '0', '--json')).stdout), {
    moment: null,
    previous: null,
    tasks: [],
  })
  t.match(await replayed('one', '--log', path, '--at', 'soon'), { code: 2, stderr: /number of the list.*or "end"/ })
})

t.test('a run that is open has a past, and its team is not disturbed', async (t) => {
  const path = join(folderOf(t), 'log')
  const team = deskOf(t, path, script)
  const run = team.launch('go', { runId: 'one' })
  const { questionId } = await first(run.events(), 'question')
  await team.flush()
  const files = readdirSync(path)
  const { code, stdout } = await replayed('one', '--log', path, '--at', 'end')
  t.equal(code, 0)
  t.match(stdout, /\n {2}bob waits \(ask\)\n/)
  t.same(readdirSync(path), files)
  await run.answer(questionId, 'yes')
  t.match(await run.result, { finalOutput: 'yes' })
})

t.test('steps, models, tasks, sync points and handoffs are told in words', async (t) => {
  const path = join(folderOf(t), 'log')
  const many: Script = async (desk) => {
    for (const task of ['steps page', 'think hello', 'give', 'pass']) await desk.request('ann', task)
    await Promise.all(['ann', 'bob'].map((agent) => desk.request(agent, 'meet')))
    return 'done'
  }
  const model = scriptedModel([{ reply: 'good day' }])
  const team = deskOf(t, path, many, {
    models: { default: model },
    syncPoints: [{ name: 'noon', requiredAgents: ['ann', 'bob'], timeoutMs: 60_000 }],
  })
  t.match(await team.execute('go', { runId: 'one' }), { success: true })
  await team.close()
  const { stdout } = await replayed('one', '--log', path)
  for (const sentence of [
    'ann begins the step "page-0"',
    'the step "page-0" of ann is done',
    'ann calls model',
    /the model \S+ has answered ann, for \d+ tokens/,
    'ann sends bob a delegate: "steps given"',
    'a task of bob is completed: "steps given"',
    'handoff from ann to bob: handed_off',
    /sync point noon: .* met/,
  ])
    t.match(stdout, sentence)
})

t.test('a run that failed shows why', async (t) => {
  const path = join(folderOf(t), 'log')
  const fails: Script = async (desk) => {
    await desk.request('ann', 'publish plan')
    throw new Error('the plan is bad')
  }
  const team = deskOf(t, path, fails)
  await team.execute('go', { runId: 'one' })
  await team.close()
  const { stdout } = await replayed('one', '--log', path)
  t.match(stdout, /\$orchestrator fails for \$user: ".*the plan is bad/)
  t.match(stdout, /the run fails: ".*the plan is bad/)
})

t.test(
  'what agents say stays on its line, and secrets of the environment are not printed, not even in part',
  async (t) => {
    const path = join(folderOf(t), 'log')
    const secret = 's3cr3t-s3cr3t-s3cr3t'
    const query = `${'x'.repeat(112)}${secret} \n\u001b[2Jforged`
    const team = deskOf(t, path, async () => 'done')
    await team.execute(query, { runId: 'one' })
    await team.close()
    process.env.DESK_PASSWORD = secret
    t.teardown(() => delete process.env.DESK_PASSWORD)
    for (const more of [[], ['--at', 'end'], ['--json']]) {
      const { stdout } = await replayed('one', '--log', path, ...more)
      t.notMatch(stdout, 's3cr3t')
      t.notMatch(stdout, '\u001b')
      t.notMatch(stdout, /^forged/m)
    }
  },
)

t.test('an unknown run is refused with the ids that are near, and a damaged log with its place', async (t) => {
  const path = join(folderOf(t), 'log')
  await answered(t, path)
  t.match(await replayed('on', '--log', path), { code: 2, stdout: '', stderr: /UNKNOWN_RUN.*Did you mean "one"\?/ })
  t.match(await replayed('one'), { code: 2, stderr: /required option '--log <folder>'/ })
  const file = join(path, readdirSync(path).find((name) => name.endsWith('.log'))!)
  const bytes = readFileSync(file)
  bytes.fill(0xff, 8, 16) // in the header of the segment
  writeFileSync(file, bytes)
  t.match(await replayed('one', '--log', path), { code: 1, stdout: '', stderr: /LOG_CORRUPT/ })
})

/** A run that asks a person, and has ended. */
async function answered(t: Parameters<typeof deskOf>[0], path: string) {
  const team = deskOf(t, path, script)
  const run = team.launch('go', { runId: 'one' })
  await run.answer((await first(run.events(), 'question')).questionId, 'yes')
  await run.result
  await team.close()
  return team
}

/** Whether the texts occur in that order. */
function inOrder(all: readonly string[], texts: readonly string[]): boolean {
  let at = -1
  return texts.every((text) => {
    at = all.indexOf(text, at + 1)
    return at >= 0
  })
}

const plain = (view: RunView): unknown => JSON.parse(JSON.stringify(view))

async function replayed(...args: string[]) {
  const { surroundings, stdout, stderr } = fakeSurroundings()
  const code = await main(['replay', ...args], surroundings)
  return { code, stdout: stdout(), stderr: stderr() }
}
