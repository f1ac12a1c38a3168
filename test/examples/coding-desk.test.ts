/** The coding desk with a model: a conversation at the terminal. The session that is played without one is in desks.test.ts. */
import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import t from 'tap'
import { modelServer } from '../fixtures/model-server.ts'

/** What resolves when that has been printed since it was asked last. */
function reader(child: ChildProcess, stream: Readable) {
  const over = new AbortController()
  child.once('close', () => over.abort())
  let text = ''
  stream.setEncoding('utf8').on('data', (piece: string) => {
    text += piece
  })
  return async (what: RegExp) => {
    while (!what.test(text)) await once(stream, 'data', { signal: over.signal })
    text = ''
  }
}

async function talk(child: ChildProcessWithoutNullStreams): Promise<void> {
  const said = reader(child, child.stdout)
  const shown = reader(child, child.stderr)
  await shown(/> $/)
  child.stdin.write('I need a calculator.\n')
  await shown(/Which operations\? \(all \| plus alone\) $/)
  child.stdin.write('plus alone\n')
  await said(/^Plus it is\.\n$/)
  child.stdin.write('Why?\n')
  await said(/^You said so\.\n$/)
  child.stdin.end()
}

t.test('it asks what is unclear, goes on with the answer, and remembers what was said', async (t) => {
  const server = await modelServer(t)
  const question = { question: 'Which operations?', choices: ['all', 'plus alone'] }
  server.answer({ toolCalls: [{ name: 'clarify_with_user', input: question }] }, 'Plus it is.', 'You said so.')
  const env = { ...process.env, OPENAI_API_KEY: 'a-key', OPENAI_BASE_URL: server.baseURL, DRAMATIS_MODEL: 'small' }
  const child = spawn(process.execPath, ['dist/examples/coding-desk/main.js'], { env: { ...env, TMPDIR: t.testdir() } })
  t.teardown(() => child.kill())
  const ended = once(child, 'exit')
  await talk(child)
  t.same(await ended, [0, null])
  const said = server.calls.map(({ body }) => body.messages.map(({ role, content }) => `${role}: ${content}`).slice(1))
  t.same(said[0], ['user: I need a calculator.'])
  t.equal(said[1]?.at(-1), 'tool: plus alone')
  t.same(
    [said[2]?.[0], said[2]?.at(-2), said[2]?.at(-1)],
    ['user: I need a calculator.', 'assistant: Plus it is.', 'user: Why?'],
  )
})
