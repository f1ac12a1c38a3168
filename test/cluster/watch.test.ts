/** The live view of a team over several processes: one digest of all shards, from any of them. */
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { PostgresServer, postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import type { Digest } from '../../src/index.ts'
import { DigestFold, missingWords, takeoverWords } from '../../src/service/digest/digest-fold.ts'
import { ClusterSource } from '../../src/service/terminal/cluster-source.ts'
import { remoteSource } from '../../src/service/terminal/source.ts'
import { showTop } from '../../src/service/terminal/top.ts'
import { inBrowser, open } from '../dashboard/browser.ts'
import { FakeTerminal } from '../terminal/fake-terminal.ts'
import { Haunted, haunting } from './haunted.ts'
import { idAt, type Served, served, sharedBy } from './served.ts'

const bin = postgresFolder()
const PROGRAM = fileURLToPath(new URL('./served-member.js', import.meta.url))
process.env.SECRET = 'a secret of thirty-two characters'

t.test('one live view of all processes', { skip: !bin && 'no PostgreSQL is installed here' }, async (t) => {
  const database = await PostgresServer.start(bin!)
  t.teardown(() => database.remove())
  const { url } = database

  await t.test('what happens in all shards counts once, whoever is asked', async (t) => {
    const [one, two] = await Promise.all([served(t, { url, name: 'seen' }), served(t, { url, name: 'seen' })])
    await sharedBy(one, two)
    const slow = (at: Served, name: string) => one.team.execute('slow', { runId: idAt(at, name) })
    await Promise.all([slow(one, 'before'), slow(two, 'before')])
    const views = [one, two].map((each) => watching(t, each))
    for (const { fold, until } of views) {
      await until(() => fold.lines > 0)
      t.same([turnsOf(fold, 'asker'), turnsOf(fold, 'helper')], [2, 24], 'the first line has what was before')
    }
    const asked = await Promise.all([one, two].map((each) => one.team.launch('order', { runId: idAt(each, 'asked') })))
    await Promise.all([slow(one, 'a'), slow(one, 'b'), slow(two, 'c')])
    for (const { fold, until, lines } of views) {
      await until(() => turnsOf(fold, 'asker') === 5 && fold.questions.size === 2)
      t.equal(turnsOf(fold, 'helper'), 60)
      t.same([...fold.questions.values()].map(({ runId }) => runId).sort(), asked.map(({ id }) => id).sort())
      await until(() => fold.agents.get('asker')?.inFlight === 2)
      const ended = [...fold.runs.values()].filter(({ endedAt }) => endedAt !== null)
      t.same(
        ended.map(({ messages, status }) => [messages, status]),
        Array.from({ length: 3 }, () => [ended[0]!.messages, 'finished']),
      )
      t.ok(ended[0]!.messages > 24)
      const of = fold.turns.columns.message
      const rows = Array.from({ length: fold.turns.length }, (_, row) => fold.rowOf(of.at(row)))
      t.equal(rows.filter((row) => row >= 0).length, rows.length, 'each turn has its message')
      t.equal(new Set(rows).size, rows.length)
      t.equal(missingWords(fold.processes), '')
      t.same(fold.processes.flatMap(({ shards }) => shards).sort(), [0, 1, 2, 3])
      t.equal(fold.gaps, 0)
      t.equal(lines.filter(({ snapshot }) => snapshot).length, 1)
    }
    await Promise.all(asked.map((run) => run.cancel()))
    for (const { fold, until } of views) await until(() => fold.questions.size === 0 && fold.deadLetters >= 0)
  })

  await t.test('a process that ends does not end the view of another', async (t) => {
    const [one, two] = await Promise.all([served(t, { url, name: 'moves' }), served(t, { url, name: 'moves' })])
    await sharedBy(one, two)
    const asked = await Promise.all([one, two].map((each) => one.team.launch('order', { runId: idAt(each, 'asked') })))
    const { fold, until } = watching(t, one)
    await until(() => fold.questions.size === 2 && fold.processes.length === 2)
    const ids = [one, two].map((each) => idAt(each, 'again'))
    await two.close()
    await until(() => fold.processes.length === 1 && missingWords(fold.processes) === '')
    await until(() => fold.questions.size === 2)
    const before = turnsOf(fold, 'helper')
    await Promise.all(ids.map((runId) => one.team.execute('slow', { runId })))
    const isTold = (id: string) => fold.runs.get(id)?.status === 'finished'
    await until(() => turnsOf(fold, 'helper') === before + 24 && ids.every(isTold))
    await Promise.all(asked.map((run) => run.cancel()))
  })

  await t.test('a process that is killed is named, until others have its shards', async (t) => {
    const one = await served(t, { url, name: 'killed' })
    const options = JSON.stringify({ url, name: 'killed' })
    const child = fork(PROGRAM, [options], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    t.teardown(() => child.kill('SIGKILL'))
    const { fold, lines, until } = watching(t, one)
    await until(() => fold.processes.length === 2 && fold.processes.every(({ shards }) => shards.length === 2))
    await until(() => missingWords(fold.processes) === '')
    const its = fold.processes.find(({ name }) => name.endsWith(`:${child.pid}`))!
    const [seen, before] = [lines.length, fold.takeovers.length]
    child.kill('SIGKILL')
    await until(() => fold.processes.length === 1 && missingWords(fold.processes) === '')
    const missing = lines.slice(seen).flatMap(({ processes = [] }) => processes.flatMap((each) => each.missing))
    t.same(new Set(missing), new Set(its.shards))
    const here = fold.processes[0]!.name
    const words = fold.takeovers
      .slice(0, fold.takeovers.length - before)
      .map(takeoverWords)
      .sort()
    t.same(
      words,
      its.shards.map((shard) => `shard ${shard} went from ${its.name} to ${here}`),
    )
    const runId = Array.from({ length: 100 }, (_, i) => `${i}`).find((id) => its.shards.includes(one.team.shardOf(id)))!
    await one.team.execute('slow', { runId })
    await until(() => fold.runs.get(runId)?.status === 'finished')
  })

  await t.test('the page lists the processes, and what one took of another', inBrowser, async (t) => {
    const one = await served(t, { url, name: 'page' }, { authorize: () => ({ id: 'ann', may: ['watch' as const] }) })
    const options = JSON.stringify({ url, name: 'page' })
    const child = fork(PROGRAM, [options], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    t.teardown(() => child.kill('SIGKILL'))
    const { page } = await open(t, `${one.server.url}/#/team`)
    const rows = page.getByRole('region', { name: 'Processes' }).getByRole('listitem')
    await rows
      .filter({ hasText: /:\d+ shards \d(-|, )\d/ })
      .nth(1)
      .waitFor()
    child.kill('SIGKILL')
    await rows.filter({ hasText: `${process.pid} shards 0-3` }).waitFor()
    await rows
      .filter({ hasText: new RegExp(`shard \\d went from \\S+:${child.pid} to \\S+:${process.pid}`) })
      .nth(1)
      .waitFor()
  })

  await t.test('what cannot be reached is named, on the screen too', async (t) => {
    let said: ((write: (text: string) => void) => void) | undefined
    const address = await haunting(t, (_request, response) => {
      if (said) said((text) => response.write(text))
      else response.writeHead(500).end()
    })
    const options = { authorize: () => ({ id: 'ann', may: ['run' as const, 'watch' as const] }) }
    const one = await served(t, { store: new Haunted(url, 'ghost', address), secretEnv: 'SECRET' }, options)
    while (one.team.held.size === 0) await new Promise((resolve) => setTimeout(resolve, 20))
    const { fold, until } = watching(t, one)
    await until(() => /shards? [\d, ]+ of elsewhere:1 \(it answers with 500\)/.test(missingWords(fold.processes)))
    const over = new AbortController()
    const terminal = new FakeTerminal({ columns: 160 })
    const source = remoteSource(one.server.url, undefined)
    const shown = showTop({ source, screen: terminal.screen, keys: terminal.keys, signal: over.signal })
    await terminal.shows(/2 processes/)
    await terminal.shows(/! not in view: shards? [\d, ]+ of elsewhere:1 \(it answers with 500\)/)
    over.abort()
    await shown
    await source.close()
    said = (write) => write('{"seq":0,"at":0,"n":0}\n')
    await until(() => missingWords(fold.processes).includes('earlier version'))
  })
})

t.test('a terminal watches a cluster by its engine', { skip: !bin && 'no PostgreSQL is installed here' }, async (t) => {
  const database = await PostgresServer.start(bin!)
  t.teardown(() => database.remove())
  const { url } = database
  await t.rejects(ClusterSource.open('postgres://127.0.0.1:1/none', undefined, undefined), {
    code: 'CLUSTER_UNREACHABLE',
  })
  await t.rejects(ClusterSource.open(url, undefined, undefined), { message: /say which cluster. There are: none/ })
  const open = async (t: Test) => {
    const source = await ClusterSource.open(url, undefined, undefined)
    const over = new AbortController()
    const terminal = new FakeTerminal({ columns: 160 })
    const shown = showTop({ source, screen: terminal.screen, keys: terminal.keys, signal: over.signal })
    t.teardown(async () => {
      over.abort()
      await shown
      await source.close()
    })
    return { terminal, source }
  }

  await t.test('whichever process is there shows what the agents do', async (t) => {
    const options = { authorize: () => ({ id: 'ann', may: ['run' as const, 'watch' as const, 'operate' as const] }) }
    const [one, two] = await Promise.all([
      served(t, { url, name: 'top' }, options),
      served(t, { url, name: 'top' }, options),
    ])
    await sharedBy(one, two)
    const asked = await one.team.launch('order', { runId: idAt(two, 'asked') })
    const { terminal, source } = await open(t)
    await terminal.shows(/2 processes {2}1 run .*1 question/)
    await terminal.shows(/p processes {2}q quit/)
    await t.rejects(ClusterSource.open(url, 'tip', undefined), { message: /no cluster "tip". There are: top/ })
    terminal.press('p')
    for (const { team } of [one, two])
      await terminal.shows(new RegExp(`:${process.pid} +${team.id.slice(0, 8)} +- +[01] +\\d`))
    const [reached, left] = source.cluster().members[0]!.id === one.team.id ? [one, two] : [two, one]
    await reached.close() // the one that tells
    await terminal.shows(/shard \d went from \S+:\d+ to \S+:\d+ \(taken \d+ times\)/)
    terminal.press('p')
    await terminal.shows(/1 process {2}1 run .*1 question/)
    await (await left.team.getRun(asked.id))!.cancel()
    await terminal.shows(/1 process {2}0 runs/)
    await left.close()
    await terminal.shows(/! not in view: shards 0, 1, 2, 3 \(no process has them\)/)
    terminal.press('p')
    await terminal.shows(/nobody +0 +0-3/)
  })
})

const turnsOf = (fold: DigestFold, agent: string): number => fold.agents.get(agent)?.turns ?? 0

/** Watches all that a process sees of the team. */
function watching(t: Test, { fetch }: Pick<Served, 'fetch'>) {
  const fold = new DigestFold()
  const lines: Digest[] = []
  const over = new AbortController()
  t.teardown(() => over.abort())
  const headers = { accept: 'application/x-ndjson' }
  let isOver = false
  const read = async () => {
    const { body } = await fetch('GET', '/api/watch', { headers, signal: over.signal })
    let rest = ''
    for await (const text of body!.pipeThrough(new TextDecoderStream())) {
      const parts = `${rest}${text}`.split('\n')
      rest = parts.pop()!
      for (const part of parts) {
        if (part === '') continue
        const line = JSON.parse(part) as Digest
        lines.push(line)
        fold.read(line)
      }
    }
    isOver = true
  }
  read().catch(() => {})
  const until = async (isSo: () => boolean) => {
    while (!isSo()) {
      if (isOver) throw new Error('the stream has ended')
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  return { fold, lines, until }
}
