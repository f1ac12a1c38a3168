/** `dramatis serve` as its user has it: a process, its port, its signals. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import t from 'tap'
import { main } from '../../../src/service/commands/program.ts'
import { fakeSurroundings } from '../fake-team.ts'

const cli = fileURLToPath(new URL('../../../src/service/cli.js', import.meta.url))
const compiled = (name: string) => fileURLToPath(new URL(`../../fixtures/cli/${name}.js`, import.meta.url))
const TOKEN = 'a token of more than sixteen characters'.replaceAll(' ', '-')

t.test('SIGTERM under load: every accepted task is answered, and the exit code is 0', async (t) => {
  const { url, child, stderr } = await serving(t, ['desk=patient-team'])
  const answers = Array.from({ length: 50 }, () => post(url, '1500'))
  await until(async () => (await tasks(url)).filter(({ status }) => status !== 'queued').length === 50)
  child.kill('SIGTERM')
  await until(() => stderr().includes('Closing'))
  t.equal((await post(url, '1')).status, 503)
  t.equal((await fetch(`${url}/api/tasks`)).headers.get('connection'), 'close')
  const statuses = await Promise.all(answers.map(async (answer) => (await answer).status))
  t.same(new Set(statuses), new Set([200]))
  const [code] = await once(child, 'exit')
  t.equal(code, 0, stderr())
  t.match(stderr(), /approveOwn is on: without a token this is one person's own machine/)
})

t.test('what is open after the time for it is ended, and answered too', async (t) => {
  const { url, child } = await serving(t, ['desk=patient-team', '--drain', '0'])
  const open = post(url, '60000')
  await until(async () => (await tasks(url, 'running')).length === 1)
  child.kill('SIGINT')
  const answer = await open
  t.match(await answer.json(), { task: { status: 'aborted' } })
  t.equal((await once(child, 'exit'))[0], 0)
})

t.test('a second signal leaves at once', async (t) => {
  const { url, child, stderr } = await serving(t, ['desk=patient-team'])
  const open = post(url, '60000').catch(() => 'cut')
  await until(async () => (await tasks(url, 'running')).length === 1)
  child.kill('SIGTERM')
  await until(() => stderr().includes('Closing'))
  child.kill('SIGTERM')
  t.equal((await once(child, 'exit'))[0], 143)
  t.equal(await open, 'cut')
})

t.test('with --token-env each request needs the token; several teams have names', async (t) => {
  const args = ['one=patient-team', 'two=patient-team', '--token-env', 'SERVE_TOKEN']
  const { url, stderr } = await serving(t, args, { SERVE_TOKEN: TOKEN })
  await until(() => /approveOwn is off; --approve-own turns it on/.test(stderr()))
  const unknown = await fetch(`${url}/api/tasks`)
  t.equal(unknown.status, 401)
  t.equal(unknown.headers.get('keep-alive'), 'timeout=75', 'longer than proxies keep idle connections')
  const asked = (token: string) => fetch(`${url}/api/tasks?team=two`, { headers: { authorization: `Bearer ${token}` } })
  t.equal((await asked(`${TOKEN}x`)).status, 401)
  t.equal((await asked(TOKEN)).status, 200)
})

t.test('what cannot be served is said at once, with exit code 2', async (t) => {
  const refused = async (args: string[], message: RegExp) => {
    const { surroundings, stderr } = fakeSurroundings()
    t.equal(await main(['serve', ...args], surroundings), 2)
    t.match(stderr(), message)
  }
  Object.assign(process.env, { SERVE_SHORT: 'secret', SERVE_OK: TOKEN })
  const team = compiled('patient-team')
  await refused([team, '--host', '0.0.0.0'], /without a token everybody who reaches that address/)
  await refused([team, '--token-env', 'SERVE_NONE'], /--token-env SERVE_NONE: there is no such environment variable/)
  await refused([team, '--token-env', 'SERVE_SHORT'], /at least 16 characters/)
  await refused([team, team], /Two teams would have the name "patient-team"/)
  await refused([team, '--price', 'none.json'], /--price none.json: it cannot be read/)
  await refused([team, '--port', '99999'], /a port, from 0 to 65535/)
  await refused([team, '--port', '1', '--host', '203.0.113.1', '--token-env', 'SERVE_OK'], /cannot be had/)
  const other = createServer().listen(0, '127.0.0.1')
  t.teardown(() => other.close())
  await once(other, 'listening')
  const { port } = other.address() as AddressInfo
  await refused([team, '--port', String(port)], /cannot be had: another process listens there \(EADDRINUSE\)\. Give/)
})

interface Serving {
  url: string
  child: ChildProcess
  stderr: () => string
}

async function serving(t: Test, args: string[], env: NodeJS.ProcessEnv = {}): Promise<Serving> {
  const named = args.map((arg) => arg.replace(/=([\w-]+)$/, (_, name: string) => `=${compiled(name)}`))
  const child = spawn(process.execPath, [cli, 'serve', ...named, '--port', '0'], {
    env: { ...process.env, DEBUG: '', ...env },
    stdio: ['ignore', 'inherit', 'pipe'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  let text = ''
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  const url = () => /^dramatis serves .* at (\S+)$/m.exec(text)?.[1]
  await until(() => url() !== undefined || child.exitCode !== null)
  return { url: url() ?? text, child, stderr: () => text }
}

const post = (url: string, query: string) => {
  const headers = { 'content-type': 'application/json' }
  return fetch(`${url}/api/tasks`, { method: 'POST', headers, body: JSON.stringify({ query }) })
}

async function tasks(url: string, status?: string): Promise<{ status: string }[]> {
  const asked = `${url}/api/tasks?limit=100${status === undefined ? '' : `&status=${status}`}`
  return ((await (await fetch(asked)).json()) as { tasks: { status: string }[] }).tasks
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await setTimeout(20)
}
