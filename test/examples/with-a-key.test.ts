/** With a key the models are real: each example asks the provider that the environment names, and plays no script. */
import t from 'tap'
import { modelServer, type SeenCall } from '../fixtures/model-server.ts'
import type { Answer } from '../fixtures/model-wire.ts'
import { startBeside } from './start.ts'

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
