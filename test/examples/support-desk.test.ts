/** The support desk: evaluated, served to several people, killed around a refund, and rehearsed. Without a key. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { open as openFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type ModelPiece, type ModelRequest, textOf } from 'dramatis/models'
import { rehearse, testTeam } from 'dramatis/testing'
import t, { type Test } from 'tap'
import { withoutKeys } from '../../examples/lib/without-keys.ts'
import byRules from '../../examples/support-desk/rules.ts'
import { desk } from '../../examples/support-desk/team.ts'
import { inBrowser, open } from '../dashboard/browser.ts'
import { howMany } from '../how-many.ts'
import { silent } from '../kit/team.ts'
import { start } from './start.ts'

const WISH = 'Please refund my order A-7.'
const PAID = { tenant: 'acme', order: 'A-7', cents: 4_900 }

interface Question {
  questionId: string
  digest: string
}

t.test('it has less than 200 lines, as its README says', async (t) => {
  const folder = 'examples/support-desk'
  const files = readdirSync(folder).filter((name) => name.endsWith('.ts'))
  const lines = files.reduce((sum, name) => sum + readFileSync(join(folder, name), 'utf8').split('\n').length - 1, 0)
  t.ok(lines < 200, `${lines} lines`)
})

t.test('it does in each case what is expected, though one model server is killed', async (t) => {
  const { status, stdout, stderr } = start('support-desk')
  t.equal(status, 0, stdout + stderr)
  t.match(stdout, /^ok {2}acme: Please refund my order A-7\. -> Order A-7 is paid back\.$/m)
  t.match(stdout, /^ok {2}globex: Please refund my order A-7\. -> .*no order A-7/m)
  t.match(stdout, 'fast is unreachable: spare answers')
  t.match(stdout, /^4 of 4 cases as expected, for 0\.\d{4} EUR$/m)
})

t.test('who asks cannot approve, another tenant sees nothing, finance agrees to what it was shown', async (t) => {
  const { ann, eve, bob, refunds } = await shared()
  const id = await ann.begins(WISH)
  const { questionId, digest, ...shown } = await bob.asked(id)
  t.match(shown, { taskId: id, tool: 'refund', input: { order: 'A-7', cents: 4_900 }, groups: ['finance'] })
  const answers = `/api/tasks/${id}/answers`
  const yes = { questionId, answer: 'yes', digest }
  t.equal((await ann.send(answers, yes)).status, 403)
  t.equal((await eve.send(answers, yes)).status, 404)
  t.equal((await bob.send(answers, { questionId, answer: 'yes' })).status, 422)
  t.same(refunds(), [])
  t.ok((await bob.send(answers, yes)).ok)
  t.match(await ann.ended(id), { status: 'finished', answer: 'Order A-7 is paid back.' })
  t.match(refunds(), [PAID])
  t.match(await eve.ended(await eve.begins(WISH)), { answer: /no order A-7/, speaker: 'billing' })
})

t.test('a model server that is killed while it speaks is relieved by the other one', async (t) => {
  const { ann, modelServer } = await shared() // the last test that asks it
  const id = await ann.begins('There is lime in my kettle.', '?deltas=1')
  for await (const _word of ann.events(id, 'model.delta', '&deltas=1')) break
  process.kill(modelServer, 'SIGKILL')
  for await (const { from, to } of ann.events(id, 'model.switched')) {
    t.same([from, to], ['fast', 'spare'])
    break
  }
  t.match(await ann.ended(id), { status: 'finished', speaker: 'tech', answer: /^Boil it/ })
})

t.test('a refund is paid once: killed before it is approved, and between the approval and the payment', async (t) => {
  const folder = temporary(t)
  const ledger = join(folder, 'refunds.jsonl')
  const first = await life(t, folder)
  const id = await first.ann.begins(WISH)
  const { questionId, digest } = await first.bob.asked(id)
  await first.dies()
  const second = await life(t, folder)
  t.match(await second.bob.asked(id), { questionId, digest })
  execFileSync('mkfifo', [ledger]) // who reads it waits for who writes
  const paying = openFile(ledger, 'w') // opens when the tool has come to it
  const answered = second.bob.send(`/api/tasks/${id}/answers`, { questionId, answer: 'yes', digest }).catch(() => {})
  await (await paying).close()
  await second.dies()
  await answered
  rmSync(ledger)
  const third = await life(t, folder)
  t.match(await third.ann.ended(id), { status: 'finished', answer: 'Order A-7 is paid back.', speaker: 'billing' })
  t.match(third.refunds(), [PAID])
})

t.test('the chat shows who speaks, and ends when a colleague has agreed on another page', inBrowser, async (t) => {
  const { ann, bob, modelServer } = await life(t, temporary(t))
  const { page: chat, complaints } = await open(t, ann.page)
  await chat.getByRole('link', { name: 'Chat' }).click()
  await chat.getByRole('textbox').fill(WISH)
  process.kill(modelServer, 'SIGSTOP') // triage has no words yet
  await chat.keyboard.press('Enter')
  await chat.getByText('triage speaks now').waitFor()
  process.kill(modelServer, 'SIGCONT')
  await chat.getByText('I hand you over to billing.').waitFor()
  await chat.getByText('billing speaks now').waitFor()
  await chat.getByText('ann began this run and cannot approve it; finance may.').waitFor()
  await chat.getByRole('textbox').fill('It is for my mother.')
  await chat.keyboard.press('Enter')
  await chat.getByRole('img', { name: 'not read yet' }).waitFor()
  const { page: approvals } = await open(t, bob.page)
  await approvals.getByRole('button', { name: 'Allow' }).click()
  await chat.getByText('Order A-7 is paid back.').waitFor()
  await chat.getByRole('img', { name: 'read by billing' }).waitFor()
  await chat.getByText('billing has spoken').waitFor()
  t.same(complaints, [])
})

t.test('rehearsed with crashes, delays and failing models, nobody is paid twice', async (t) => {
  const folder = temporary(t)
  const ledger = join(folder, 'refunds.jsonl')
  const options = desk(folder, { fast: rules(), spare: rules() })
  const seeds = howMany(20, 100)
  let paid = 0
  const { failures } = await rehearse(options, {
    query: WISH,
    tenant: 'acme',
    seeds,
    faults: ['crash', 'delay', 'duplicate', 'model'],
    realTools: true,
    check(outcome) {
      const lines = linesOf(ledger)
      rmSync(ledger, { force: true })
      t.ok(lines.length <= 1)
      if (outcome.ok) t.equal(lines.length === 1, outcome.message.content.includes('is paid back'))
      paid += lines.length
    },
  })
  const withheld = failures.filter(({ error }) => error.modelFailure?.reason === 'filtered') // no other model is asked
  t.same(failures, withheld)
  t.ok(paid > seeds / 8 && paid < seeds, `${paid} of ${seeds} were agreed to`)
})

t.test('a company that has spent its money for the day is refused, the other one is served', async (t) => {
  const dear = { currency: 'EUR', models: { rules: { input: 300, output: 300 } } }
  const team = testTeam({ ...desk(temporary(t), { fast: rules(), spare: rules() }), prices: dear, logger: silent })
  t.teardown(() => team.close())
  const ask = (tenant: string) => team.execute('There is lime in my kettle.', { tenant })
  let last = await ask('globex')
  let spent = 0
  for (; last.success && spent < 2; last = await ask('globex')) spent += last.money?.amount ?? 0
  t.ok(spent > 1 && spent <= 2, `${spent} of 2 EUR`)
  t.match(last.error, { code: 'BUDGET_EXCEEDED', details: { option: 'budget.perTenant.each.money', tenant: 'globex' } })
  t.match(await ask('acme'), { success: true, speaker: 'tech' })
})

/** The model servers' rules, in this thread. */
const rules = () => ({ model: 'rules', client: { offline: true, complete: byTheRules } })

async function* byTheRules({ messages, jsonSchema }: ModelRequest): AsyncGenerator<ModelPiece> {
  const asked = messages.map(({ role, content }) => ({ role, content: textOf(content) }))
  const { text, call } = byRules({ messages: asked, isTyped: jsonSchema !== undefined })
  if (text) yield { text }
  if (call) yield { toolCall: { id: `call-${messages.length}`, name: call.name, input: JSON.stringify(call.input) } }
}

const linesOf = (file: string): unknown[] =>
  existsSync(file)
    ? readFileSync(file, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
    : []

/** A folder that goes when the test is over, behind the processes that write into it. */
function temporary(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'support-desk-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** A process of the desk, and what people do over HTTP. */
async function life(t: Test, folder: string) {
  const env = { ...withoutKeys(process.env), SUPPORT_DESK: folder, PORT: '0' }
  const child = spawn(process.execPath, ['dist/examples/support-desk/serve.js'], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  const dies = async () => {
    child.kill('SIGKILL')
    await ended
  }
  t.teardown(dies)
  const pages = new Map<string, string>()
  let modelServer = 0
  for await (const line of createInterface(child.stdout)) {
    const [, name, page] = /^(\w+): (http\S+)$/.exec(line) ?? []
    if (name && page) pages.set(name, page)
    modelServer = Number(/: kill (\d+)$/.exec(line)?.[1] ?? 0)
    if (modelServer > 0) break
  }
  const of = (name: string) => personAt(new URL(pages.get(name)!))
  const refunds = () => linesOf(join(folder, 'refunds.jsonl'))
  return { ann: of('ann'), eve: of('eve'), bob: of('bob'), modelServer, refunds, dies }
}

let sharedLife: ReturnType<typeof life> | undefined

/** A desk that several tests ask. */
function shared() {
  sharedLife ??= life(t, temporary(t))
  return sharedLife
}

function personAt({ origin, hash, href }: URL) {
  const authorization = hash.replace('#token=', 'Bearer ')
  const get = async (path: string, accept = 'application/json') =>
    fetch(`${origin}${path}`, { headers: { authorization, accept } })
  const send = (path: string, body: object) =>
    fetch(`${origin}${path}`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json', prefer: 'respond-async' },
      body: JSON.stringify(body),
    })
  /** The events of a task, as they come. */
  async function* events(id: string, types: string, more = ''): AsyncGenerator<Record<string, unknown>> {
    const { body } = await get(`/api/tasks/${id}/events?types=${types}${more}`, 'application/x-ndjson')
    let rest = ''
    for await (const chunk of body!.pipeThrough(new TextDecoderStream())) {
      const lines = `${rest}${chunk}`.split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) if (line !== '') yield JSON.parse(line)
    }
  }
  return {
    page: href,
    send,
    events,
    begins: async (query: string, how = '') =>
      ((await (await send(`/api/tasks${how}`, { query })).json()) as { id: string }).id,
    ended: async (id: string): Promise<unknown> => (await get(`/api/tasks/${id}?wait=30`)).json(),
    /** The question of a task, as soon as there is one. */
    async asked(id: string): Promise<Question> {
      for await (const _question of events(id, 'question')) break
      const { questions } = (await (await get('/api/questions')).json()) as { questions: [Question] }
      return questions[0]
    },
  }
}
