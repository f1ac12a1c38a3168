/** `dramatis serve --cluster` and `dramatis cluster`, as their users have them: processes, their ports, their signals. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { main } from '../../src/service/commands/program.ts'
import { fakeSurroundings } from '../service/fake-team.ts'
import { type Engine, engines } from './engines.ts'

const cli = fileURLToPath(new URL('../../src/service/cli.js', import.meta.url))
const team = fileURLToPath(new URL('../fixtures/cli/patient-team.js', import.meta.url))
const SECRET = 'a secret of thirty-two characters'

t.test('what cannot be served by several processes is said at once', async (t) => {
  const refused = async (args: string[], message: RegExp, code = 2) => {
    const { surroundings, stderr } = fakeSurroundings()
    t.equal(await main(['serve', ...args, '--cluster', 'postgres://127.0.0.1:1/none'], surroundings), code)
    t.match(stderr(), message)
  }
  Object.assign(process.env, { SERVE_SECRET: SECRET, SERVE_SHORT: 'secret', SERVE_TOKEN: SECRET.replaceAll(' ', '-') })
  await refused([team, '--cluster-secret-env', 'SERVE_SHORT'], /cluster.secretEnv: got a secret of 6 characters/)
  await refused([team, '--cluster-secret-env', 'SERVE_NONE'], /SERVE_NONE that is not set/)
  await refused([team, '--cluster-address', 'http://10.0.0.5:4747'], /--cluster-secret-env/)
  await refused([team, '--host', '0.0.0.0', '--token-env', 'SERVE_TOKEN'], /say with --cluster-address/)
  const everywhere = ['--host', '0.0.0.0', '--token-env', 'SERVE_TOKEN', '--cluster-address', 'http://127.0.0.1:4747']
  await refused([team, ...everywhere], /--host 0\.0\.0\.0: name with --cluster-secret-env/)
  await refused([team, `other=${team}`, '--cluster-name', 'desk'], /several teams cannot have one name/)
  await refused([team, '--port', '0', '--cluster-secret-env', 'SERVE_SECRET'], /cannot be reached/, 1)
  const { surroundings, stderr } = fakeSurroundings()
  await refused([team, '--cluster-env', 'SERVE_SECRET'], /--cluster and --cluster-env: give one of the two/)
  t.equal(await main(['serve', team, '--cluster-env', 'SERVE_NONE'], surroundings), 2)
  t.match(stderr(), /--cluster-env SERVE_NONE: there is no such environment variable/)
  t.equal(await main(['chat', 'postgres://ann:secret@127.0.0.1:1/none'], surroundings), 2)
  t.match(stderr(), /URL of the engine of a cluster. Talk with one of its processes/)
  t.notMatch(stderr(), /ann:secret/)
  t.equal(await main(['runs', '--log', 'postgres://ann:secret@127.0.0.1:1/none'], surroundings), 1)
  t.match(stderr(), /postgres:\/\/127.0.0.1:1\/none, cannot be reached/)
  t.notMatch(stderr(), /ann:secret/)
  t.equal(await main(['cluster', 'status'], surroundings), 2)
  t.match(stderr(), /--cluster-env: name an environment variable/)
  t.equal(await main(['serve', team, '--cluster-shards', '4'], surroundings), 2)
  t.match(stderr(), /--cluster-shards without --cluster-env/)
})

for (const engine of engines)
  t.test(`several processes serve a team on ${engine.name}`, { skip: engine.skip }, (t) => isServed(t, engine))

async function isServed(t: Test, engine: Engine): Promise<void> {
  const { urls, remove } = await engine.start('desk', 1)
  t.teardown(remove)
  const at = ['--cluster-env', 'CLUSTER_DATABASE']
  Object.assign(process.env, { CLUSTER_DATABASE: urls[0]! })
  const secret = ['--cluster-secret-env', 'CLUSTER_SECRET']
  const serving = (port = 0) => serve(t, ['serve', `desk=${team}`, '--port', String(port), ...at, ...secret])
  const cluster = async (...args: string[]) => clusterNamed('desk', ...args)
  const clusterNamed = async (name: string, ...args: string[]) => {
    const { surroundings, stdout, stderr } = fakeSurroundings()
    const code = await main(['cluster', ...args, ...at, '--cluster-name', name], surroundings)
    return { code, said: `${stdout()}${stderr()}` }
  }
  t.match(await cluster('status'), { code: 2, said: /knows no cluster "desk". There are: none\./ })
  const members = await Promise.all([serving(), serving()])
  while (!/\b8\n.*\b8\n16 shards, 0 without/.test((await cluster('status')).said));
  for (const command of ['status', 'shards'])
    t.match(await clusterNamed('dsk', command), { code: 2, said: /knows no cluster "dsk". There are: desk\./ })
  t.equal((await cluster('shards')).said.match(/^\d+ +[\da-f-]{36} +0 /gm)?.length, 16)
  for (const { url } of members) {
    const answers = await Promise.all(Array.from({ length: 8 }, () => post(url)))
    t.same(new Set(answers.map(({ answer }) => answer)), new Set(['after 1 ms']))
    t.equal((await tasks(url)) % 8, 0)
    t.match(
      await (await fetch(`${url}/metrics`)).text(),
      /dramatis_cluster_shards\{team="desk",node="[\da-f-]{36}"\} 8/,
    )
    t.match(await (await fetch(`${url}/readyz`)).json(), { status: 'ok' })
  }
  const listed = JSON.parse((await cluster('status', '--json')).said)
  t.match(await cluster('drain', 'none'), { code: 2, said: /0 processes of the cluster have an id that begins so/ })
  t.match(await cluster('drain', listed[0].id), { code: 2, said: /not signed by a process of this cluster/ })
  Object.assign(process.env, { CLUSTER_SECRET: SECRET })
  t.match(await cluster('drain', listed[0].id, ...secret), { code: 0, said: /gives its shards over, and ends/ })
  const ended = members.find(({ child }) => child.pid === listed[0].pid)!
  if (ended.child.exitCode === null) await once(ended.child, 'exit')
  t.equal(ended.child.exitCode, 0, ended.stderr())
  while (!/\b16\n16 shards, 0 without/.test((await cluster('status')).said));
  const left = members.find((each) => each !== ended)!
  t.equal((await post(left.url)).answer, 'after 1 ms')
  t.equal(await tasks(left.url), 17)
  const read = async (command: string, ...args: string[]) => {
    const { surroundings, stdout, stderr } = fakeSurroundings()
    const code = await main([command, ...args, '--log', urls[0]!], surroundings)
    return { code, said: stdout(), why: stderr() }
  }
  const all = JSON.parse((await read('runs', '--json')).said) as { id: string; status: string; startedAt: number }[]
  t.same(new Set(all.map(({ status }) => status)), new Set(['finished']))
  t.equal(all.length, 17)
  t.same(
    all,
    [...all].sort((one, other) => one.startedAt - other.startedAt),
  )
  for (const { id } of [all[0]!, all[16]!]) {
    t.match(await read('trace', id), { code: 0, said: /sequenceDiagram/ })
    t.match(await read('replay', id, '--at', 'end'), { code: 0, said: /mailboxes: none/ })
  }
  t.match(await read('replay', 'none'), { code: 2, why: /The log in cluster "desk" has no run "none"/ })
  t.match(await read('rehearse', team, '--from', 'all'), { code: 0, said: /17/ })
  t.match(await read('runs', '--cluster-name', 'dsk'), { code: 2, why: /no cluster "dsk". There are: desk\./ })
  t.match(await read('questions'), { code: 0, why: /No question is open/ })
  t.match(await read('answer', 'one', 'yes'), { code: 2, why: /--log: a URL, where only a folder can be taken/ })
  for (const { stderr } of members) t.notMatch(stderr(), SECRET)
  left.child.kill('SIGTERM')
  t.equal((await once(left.child, 'exit'))[0], 0)
}

async function post(url: string) {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${url}/api/tasks`, { method: 'POST', headers, body: JSON.stringify({ query: '1' }) })
  return (await response.json()) as { answer: string }
}

/** Returns how many tasks there are, once all shards are told of: one that is claimed has its log still to be read. */
async function tasks(url: string): Promise<number> {
  for (;;) {
    const response = await fetch(`${url}/api/tasks?limit=1000`)
    const listed = (await response.json()) as { tasks: unknown[]; missing?: number[] }
    if (!listed.missing) return listed.tasks.length
  }
}

async function serve(t: Test, args: string[]): Promise<{ url: string; child: ChildProcess; stderr(): string }> {
  const child = spawn(process.execPath, [cli, ...args], { env: { ...process.env, CLUSTER_SECRET: SECRET } })
  t.teardown(() => child.kill('SIGKILL'))
  let text = ''
  child.stderr.on('data', (bytes) => {
    text += String(bytes)
  })
  for (;;) {
    const url = / at (http:\S+)\n/.exec(text)?.[1]
    if (url) return { url, child, stderr: () => text }
    if (child.exitCode !== null) throw new Error(text)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
