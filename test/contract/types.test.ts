/** Programs and types as users write them. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { modelServer, type SeenCall } from '../fixtures/model-server.ts'
import type { Answer } from '../fixtures/wires/wire.ts'

// Programs as users write them compile against the declarations that are shipped, under settings as strict as a user
// may
// have; and what must not compile does not: an error that was expected and did not come is one too.

const root = fileURLToPath(new URL('../../../', import.meta.url)) // this runs as dist/test/contract/types.test.js

t.test('the programs in test/types compile', async (t) => {
  const args = ['node_modules/typescript/bin/tsc', '-p', 'test/types', '--pretty', 'false']
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8' })
  t.equal(`${stdout}${stderr}`, '')
  t.equal(status, 0)
})

// Programs as users write them, each in a process of its own with a model at a real address. Types: test/types.

type Answering = (call: SeenCall) => string | Answer

const call = (name: string, input: object, words = ''): Answer => ({ text: words, toolCalls: [{ name, input }] })
const isBehindTool = ({ body }: SeenCall) => body.messages.at(-1)?.role === 'tool'
const invoice = '{"category":"invoice","answer":"It is paid twice."}'

/** What the model says to each program, and what the program prints. */
const PROGRAMS: Record<string, [answer: Answering, printed: string | RegExp]> = {
  handoff: [
    ({ body }) =>
      String(body.messages[0]?.content).startsWith('Find out')
        ? call('handoff', { to: 'billing', task: 'Look at the invoice.' }, 'One moment.')
        : invoice,
    'billing invoice\n',
  ],
  output: [() => invoice, "{ category: 'invoice', answer: 'It is paid twice.' }\n"],
  approval: [
    (seen) => (isBehindTool(seen) ? `Done: ${seen.prompt}` : call('refund', { orderId: 'A-7', cents: 4_900 })),
    /^ann 403\nbob 20\d\nbob 4\d\d\neve 20\d\nDone: refunded A-7, .+\n$/,
  ],
  text: [
    (seen) => (isBehindTool(seen) ? `It is ${seen.prompt}.` : call('add', { a: 1, b: 2 }, 'Let me add.')),
    'Let me add.\n\nIt is 3.true\n',
  ],
  failover: [
    ({ body }) => (body.model === 'llama-4' ? 'From the spare.' : { status: 429, headers: { 'retry-after': '40' } }),
    'From the spare.\n',
  ],
  hung: [() => 'Nobody asks.', '[]\n'],
}

for (const [name, [answer, printed]] of Object.entries(PROGRAMS))
  t.test(name, async (t) => {
    const [server, spare] = [await modelServer(t), await modelServer(t)]
    server.always(answer)
    spare.always(answer)
    const program = fileURLToPath(new URL(`../fixtures/programs/${name}.js`, import.meta.url))
    const env = { ...process.env, MODEL_URL: server.baseURL, SPARE_URL: spare.baseURL }
    const child = spawn(process.execPath, [program], { cwd: t.testdir(), env, stdio: ['ignore', 'pipe', 'pipe'] })
    t.teardown(() => child.kill())
    const [said, failure, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
    t.equal(code, 0, failure)
    t.match(said, printed)
  })
