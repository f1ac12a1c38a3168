/** The keys of a team do not get into its log: not by its options, nor by what a provider says of them. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { z } from 'zod'
import { createTeam, defineTool } from '../../src/index.ts'
import { formsOf } from '../../src/runtime/logging/redactor.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { deskOf } from './desk-team.ts'
import { folderOf } from './log-folders.ts'

const KEYS = {
  option: 'kA9+option/of-a-model=31',
  header: 'kB8+header/of-a-model=42',
  env: 'kC7+variable/of-the-env=53',
}

t.test('no key of the options, the headers or the environment is in any file of a log', async (t) => {
  process.env.DESK_API_KEY = KEYS.env
  t.teardown(() => delete process.env.DESK_API_KEY)
  const path = join(folderOf(t), 'log')
  const server = await modelServer(t)
  const all = Object.values(KEYS).join(' and ')
  const failure = { error: { message: `Refused: ${all}`, type: 'invalid_request_error', param: null, code: null } }
  server.answer({ text: `Your keys are ${all}.` }, { status: 400, body: failure })
  const { option: apiKey, header } = KEYS
  const team = deskOf(
    t,
    path,
    async (desk) => {
      const said = (await desk.request('ann', 'think first')).content
      const failed = await desk.request('bob', 'think second').catch((error: Error) => error.message)
      return `${said} ${String(failed)}`
    },
    { models: { default: { model: 'gpt-4o', baseURL: server.baseURL, apiKey, headers: { 'x-api-key': header } } } },
  )
  const { finalOutput, error } = await team.execute('go', { runId: 'one' })
  t.match(finalOutput, /Your keys are .*redacted.*Refused/s, error?.message ?? 'both were said')
  t.equal(server.calls[0]!.headers['x-api-key'], header)
  await team.close()
  holdNone(
    t,
    path,
    Object.values(KEYS).flatMap((key) => [...formsOf(key)]),
  )
})

/** Checks that none of the texts is in a file of the log, and that nobody else may read one. */
function holdNone(t: Test, path: string, texts: readonly string[]): void {
  const files = readdirSync(path, { recursive: true }).map((name) => join(path, String(name)))
  t.ok(files.length > 1)
  for (const file of files) {
    t.equal(statSync(file).mode & 0o077, 0, 'nobody else may read it')
    const bytes = readFileSync(file)
    t.same(
      texts.filter((text) => bytes.includes(text)),
      [],
      file,
    )
  }
}

t.test('a key that an agent was granted is whole in its tools, and a name in all that leaves its thread', async (t) => {
  const key = 'kD6+"granted"\\of-an-agent=64'
  process.env.DESK_SEARCH_KEY = key
  t.teardown(() => delete process.env.DESK_SEARCH_KEY)
  const path = join(folderOf(t), 'log')
  const server = await modelServer(t)
  server.always(({ prompt }) => `You said ${prompt}`)
  const used: unknown[] = []
  const use = defineTool({
    name: 'use',
    description: 'Uses a key.',
    input: z.object({ with: z.array(z.string()) }),
    run(input, context) {
      used.push(input.with[0])
      context.progress(`used ${input.with[0]}`)
      return { echo: input.with }
    },
  })
  const printed: string[] = []
  const print = (fields: object, text: string) => void printed.push(`${text} ${JSON.stringify(fields)}`)
  const fixture = (name: string) => new URL(`../fixtures/durability/${name}.js`, import.meta.url)
  const team = createTeam({
    agents: [
      { name: 'desk', module: fixture('says-its-key'), env: ['DESK_SEARCH_KEY'] },
      { name: 'other', module: fixture('answers-agent') },
    ],
    tools: [use, { module: fixture('key-tool') }],
    models: { default: { model: 'gpt-4o', baseURL: server.baseURL, apiKey: 'no-secret' } },
    enableBlackboard: true,
    stateManagement: { path },
    orchestration: { strategy: 'sequential', agentOrder: ['desk'] },
    logger: { debug: print, info: print, warn: print, error: print },
  })
  t.teardown(() => team.close())
  const name = '[redacted:DESK_SEARCH_KEY]'
  const { data, error, ...result } = await team.execute('go')
  t.equal(error, null)
  const said = { used: [{ echo: [name] }, 'the key'], step: { key: name }, whole: false, [name]: [name] }
  t.same(result.agentOutputs.desk?.[0]?.structuredData, said)
  t.same(used, [key], 'the tool had the key itself')
  t.equal(server.calls.at(-1)?.prompt, `asked with ${name}`)
  const history = JSON.stringify(result.messageHistory)
  t.ok(history.includes(`sent ${name}`))
  const failed = [await team.execute('fail'), await team.execute('die')]
  t.match(failed[0]?.error?.message, `threw ${name}`)
  t.match(failed[1]?.error?.message, /died with \[redacted/)
  const trace = JSON.stringify([result.orchestrationTrace, failed.map((each) => [each.error, each.orchestrationTrace])])
  await team.close()
  for (const form of [key, JSON.stringify(key).slice(1, -1)])
    t.notOk([history, trace, server.calls.map(({ prompt }) => prompt), printed].join().includes(form))
  holdNone(t, path, [key, JSON.stringify(key).slice(1, -1)])
})
