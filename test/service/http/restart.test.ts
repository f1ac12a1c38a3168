/** What a caller has over HTTP survives a restart of the service, in a team with a durable log. */
import t from 'tap'
import { createTeam } from '../../../src/index.ts'
import { httpApi } from '../../../src/service/http/index.ts'
import { folderOf } from '../../durability/log-folders.ts'
import { callerOf, type Sent, send } from './stage.ts'

const module = new URL('../../fixtures/cli/patient-agent.js', import.meta.url)
const logger = { debug() {}, info() {}, warn() {}, error() {} }

t.test('ids of events, keys and owners of tasks are the same after a restart', async (t) => {
  const path = folderOf(t)
  const key = { 'idempotency-key': 'k' }
  const first = service(path)
  const begun = await first.ask('POST', '/api/tasks', { body: { query: '1' }, headers: key })
  t.equal(begun.status, 200)
  const at = `/api/tasks/${begun.body.id}`
  const ids = idsIn(await first.ask('GET', `${at}/events`))
  await first.close()

  const second = service(path)
  t.teardown(() => second.close())
  await second.team.start()
  const early = await second.ask('POST', '/api/tasks', { body: { query: '1', priority: 9 }, headers: key })
  t.equal(early.status, 422, 'a wrong body that comes first is refused, and spoils nothing')
  const again = await second.ask('POST', '/api/tasks', { body: { query: '1' }, headers: key })
  t.equal(again.body.id, begun.body.id)
  t.equal(again.headers.get('idempotency-replayed'), 'true')
  const other = await second.ask('POST', '/api/tasks', { body: { query: '2' }, headers: key })
  t.equal(other.status, 422, 'the log knows the query of the key')
  const another = { query: '1', metadata: { of: 'another' } }
  const differs = await second.ask('POST', '/api/tasks', { body: another, headers: key })
  t.match(differs, { status: 422, body: { detail: /this key was sent with another body/ } }, 'and all of its body')
  t.match((await second.ask('GET', at)).body, { status: 'finished', answer: 'after 1 ms', team: 'desk' })
  t.equal((await second.ask('GET', at, { caller: 'bob:run' })).status, 404)
  t.equal((await second.ask('GET', '/api/tasks')).body.tasks.length, 1)
  t.same((await second.ask('GET', '/api/tasks', { caller: 'bob:run' })).body.tasks, [])
  const goesOn = (id: string) => second.ask('GET', `${at}/events`, { headers: { 'last-event-id': id } })
  t.same(idsIn(await goesOn(ids[3]!)), ids.slice(4))
  t.equal((await goesOn(ids.at(-1)!)).status, 204)
})

function service(path: string) {
  const team = createTeam({
    agents: [{ name: 'patient', module }],
    orchestration: { strategy: 'sequential' },
    stateManagement: { path },
    logger,
  })
  const api = httpApi({ teams: { desk: team }, authorize: callerOf, logger })
  const ask = (method: string, at: string, options: Parameters<typeof send>[3] = {}): Promise<Sent> =>
    send(api, method, at, { caller: 'ann:run', ...options })
  return { team, ask, close: () => api.close({ teams: true }) }
}

const idsIn = ({ body }: Sent): string[] => [...body.matchAll(/^id: (.+)$/gm)].map(([, id]: string[]) => id!)
