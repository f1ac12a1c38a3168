/** Failures as their commands show them, and examples with a key. */
import t from 'tap'
import { read } from '../docs/page.ts'
import { modelServer, type SeenCall } from '../fixtures/model-server.ts'
import type { Answer } from '../fixtures/model-wire.ts'
import { dramatis } from '../service/command-line.ts'
import { startBeside } from './start.ts'

// Each failure that docs/explanation/failures.md has a row for, as its command shows it.

/** What the user sees of each. */
const shown: Record<string, { code: number; stdout: string | RegExp; stderr: RegExp[] }> = {
  crash: { code: 0, stdout: 'done, in attempt 2\n', stderr: [/^worker crashed: .*; restarts at once$/m] },
  deadlock: {
    code: 0,
    stdout: /^(less than )?10\n$/,
    stderr: [/^deadlock: ann -> bob$/m, /^deadlock: ann -> bob; (ann|bob) gives way$/m],
  },
  livelock: {
    code: 1,
    stdout: '',
    stderr: [
      /^livelock: "manager" asked "worker" the same 4 times/m,
      /^warn worker No progress: /m,
      /^error: LIVELOCK: /m,
    ],
  },
  silence: {
    code: 1,
    stdout: '',
    stderr: [
      /asked again[\s\S]*asked again/,
      /^warn manager .*did not answer .*asked 3 times/m,
      /^error: .*RequestTimeoutError/m,
    ],
  },
  tie: { code: 0, stdout: 'blue\n', stderr: [/^task completed: chair: go$/m] },
}

for (const [name, { code, stdout, stderr }] of Object.entries(shown))
  t.test(name, async (t) => {
    const file = `examples/failures/${name}.ts` // tests are started in the project's folder
    t.match(read('docs/explanation/failures.md'), `\`${file} go\``)
    const seen = await dramatis(['run', file, 'go'])
    t.equal(seen.code, code, seen.stderr)
    t.match(seen.stdout, stdout)
    for (const line of stderr) t.match(seen.stderr, line)
  })

// With a key the models are real: each example asks the provider that the environment names, and plays no script.

/** An answer that fits what is asked for. */
function answerTo({ prompt, body }: SeenCall): string | Answer {
  const schema = JSON.stringify(body.response_format ?? '')
  const json = (value: unknown) => JSON.stringify(value)
  if (schema.includes('"evidence"')) return json({ argument: 'It is faster.', evidence: ['a benchmark'] })
  if (schema.includes('"winner"')) return json({ winner: 'critic', reasons: 'It has more evidence.' })
  if (schema.includes('"approved"')) return json({ approved: true })
  if (schema.includes('"worker"')) return json({ tasks: [{ worker: 'backend_dev', task: 'Write it.' }] })
  if (body.tool_choice === 'required')
    return { toolCalls: [{ name: 'create_plan', input: { tasks: [{ agent: 'ResearchAgent', task: 'Find it.' }] } }] }
  return prompt.includes('JSON array') ? json(['Find a flight', 'List activities']) : 'In the words of the model.'
}

for (const example of ['agent-workbench', 'api-debate', 'research-desk', 'web-team', 'writing-pipeline']) {
  t.test(`${example} asks the provider`, async (t) => {
    const server = await modelServer(t)
    server.always(answerTo)
    const { status, stdout, stderr } = await startBeside(example, {
      OPENAI_API_KEY: 'sk-of-the-user',
      OPENAI_BASE_URL: server.baseURL,
      DRAMATIS_MODEL: 'small',
      TMPDIR: t.testdir(),
    })
    t.equal(status, 0, stderr)
    t.match(stdout, /In the words of the model\.\n/)
    t.notMatch(stderr, 'script')
    t.ok(server.calls.length > 2)
    for (const { key, body } of server.calls)
      t.match({ key, model: body.model }, { key: 'sk-of-the-user', model: 'small' })
    t.notMatch(stdout + stderr, 'sk-of-the-user')
  })
}
