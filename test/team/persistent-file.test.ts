/** The state 'persistent' of teams without a log. Requirement P14, document 002, 2.4.1. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import t from 'tap'
import { createTeam, type OrchestratorContext } from '../../src/index.ts'

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

function folderOf(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'dramatis-state-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Runs `act` as the script of a team of its own, which is closed afterwards. */
async function session(persistentFile: string | undefined, act: (script: OrchestratorContext) => Promise<unknown>) {
  const team = createTeam({
    agents: [{ name: 'a' }],
    models: 'rehearsal',
    logger: silent,
    orchestration: { strategy: 'custom', run: async (script) => JSON.stringify((await act(script)) ?? null) },
    ...(persistentFile !== undefined && { persistentFile }),
  })
  const result = await team.execute('go')
  await team.close()
  if (!result.success) throw result.error
  return JSON.parse(result.finalOutput)
}

const add = (key: string) => (script: OrchestratorContext) =>
  script.shared('persistent').update<number>(key, (n = 0) => n + 1)
const get = (key: string) => (script: OrchestratorContext) => script.shared('persistent').get(key)

t.test('the state persistent outlives the session in the file that persistentFile names', async (t) => {
  const folder = folderOf(t)
  const file = join(folder, 'new', 'state.json')
  t.equal(await session(file, get('n')), null)
  for (const n of [1, 2, 3]) t.equal(await session(file, add('n')), n)
  t.equal(await session(file, get('n')), 3)
  t.same(JSON.parse(readFileSync(file, 'utf8')), { version: 1, values: { n: { version: 3, value: 3 } } })
  t.same(readdirSync(join(folder, 'new')), ['state.json'], 'nothing is left beside it')
  t.equal(await session(undefined, get('n')), null, 'without the option it ends with the team')
  const others = async (script: OrchestratorContext) => {
    await script.shared('team_shared').update('n', () => 9)
    return script.shared('persistent').get('n')
  }
  t.equal(await session(file, others), 3, 'other scopes are not in it')
  t.equal(Object.keys(JSON.parse(readFileSync(file, 'utf8')).values).length, 1)
})

t.test('updates at once all count, and so do those of another team with the same file', async (t) => {
  const file = join(folderOf(t), 'state.json')
  const many = (script: OrchestratorContext) => Promise.all(Array.from({ length: 20 }, () => add('n')(script)))
  await session(file, many)
  t.equal(await session(file, get('n')), 20)
  const between = async (script: OrchestratorContext) => {
    await add('n')(script)
    await session(file, add('n'))
    return add('n')(script)
  }
  t.equal(await session(file, between), 23)
})

t.test('no update is lost where two processes, and two teams of one, write at once', async (t) => {
  const file = join(folderOf(t), 'state.json')
  const program = fileURLToPath(new URL('../fixtures/team/counts-in-file.js', import.meta.url))
  const TIMES = 30
  const children = [1, 2].map(() =>
    spawn(process.execPath, [program, file, `${TIMES}`], { stdio: ['pipe', 'pipe', 'inherit'] }),
  )
  await Promise.all(children.map(({ stdout }) => once(stdout, 'data')))
  const ends = children.map((child) => once(child, 'exit'))
  for (const { stdin } of children) stdin.end()
  const many = async (script: OrchestratorContext) => {
    for (let n = 0; n < TIMES; n++) await add('n')(script)
  }
  await Promise.all([session(file, many), session(file, many)])
  t.same(await Promise.all(ends), [
    [0, null],
    [0, null],
  ])
  t.equal(await session(file, get('n')), 4 * TIMES)
})

t.test('a file that cannot be read or written is named, and stays as it is', async (t) => {
  const folder = folderOf(t)
  const file = join(folder, 'state.json')
  const refused = { code: 'CONFIGURATION', message: /persistentFile: .*state\.json cannot be read/ }
  for (const text of ['', '{', '[]', '{"version":2,"values":{}}', '{"version":1,"values":{"k":{"value":1}}}']) {
    writeFileSync(file, text)
    await t.rejects(session(file, add('k')), refused, text)
    t.equal(readFileSync(file, 'utf8'), text)
  }
  const unwritable = join(file, 'below', 'state.json') // a file is no folder
  await t.rejects(session(unwritable, add('k')), { code: 'CONFIGURATION', message: /state\.json cannot be/ })
})

t.test('persistentFile beside stateManagement is refused, and so is what is no path', (t) => {
  const make = (options: object) => () =>
    createTeam({ agents: [{ name: 'a' }], models: 'rehearsal', orchestration: { strategy: 'sequential' }, ...options })
  const both = { persistentFile: 'state.json', stateManagement: { path: join(folderOf(t), 'log') } }
  for (const options of [both, { persistentFile: '' }, { persistentFile: 7 }])
    t.throws(make(options), { code: 'CONFIGURATION', details: { path: 'persistentFile' } })
  t.end()
})
