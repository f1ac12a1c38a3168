/** The keys of a team do not get into its log: not by its options, nor by what a provider says of them. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { formsOf } from '../../src/runtime/logging/secret-forms.ts'
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
  const files = readdirSync(path, { recursive: true }).map((name) => join(path, String(name)))
  t.ok(files.length > 1)
  for (const file of files) {
    t.equal(statSync(file).mode & 0o077, 0, 'nobody else may read it')
    const bytes = readFileSync(file)
    for (const [source, key] of Object.entries(KEYS))
      for (const form of formsOf(key)) t.notOk(bytes.includes(form), `the key of the ${source} is not in ${file}`)
  }
})
