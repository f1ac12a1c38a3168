/** Steps that reach outside: done once, recorded, and answered from the recording ever after. */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import type { MultiAgentPatternOptions } from '../../../src/index.ts'
import { Reach } from '../../../src/runtime/testing/reach.ts'
import { SteppedClock } from '../../../src/runtime/testing/virtual-clock.ts'
import { rehearse } from '../../../src/testing.ts'
import { never } from '../../kit/team.ts'

const module = new URL('../../fixtures/rehearsal/steps.js', import.meta.url)
const options: MultiAgentPatternOptions = {
  agents: [{ name: 'steps', module }],
  orchestration: { strategy: 'sequential' },
}

/** A file to read, and where to record. */
function files(t: Test) {
  const folder = t.testdir({ word: 'one' })
  return { word: join(folder, 'word'), record: join(folder, 'record.json') }
}

/** What came of three runs. */
async function answers(query: string, record?: string): Promise<string[]> {
  const seen: string[] = []
  await rehearse(options, {
    query,
    seeds: 3,
    ...(record !== undefined && { record }),
    check: (outcome) => void seen.push(outcome.ok ? outcome.message.content : outcome.error.message),
  })
  return seen
}

const three = (answer: string) => [answer, answer, answer]
const keysOf = (record: string) => Object.keys(JSON.parse(readFileSync(record, 'utf8')))

t.test('each step is recorded by its agent, its name, its place in the turn, and the message', async (t) => {
  const { word, record } = files(t)
  t.same(await answers(`twice ${word}`, record), three('one one 0'), 'it took no time of the run')
  const key = (nth: number) => `step ${JSON.stringify(['steps', 'read', nth, `twice ${word}`, null])}`
  t.same(keysOf(record), [key(1), key(2)])
  rmSync(word)
  t.same(await answers(`twice ${word}`, record), three('one one 0'))
  writeFileSync(word, 'two')
  t.same(await answers(`twice ${word} `, record), three('two two 0'), 'of another message')
  t.equal(keysOf(record).length, 4)
})

t.test('what a step came to may be nothing', async (t) => {
  const { word, record } = files(t)
  t.same(await answers(`nothing ${word}`, record), three('undefined'))
  rmSync(word)
  t.same(await answers(`nothing ${word}`, record), three('undefined'))
})

t.test('time stands still for a connection, with all that goes on in it', async (t) => {
  const { record } = files(t)
  const server = createServer((_request, response) => void setTimeout(() => response.end('a page'), 20))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const query = `page http://127.0.0.1:${port}/`
  t.same(await answers(query, record), three('a page'))
  await new Promise((resolve) => server.close(resolve))
  t.same(await answers(query, record), three('a page'))
})

t.test('a step that fails is not recorded, and one that does not reach outside is none of it', async (t) => {
  const { word, record } = files(t)
  rmSync(word)
  for (const answer of await answers(`twice ${word}`, record)) t.match(answer, /ENOENT/)
  t.same(await answers('pure', record), three('1000'))
  t.notOk(existsSync(record))
  writeFileSync(word, 'one')
  t.same(await answers(`twice ${word}`, record), three('one one 0'))
})

t.test('without a recording, outside of a step and after it, real input is refused', async (t) => {
  const { word, record } = files(t)
  for (const answer of await answers(`twice ${word}`))
    t.match(answer, /agent "steps": node:fs\/promises\.readFile is real input.*context\.step.*--record <file>/)
  for (const way of ['outside', 'later'])
    t.match((await answers(`${way} ${word}`, record))[0], /"steps": node:fs\.readFileSync is real/, way)
})

t.test('a step that waits for virtual time, which waits for it, ends with an error', async (t) => {
  const reach = new Reach(new SteppedClock(1, 0), 'read and ask', 5)
  const asks = () => {
    t.ok(reach.begin())
    return never
  }
  const message = /^Step "read and ask" did not end within 5 ms .* ask other agents, and sleep, outside of the step/
  await t.rejects(reach.run(asks), { code: 'AGENT_FAILED', message })
  reach.end()
  t.notOk(reach.begin(), 'it is over')
})
