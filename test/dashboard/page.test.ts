/** The dashboard in a browser: tasks, answers, questions, tokens; by hand, by keys alone, and with hostile words. */
import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import t from 'tap'
import { z } from 'zod'
import { defineAgent, defineTool, type ModelClient } from '../../src/index.ts'
import { bearerToken } from '../../src/service/api/index.ts'
import { gate } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'
import { inBrowser, open } from './browser.ts'
import { HOSTILE } from './hostile-texts.ts'
import { served } from './served.ts'

const TOKEN = 'a-token-of-more-than-sixteen-characters'

t.test('a task is given, watched and answered, in any script', inBrowser, async (t) => {
  const { url } = await served(t)
  const { page, complaints } = await open(t, url)
  await page.getByLabel('Give the team a task').fill('请写一首关于雨的诗。')
  await page.keyboard.press('Enter')
  await page.getByRole('region', { name: 'Answer' }).getByText('heard: 请写一首关于雨的诗。').waitFor()
  await page.getByRole('row', { name: /done.*请写一首关于雨的诗。/ }).waitFor()
  t.match(page.url(), /#\/tasks\?task=/, 'the URL names the task')
  await page.reload()
  await page.getByRole('region', { name: 'Answer' }).getByText('heard: 请写一首关于雨的诗。').waitFor()
  t.same(complaints, [])
})

t.test('an answer in a schema is shown by its fields', inBrowser, async (t) => {
  const answer = { text: 'Refunded.', order: { id: 'A-7', cents: 1_250 }, lines: ['lamp', 'bulb'], note: null }
  const { url, team } = await served(t, {
    agents: { worker: defineAgent({ receive: () => JSON.stringify(answer) }) },
    options: { output: z.looseObject({ text: z.string() }) },
  })
  await team.execute('Refund it.', { threadId: 'ann' })
  const { page, complaints } = await open(t, `${url}#/chat?thread=ann`)
  const shown = page.getByRole('region', { name: 'Answer' })
  await shown.getByText('A-7').waitFor()
  t.equal(await shown.textContent(), 'textRefunded.orderidA-7cents1250lines1.lamp2.bulbnotenull')
  t.same(complaints, [])
})

t.test('an approval is allowed, denied with a reason, and allowed with another input', inBrowser, async (t) => {
  const { url, paid } = await served(t)
  const { page } = await open(t, `${url}#/chat`)
  const say = async (text: string) => {
    await page.getByLabel('Write to the team').fill(text)
    await page.keyboard.press('Enter')
    await page.getByRole('region', { name: 'Approval of worker' }).waitFor()
    await page.evaluate('document.activeElement.blur()')
  }
  await say('pay once')
  await page.keyboard.press('a')
  await page.keyboard.press('Enter')
  await page.getByText('pay: paid').waitFor()
  t.same(paid, [{ to: 'ann', euros: 90 }])
  await say('pay again')
  await page.getByLabel('Reason to deny').fill('too much')
  await page.getByRole('button', { name: 'Deny' }).click()
  await page.getByText(/pay: .*too much/).waitFor()
  await say('pay less')
  await page.getByRole('button', { name: 'Change the input' }).click()
  await page.getByLabel('Input of the call').fill('{ "to": "bob", "euros": 1 }')
  await page.getByRole('button', { name: 'Allow' }).click()
  await page.getByText('pay: paid').nth(1).waitFor()
  t.same(paid.slice(1), [{ to: 'bob', euros: 1 }])
})

t.test('who began a task cannot approve its calls, and reads why in place of the buttons', inBrowser, async (t) => {
  const { url, paid } = await served(t, { api: { approveOwn: false } })
  const { page } = await open(t, `${url}#/chat`)
  await page.getByLabel('Write to the team').fill('pay once')
  await page.keyboard.press('Enter')
  const card = page.getByRole('region', { name: 'Approval of worker' })
  await card.getByText('me began this run and cannot approve it').waitFor()
  await card.getByText('one has to agree, not who began the task').waitFor()
  t.equal(await card.getByRole('button').count(), 0)
  await page.evaluate('document.activeElement.blur()')
  await page.keyboard.press('a')
  t.same(paid, [])
})

t.test('a question with choices is answered by keys alone', inBrowser, async (t) => {
  const { url } = await served(t)
  const { page } = await open(t, url)
  await page.getByLabel('Give the team a task').waitFor()
  await focusOn(page, 'Give the team a task')
  await page.keyboard.type('ask')
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'blue' }).waitFor()
  await focusOn(page, 'blue')
  await page.keyboard.press('Enter')
  await page.getByText('you said blue').waitFor()
  await page.keyboard.press('7')
  await page.getByRole('heading', { name: 'Chat' }).waitFor()
  await page.keyboard.press('1')
  // until then there is nothing that could take the focus
  await page.getByRole('row', { name: /done ask/ }).waitFor()
  await page.keyboard.press('j')
  t.equal(await page.evaluate('document.activeElement.textContent'), 'ask', 'a row has the focus')
  await page.keyboard.press('?')
  await page.getByRole('region', { name: 'Keys' }).waitFor()
})

t.test('a form that a tool asks with is filled in field by field, and its answer is checked', inBrowser, async (t) => {
  const form = {
    type: 'object',
    properties: {
      name: { type: 'string', title: 'Whose', description: 'as on the door' },
      floor: { type: 'integer', minimum: 1 },
      size: { enum: ['small', 'large'] },
      gift: { type: 'boolean' },
    },
    required: ['name'],
  }
  const ship = defineTool({
    name: 'ship',
    description: 'Ships.',
    input: z.object({}),
    run: (_input, { ask }) => ask('Where to?', { form }),
  })
  const worker = defineAgent({ receive: async (_message, context) => `shipped: ${await context.tool(ship, {})}` })
  const { url } = await served(t, { agents: { worker }, options: { tools: [ship] } })
  const { page } = await open(t, url)
  await page.getByLabel('Give the team a task').fill('go')
  await page.keyboard.press('Enter')
  const card = page.getByRole('region', { name: 'Question of worker' })
  await card.getByLabel('Whose as on the door').fill('ann')
  await card.getByLabel('floor').fill('0')
  await card.getByLabel('size').selectOption('large')
  await card.getByLabel('gift').check()
  await card.getByRole('button', { name: 'Answer' }).click()
  await card.getByText('floor: ').waitFor()
  await card.getByLabel('floor').fill('3')
  await card.getByRole('button', { name: 'Answer' }).click()
  await page.getByText('shipped: {"name":"ann","floor":3,"size":"large","gift":true}').first().waitFor()
})

/** Presses Tab until the element of that name has the focus. */
async function focusOn(page: Page, name: string): Promise<void> {
  for (let presses = 0; presses < 60; presses++) {
    await page.keyboard.press('Tab')
    const focused = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
    if (String(await page.evaluate(focused)).includes(name)) return
  }
  throw new Error(`Tab does not reach ${name}`)
}

t.test('a token is taken out of the URL, kept where no script reads it, and asked for again', inBrowser, async (t) => {
  const authorize = bearerToken(TOKEN, { id: 'ann', may: ['run', 'watch'] })
  const { url } = await served(t, { api: { authorize } })
  const { page, context } = await open(t, `${url}#token=${TOKEN}`)
  await page.getByLabel('Give the team a task').waitFor()
  t.notMatch(page.url(), TOKEN)
  const [cookie] = await context.cookies()
  t.match(cookie, { name: 'dramatis_session', httpOnly: true, sameSite: 'Strict' })
  t.notMatch(cookie!.value, TOKEN)
  await context.clearCookies()
  await page.reload()
  await page.getByRole('heading', { name: 'Who are you?' }).waitFor()
  await page.getByLabel('Token').fill('wrong')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').getByText('does not know that token').waitFor()
  t.match(await page.getByRole('status').textContent(), 'needs a token')
  await page.getByLabel('Token').fill(TOKEN)
  await page.keyboard.press('Enter')
  await page.getByLabel('Give the team a task').waitFor()
})

t.test('whoever may not watch gives tasks, and is told what is missing', inBrowser, async (t) => {
  const { url } = await served(t, { api: { authorize: () => ({ id: 'ann', may: ['run'] }) } })
  const { page } = await open(t, url)
  await page.getByText('you need the right to watch').waitFor()
  await page.getByLabel('Give the team a task').fill('hello')
  await page.keyboard.press('Enter')
  await page.getByRole('region', { name: 'Answer' }).getByText('heard: hello').waitFor()
})

t.test('who may approve, and not watch, has the card of a task of somebody else', inBrowser, async (t) => {
  for (const may of [['approve'], ['run', 'approve']] as const) {
    const { url, team, paid } = await served(t, { api: { authorize: () => ({ id: 'bob', may: [...may] }) } })
    const run = team.launch('pay', { caller: 'ann' })
    const { page } = await open(t, url)
    const gives = may.length > 1 ? 'You may give the team tasks and approve calls.' : 'You may approve calls.'
    await page.getByText(gives).waitFor()
    const card = page.getByRole('region', { name: 'Approval of worker' })
    await card.getByRole('button', { name: 'Allow' }).click()
    await run.result
    t.equal(paid.length, 1)
  }
})

t.test('an answer in a schema is shown by its fields while it is written', inBrowser, async (t) => {
  const written = gate()
  const model: ModelClient = {
    offline: true,
    async *complete() {
      yield { text: '{"reply":"Your invoice is ' }
      await written.opened
      yield { text: 'right.","open":false}' }
    },
  }
  const { url } = await served(t, {
    agents: {},
    model,
    options: { agents: [{ name: 'ann' }], output: z.object({ reply: z.string(), open: z.boolean() }) },
  })
  const { page } = await open(t, `${url}#/chat`)
  await page.getByLabel('Write to the team').fill('Is it right?')
  await page.keyboard.press('Enter')
  const shown = page.getByRole('region', { name: 'Answer' })
  await shown.getByText('Your invoice is').waitFor()
  t.equal(await shown.textContent(), 'replyYour invoice is ')
  written.open()
  await shown.getByText('Your invoice is right.').waitFor()
})

t.test('whoever may not watch is told when nobody answers, and goes on when somebody does', inBrowser, async (t) => {
  const api = { authorize: () => ({ id: 'ann', may: ['run'] as const }) }
  const { url, stop } = await served(t, { api })
  const { page, complaints } = await open(t, url)
  const status = page.getByRole('banner').getByRole('status')
  await status.getByText('not watching').waitFor()
  await stop()
  await page.getByRole('alert').getByText('The service does not answer').waitFor()
  const { team } = await served(t, { api, port: Number(new URL(url).port) })
  await status.getByText('not watching').waitFor()
  await page.getByText('you need the right to watch').waitFor()
  await page.getByLabel('Give the team a task').fill('hello')
  await page.keyboard.press('Enter')
  await page.getByRole('region', { name: 'Answer' }).getByText('heard: hello').waitFor()
  t.equal((await team.listRuns()).length, 1)
  t.same(complaints, [])
})

t.test('the page works below a path, with and without a slash at its end', inBrowser, async (t) => {
  const { url } = await served(t, { api: { basePath: '/tools/agents' } })
  for (const place of ['tools/agents', 'tools/agents/']) {
    const { page } = await open(t, url + place)
    await page.getByText('live').waitFor()
    await page.getByLabel('Give the team a task').fill('hello')
    await page.keyboard.press('Enter')
    await page.getByRole('region', { name: 'Answer' }).getByText('heard: hello').waitFor()
  }
})

/** Puts the texts wherever an agent can put one, and asks a person with them. */
const hostile = defineAgent({
  async receive({ content }, context) {
    if (content === 'fail') throw new Error(HOSTILE.join(' '))
    for (const [n, text] of HOSTILE.entries()) await context.blackboard!.write(`entry.n${n}`, { [text]: text }, 'text')
    await context.ask(HOSTILE.join(' '), { choices: HOSTILE.slice(0, 20) })
    return HOSTILE.join('\n\n')
  },
})

t.test('the table of agents says how full a context is, for those that a model plays', inBrowser, async (t) => {
  const { url, team } = await served(t, {
    options: {
      agents: [{ name: 'worker' }, { name: 'poet', systemPrompt: 'You write poems about rain.', maxTokens: 1_000 }],
    },
    model: new FakeModel(() => [
      { text: 'drip '.repeat(300) },
      { usage: { inputTokens: 20, outputTokens: 300, totalTokens: 320, calls: 1 } },
    ]),
  })
  const { page } = await open(t, `${url}#/team`)
  const row = (name: string) => page.getByRole('row', { name: new RegExp(`^${name}`) })
  await row('poet').waitFor()
  t.equal(await page.getByRole('meter').count(), 0, 'nothing is counted before a model has answered')
  await team.execute('rain')
  await row('poet')
    .getByText(/^[3-9]\d %$/)
    .waitFor()
  t.equal(await row('worker').getByRole('meter').count(), 0)
  await row('poet').getByRole('link').click()
  await page.getByText('played by the default model of the team').waitFor()
  await page.goto(`${url}#/team?agent=nobody`)
  await page.getByRole('alert').getByText('has no agent "nobody"').waitFor()
})

t.test('a sub-task that its plan skips stands in the task with the reason', inBrowser, async (t) => {
  const tasks = [
    { agent: 'ann', task: 'look at the sky' },
    { agent: 'ann', task: 'fetch umbrellas', runIf: { task: 1, value: 'rain' } },
  ]
  const chief = defineAgent({
    receive: ({ metadata }) => (metadata.answerSchema ? { structuredData: { tasks, reasoning: 'so' } } : 'stay dry'),
  })
  const { url } = await served(t, {
    agents: { chief, ann: defineAgent({ receive: () => 'sun' }) },
    options: { orchestration: { strategy: 'supervisor', supervisor: 'chief', experts: ['ann'] } },
  })
  const { page, complaints } = await open(t, url)
  await page.getByLabel('Give the team a task').fill('Shall I get wet?')
  await page.keyboard.press('Enter')
  const row = page.getByRole('listitem').filter({ hasText: 'fetch umbrellas' })
  await row.waitFor()
  t.match(await row.textContent(), /skipped\s+fetch umbrellas: It is run only if the result of task 1 equals "rain"/)
  t.same(complaints, [])
})

t.test('hostile words are text: no dialog, no complaint of the policy, links with their host', inBrowser, async (t) => {
  t.ok(new Set(HOSTILE).size >= 60)
  const { url, team } = await served(t, { agents: { worker: hostile } })
  await team.sendMessage({ recipient: 'worker', content: 'fail' })
  while (team.deadLetters.list().length === 0) await team.clock.advance(1_000)
  const { page, complaints } = await open(t, url)
  await page.getByLabel('Give the team a task').fill(HOSTILE.join(' '))
  await page.keyboard.press('Enter')
  await page.getByRole('region', { name: 'Question of worker' }).waitFor()
  const lookAround = async () => {
    for (const view of ['chat', 'board', 'trouble', 'cost', 'run', 'team', 'tasks']) {
      await page.evaluate(`location.hash = location.hash.replace(/^#.\\w+/, '#/${view}')`)
      await page.locator(`main.view-${view}`).waitFor()
      const made = 'main :is(img, script, iframe, style, base, meta, link, object, embed, video, math, template)'
      t.equal(await page.locator(made).count(), 0, `${view} makes nothing of them`)
    }
  }
  await lookAround()
  await team.answer(team.questions()[0]!.questionId, HOSTILE[0]!)
  const answer = page.getByRole('region', { name: 'Answer' })
  await answer.waitFor()
  const links = await answer.locator('a').evaluateAll((all) => all.map((each) => each.getAttribute('href')))
  t.same(new Set(links.map((href) => new URL(href!).protocol)), new Set(['https:']))
  t.ok(links.includes('https://example.com/a?b=c'))
  await answer.getByText('(example.com)').first().waitFor()
  t.match(await answer.textContent(), '\\u{202e}', 'what changes the order of letters is shown')
  await page.keyboard.press('Escape')
  await lookAround()
  t.same(complaints, [])
})

t.test('the page and all that it needs is below 120 KB, zipped', async (t: Test) => {
  const files = ['page.bundle.js', 'page.bundle.css'].map((name) =>
    readFileSync(new URL(`../../src/service/page/${name}`, import.meta.url)),
  )
  const bytes = files.reduce((sum, file) => sum + gzipSync(file).length, 0)
  t.ok(bytes < 120_000, `${bytes} bytes`)
  t.notOk(/\bprocess\.\w|\bBuffer\b/.test(String(files[0])), 'nothing of Node is in it')
})

t.test(
  'what is written while a model works is said to it, Alt+Enter interrupts, and a tick says who has read it',
  inBrowser,
  async (t) => {
    const [asked, held] = [gate(), gate()]
    const model = new FakeModel(async ({ messages }, nth) => {
      asked.open()
      if (nth === 0) await held.opened
      return `after ${messages.filter(({ role }) => role === 'user').map(({ content }) => content)}`
    })
    const { url } = await served(t, { agents: {}, options: { agents: [{ name: 'ann' }] }, model })
    const { page, complaints } = await open(t, `${url}#/chat?thread=talk`)
    const write = async (text: string, key: string) => {
      await page.getByLabel('Write to the team').fill(text)
      await page.keyboard.press(key)
      await page.locator('.mine').getByText(text).waitFor()
    }
    await write('How long?', 'Enter')
    await page.getByRole('button', { name: 'Say it now' }).waitFor()
    await asked.opened
    await write('In metres.', 'Enter')
    await page.getByRole('img', { name: 'not read yet' }).waitFor()
    await write('Now!', 'Alt+Enter')
    await page.getByRole('img', { name: 'read by ann' }).nth(1).waitFor()
    await page.getByText('after How long?,In metres.,Now!').waitFor()
    t.equal(model.requests.length, 2)
    held.open()
    t.same(complaints, [])
  },
)
