/**
 * A log of each format that there was is checked in, with runs that had ended, one that waited for a person and one that
 * had not begun: a later version goes on with it. A new format gets a file of its own beside the old ones:
 *
 *   WRITE_LOG=format-2-runs node dist/test/durability/old-logs.test.js
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync, gzipSync } from 'node:zlib'
import type { Test } from 'tap'
import t from 'tap'
import * as z from 'zod'
import { createTeam, defineTool, type MultiAgentPatternOptions, type Run } from '../../src/index.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { folderOf, segmentsOf } from './log-folders.ts'

const LOGS = fileURLToPath(new URL('../../../test/fixtures/durability', import.meta.url))
const module = new URL('../fixtures/durability/old-log-agent.js', import.meta.url)

async function teamOn(t: Test, path: string) {
  const server = await modelServer(t)
  server.always(({ prompt }) => `You said ${prompt}`)
  let weighed = 0
  const weigh = defineTool({
    name: 'weigh',
    description: 'Weighs a thing.',
    input: z.object({ what: z.string() }),
    run: ({ what }) => {
      weighed += 1
      return what.length
    },
  })
  const options: MultiAgentPatternOptions = {
    agents: ['ann', 'bob', 'cid', 'dot'].map((name) => ({ name, module })),
    tools: [weigh],
    syncPoints: [{ name: 'noon', requiredAgents: ['ann', 'bob'], timeoutMs: 60_000 }],
    models: { default: { model: 'gpt-4o', baseURL: server.baseURL, apiKey: 'none' } },
    logger: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
    maxConcurrentRuns: 2,
    stateManagement: { path },
    orchestration: {
      strategy: 'custom',
      name: 'an old day',
      async run(script, query) {
        const ask = async (to: string, content: string) => (await script.request(to, content)).content
        if (query === 'fail') return ask('cid', 'fail it')
        if (query === 'short') return ask('cid', 'step short')
        if (query === 'talk') return ask('dot', 'talk much') // since format 2: prompts that differ from those before
        const said = [await ask('ann', 'step one'), await ask('bob', 'publish page'), await ask('ann', 'pass on')]
        said.push(await ask('cid', 'give it'), await ask('cid', 'count up'), await ask('cid', 'model hello'))
        said.push(await ask('cid', 'tool box'), ...(await Promise.all([ask('ann', 'meet x'), ask('bob', 'meet x')])))
        await script.send('bob', 'note')
        said.push(await ask('cid', 'ask really'), await ask('ann', 'publish page'), await ask('cid', 'count up'))
        return [...said, await ask('bob', 'heard')].join(' | ')
      },
    },
  }
  const team = createTeam(options)
  t.teardown(() => team.close())
  return { team, server, weighed: () => weighed }
}

const END =
  'one was done | version 1 | passed was done | given was done | 1 | You said hello | 3 | ann+bob | ann+bob | yes | version 2 | 2 | publish page,step passed,step given,meet x,note'

async function questionOf(run: Run<unknown>): Promise<string> {
  for await (const event of run.events()) if (event.type === 'question') return event.questionId
  throw new Error('no question came')
}

async function write(t: Test, name: string): Promise<void> {
  const path = join(folderOf(t), 'log')
  const { team } = await teamOn(t, path)
  await team.execute('short', { runId: 'ended' })
  await team.execute('fail', { runId: 'failed' })
  await questionOf(team.launch('talk', { runId: 'talks' }))
  const run = team.launch('whole', { runId: 'open' })
  team.launch('short', { runId: 'waiting', metadata: { ticket: '7' } })
  await questionOf(run)
  await team.flush()
  await team.close()
  const files = segmentsOf(path).map((segment) => [segment, readFileSync(join(path, segment)).toString('base64')])
  const text = gzipSync(JSON.stringify(files)).toString('base64')
  writeFileSync(join(LOGS, `${name}.base64`), `${text.replace(/.{1,120}/g, '$&\n')}`)
}

function unpack(t: Test, name: string): string {
  const path = join(folderOf(t), 'log')
  mkdirSync(path)
  const text = gunzipSync(Buffer.from(readFileSync(join(LOGS, name), 'utf8'), 'base64')).toString()
  const files: [name: string, content: string][] = JSON.parse(text)
  for (const [segment, content] of files) writeFileSync(join(path, segment), Buffer.from(content, 'base64'))
  return path
}

const { WRITE_LOG } = process.env
if (WRITE_LOG) await write(t, WRITE_LOG)

for (const name of readdirSync(LOGS).filter((name) => /^format-\d+-runs\.base64$/.test(name)))
  t.test(`the runs of ${name} go on in this version`, async (t) => {
    const { team, server, weighed } = await teamOn(t, unpack(t, name))
    await team.start()
    t.match(await team.getRun('ended')!.result, { success: true, finalOutput: 'short was done' })
    t.match(await team.getRun('failed')!.result, { success: false, error: { code: 'AGENT_FAILED' } })
    const talks = team.getRun('talks')
    if (talks) {
      await talks.answer(await questionOf(talks), 'yes')
      t.match(await talks.result, { success: true, finalOutput: /^yes: \d+$/ })
      t.equal(server.calls.length, 1, 'what it was told before is not asked for again')
      t.equal(server.calls[0]!.body.messages.length, 7)
      server.forget()
    }
    const run = team.getRun('open')!
    const [question] = team.questions()
    t.match(question, { runId: 'open', agent: 'cid', text: 'really?', choices: ['yes', 'no'] })
    t.equal((await team.getBlackboard('open')!.getHistory('page')).length, 1)
    await run.answer(question!.questionId, 'yes')
    const { finalOutput, error } = await run.result
    t.equal(finalOutput, END, error?.message ?? 'it ends as it would have')
    t.match(await team.getRun('waiting')!.result, { success: true, finalOutput: 'short was done' })
    t.same([server.calls.length, weighed()], [0, 0], 'nothing is done again')
  })
