/** Push notifications of A2A: URLs are told how their tasks stand, also after crashes, and nobody else is. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { compactLog } from '../../../src/runtime/durability/log-tools.ts'
import { FileStore } from '../../../src/runtime/store/file-store.ts'
import { httpApi } from '../../../src/service/api/index.ts'
import { Dice } from '../../dice.ts'
import { howMany } from '../../how-many.ts'
import { silent } from '../../kit/team.ts'
import { opening, served } from '../chat/desk.ts'
import { ServedShop } from '../chat/served-shop.ts'
import { callerOf } from '../http/stage.ts'
import { answerOf, rpc, type Sent, sendTo, stateOf, textMessage } from './client.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of all shapes
type Any = any

/** A program that is told of tasks, and answers as it is said: with 200 behind that. */
async function receiver(t: Test, answers: (number | 'hang up')[] = []) {
  const got: { headers: Any; path: string; task: Any }[] = []
  const tries: string[] = []
  const server = createServer(async (request, response) => {
    const body = (await request.toArray()).join('')
    const status = answers.shift() ?? 200
    tries.push(request.url!)
    if (status === 'hang up') return request.socket.destroy()
    if (status === 200) got.push({ headers: request.headers, path: request.url!, ...JSON.parse(body) })
    response.writeHead(status, { location: '/elsewhere' }).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const states = () => got.map(({ task }) => stateOf(task))
  const until = async (isSo: (states: string[]) => boolean) => {
    while (!isSo(states())) await nextTurn()
  }
  return { got, tries, origin, until, states }
}

/** The same methods by their paths. */
async function byPath(url: string, method: string, { taskId, id, ...body }: Any, given = {}): Promise<Sent> {
  const [verb, path] = (
    {
      SendMessage: ['POST', '/message:send'],
      CreateTaskPushNotificationConfig: ['POST', `/tasks/${taskId}/pushNotificationConfigs`],
      ListTaskPushNotificationConfigs: ['GET', `/tasks/${taskId}/pushNotificationConfigs`],
      GetTaskPushNotificationConfig: ['GET', `/tasks/${taskId}/pushNotificationConfigs/${id}`],
      DeleteTaskPushNotificationConfig: ['DELETE', `/tasks/${taskId}/pushNotificationConfigs/${id}`],
    } as Record<string, [string, string]>
  )[method]!
  const whole = method.startsWith('Create') && id ? { ...body, id } : body
  const { status, data, ids } = await sendTo(url, path, verb === 'POST' ? whole : undefined, { ...given, method: verb })
  const error = data.find((each) => each.error)?.error
  return { status, ids, rpcIds: [], results: error ? [] : data, error }
}

for (const [binding, send] of Object.entries({ 'JSON-RPC': rpc, paths: byPath })) {
  t.test(`${binding}: a URL is told what its task asks, and its end, with what it knows it by`, async (t) => {
    const { got, origin, until, states } = await receiver(t)
    const { url } = await served(t, { a2a: { push: [origin] } })
    const taskPushNotificationConfig = {
      url: `${origin}/hook?a=1`,
      token: 'opaque',
      authentication: { scheme: 'Bearer', credentials: 'sesame' },
    }
    const begun = await send(url, 'SendMessage', {
      ...textMessage('use buy lamp'),
      configuration: { returnImmediately: true, taskPushNotificationConfig },
    })
    const { id: taskId } = begun.results[0].task
    await until((seen) => seen.includes('INPUT_REQUIRED'))
    const asked = got.at(-1)!
    t.match(asked.headers, {
      'content-type': 'application/a2a+json',
      authorization: 'Bearer sesame',
      'x-a2a-notification-token': 'opaque',
    })
    t.match([asked.path, asked.task.id], ['/hook?a=1', taskId])
    const { questionId, digest } = asked.task.status.message.metadata
    const listed = (await send(url, 'ListTaskPushNotificationConfigs', { taskId })).results[0].configs
    t.match(listed, [{ taskId, url: taskPushNotificationConfig.url, authentication: { scheme: 'Bearer' } }])
    t.notMatch(JSON.stringify(listed), 'sesame')
    const data = { questionId, digest, approved: true }
    await send(url, 'SendMessage', textMessage('', { taskId, parts: [{ data }] }))
    await until((seen) => seen.includes('COMPLETED'))
    t.equal(answerOf(got.at(-1)!.task), 'result: {"done":"lamp"}')
    t.same(
      states().filter((state) => state !== 'SUBMITTED' && state !== 'WORKING'),
      ['INPUT_REQUIRED', 'COMPLETED'],
    )
    t.same(
      states().filter((state, at) => state === states()[at - 1]),
      [],
      'each once, where nothing fails',
    )
    while ((await send(url, 'ListTaskPushNotificationConfigs', { taskId })).results[0].configs.length > 0)
      await nextTurn()
  })

  t.test(`${binding}: configs are made, read, replaced and deleted by the task's caller alone`, async (t) => {
    const { got, origin, until } = await receiver(t)
    const { url } = await served(t, { a2a: { push: [origin] } })
    const task = (await send(url, 'SendMessage', textMessage('use buy lamp'))).results[0].task
    const taskId = task.id
    const create = (given: object, more = {}) =>
      send(url, 'CreateTaskPushNotificationConfig', { taskId, url: `${origin}/one`, ...given }, more)
    t.match((await create({ id: 'a' })).results, [{ id: 'a', taskId, url: `${origin}/one` }])
    await until((seen) => seen.length === 1)
    t.match((await create({ id: 'a', url: `${origin}/two` })).results, [{ id: 'a', url: `${origin}/two` }])
    const unnamed = (await create({})).results[0]
    t.equal((await create({})).results[0].id, unnamed.id, 'the same again is no other one')
    await until((seen) => seen.length >= 3)
    t.match((await send(url, 'GetTaskPushNotificationConfig', { taskId, id: 'a' })).results, [{ url: `${origin}/two` }])
    const bob = { caller: 'bob:run' }
    for (const method of ['List', 'Get', 'Delete', 'Create']) {
      const params = { taskId, id: 'a', ...(method === 'Create' && { url: origin }) }
      const name = `${method}TaskPushNotificationConfig${method === 'List' ? 's' : ''}`
      t.match((await send(url, name, params, bob)).error.message, /no task/, `${method} of somebody else`)
    }
    t.same((await send(url, 'DeleteTaskPushNotificationConfig', { taskId, id: 'a' })).error, undefined)
    t.same((await send(url, 'DeleteTaskPushNotificationConfig', { taskId, id: unnamed.id })).error, undefined)
    t.match((await send(url, 'GetTaskPushNotificationConfig', { taskId, id: 'a' })).error.message, /no task/)
    const told = got.length
    await rpc(url, 'CancelTask', { id: taskId })
    const next = (
      await send(url, 'SendMessage', {
        ...textMessage('use find sofa'),
        configuration: { taskPushNotificationConfig: { url: `${origin}/next` } },
      })
    ).results[0].task
    await until(() => got.some(({ task }) => task.id === next.id && stateOf(task) === 'COMPLETED'))
    t.same(
      got.slice(told).filter(({ task }) => task.id === taskId),
      [],
      'what was deleted is told no more',
    )
  })
}

t.test('what may not be told anything is refused by its field, and nothing begins', async (t) => {
  const { url: plain } = await served(t, { a2a: true })
  const { url: anywhere, done } = await served(t, { a2a: { push: true } })
  const { url: listed } = await served(t, { a2a: { push: ['https://hooks.example.com', 'http://127.0.0.1:1'] } })
  const rows: [url: string, config: object, RegExp][] = [
    [plain, { url: 'https://example.com' }, /not served here \(a2a\.push\)/],
    [anywhere, { url: 'http://93.184.216.34/' }, /is no https URL/],
    [anywhere, { url: 'https://127.0.0.1/' }, /leads to the machine's own address/],
    [anywhere, { url: 'https://[::1]:8443/' }, /leads to the machine's own address/],
    [anywhere, { url: 'https://localhost/' }, /leads to the machine's own address/],
    [anywhere, { url: 'https://2130706433/' }, /leads to the machine's own address/],
    [anywhere, { url: 'https://10.1.2.3/' }, /leads to an address of a private network/],
    [anywhere, { url: 'https://169.254.169.254/latest' }, /leads to a link-local address/],
    [anywhere, { url: 'https://[::ffff:10.0.0.1]/' }, /leads to an IPv4 address within/],
    [anywhere, { url: 'https://ann:secret@93.184.216.34/' }, /has a user name or a password/],
    [anywhere, { url: 'https://nobody.invalid/' }, /cannot be resolved/],
    [anywhere, { url: 'file:///etc/passwd' }, /taskPushNotificationConfig\.url: /],
    [anywhere, { url: 'no URL' }, /taskPushNotificationConfig\.url: /],
    [anywhere, { url: `https://example.com/${'x'.repeat(3_000)}` }, /taskPushNotificationConfig\.url: /],
    [anywhere, { url: 'https://93.184.216.34/', token: 'a\r\nx: y' }, /taskPushNotificationConfig\.token: visible/],
    [anywhere, { url: 'https://93.184.216.34/', authentication: { scheme: 'a b' } }, /authentication\.scheme: /],
    [anywhere, { url: 'https://93.184.216.34/', id: 'x'.repeat(300) }, /taskPushNotificationConfig\.id: /],
    [listed, { url: 'https://example.com/' }, /is none of those that may be told/],
    [listed, { url: 'https://hooks.example.com.evil.example/' }, /is none of those that may be told/],
    [listed, { url: 'http://hooks.example.com/' }, /is none of those that may be told/],
  ]
  for (const [url, taskPushNotificationConfig, error] of rows) {
    const sent = await rpc(url, 'SendMessage', {
      ...textMessage('use find lamp'),
      configuration: { taskPushNotificationConfig },
    })
    t.match(sent.error?.message, error, JSON.stringify(taskPushNotificationConfig).slice(0, 80))
  }
  t.same(done, [], 'nothing has begun')
  const cards = [plain, anywhere].map(async (url) => (await fetch(`${url}/.well-known/agent-card.json`)).json())
  t.match(await Promise.all(cards), [
    { capabilities: { pushNotifications: false } },
    { capabilities: { pushNotifications: true } },
  ])
  const { id: taskId } = (await rpc(listed, 'SendMessage', textMessage('use buy lamp'))).results[0].task
  const create = (id: number) =>
    rpc(listed, 'CreateTaskPushNotificationConfig', { taskId, id: `${id}`, url: 'http://127.0.0.1:1/' })
  for (let id = 0; id < 10; id++) t.equal((await create(id)).error, undefined)
  t.match((await create(10)).error.message, /up to 10/)
  await t.rejects(served(t, { a2a: { push: ['example.com'] } }), /a2a\.push/)
})

t.test('a receiver that fails is told again, one that is gone is not, and no redirect is followed', async (t) => {
  const warned: object[] = []
  const logger = { ...silent, warn: (fields: object) => warned.push(fields) }
  const poor = await receiver(t, [500])
  const { url, api: first, team } = await served(t, { a2a: { push: [poor.origin] } })
  const taskPushNotificationConfig = { url: `${poor.origin}/hook` }
  const send = () =>
    rpc(url, 'SendMessage', { ...textMessage('use find lamp'), configuration: { taskPushNotificationConfig } })
  await send()
  await poor.until((seen) => seen.includes('COMPLETED'))
  t.ok(poor.tries.length > 1 && poor.tries.every((path) => path === '/hook'))

  const gone = await receiver(t, [410])
  const open = (push: string[]) => httpApi({ teams: { shop: team }, authorize: callerOf, logger, a2a: { push } })
  const second = open([gone.origin])
  const ask = (api: typeof second, method: string, params: object) =>
    rpc('http://localhost', method, params, { fetch: (to, init) => api.fetch(new Request(to as string, init)) })
  const { results } = await ask(second, 'SendMessage', { ...textMessage('use find sofa'), configuration: { taskPushNotificationConfig: { url: gone.origin } } }) // biome-ignore format: one line
  const taskId = results[0].task.id
  while (warned.length === 0) await nextTurn()
  t.match([warned, gone.got], [[{ task: taskId, error: /410/ }], []])
  t.same((await ask(second, 'ListTaskPushNotificationConfigs', { taskId })).results[0].configs, [])

  // Each new service tries once at once; behind the seventh try it is given up.
  warned.length = 0
  const dead = await receiver(t, [302, 'hang up', 500, 404, 302, 503, 500])
  const config = { url: `${dead.origin}/hook` }
  let api = open([dead.origin])
  await second.close()
  await first.close()
  await ask(api, 'SendMessage', {
    ...textMessage('use find bed'),
    configuration: { taskPushNotificationConfig: config },
  })
  for (let tried = 1; tried < 7; tried++) {
    while (dead.tries.length < tried) await nextTurn()
    await team.flush()
    await nextTurn()
    const next = open([dead.origin])
    await api.close()
    api = next
  }
  while (warned.length === 0) await nextTurn()
  t.match(warned, [{ error: /answered with status 500/ }])
  t.same([dead.tries.every((path) => path === '/hook'), dead.got], [true, []])
  await api.close()
})

t.test('the service is killed at random moments: the end of each task is told', async (t) => {
  const { got, origin, until } = await receiver(t)
  const shop = new ServedShop(t, 'chat/served-shop', origin)
  for (let seed = 1; seed <= howMany(2, 50); seed++) {
    const dice = new Dice(seed)
    const message = {
      ...textMessage('use find lamp'),
      configuration: { returnImmediately: true, taskPushNotificationConfig: { url: `${origin}/${seed}` } },
    }
    const killed = shop.killBehind(dice.upTo(200))
    let sent: Sent | undefined
    while (!sent?.results.length) {
      sent = await rpc('http://shop', 'SendMessage', message, { fetch: shop.fetch }).catch(() => undefined)
      await nextTurn()
    }
    await killed
    const { id } = sent.results[0].task
    await until(() => got.some(({ path, task }) => path === `/${seed}` && stateOf(task) === 'COMPLETED'))
    const told = got.filter(({ path }) => path === `/${seed}`)
    t.ok(
      told.every(({ task }) => task.id === id && stateOf(task) !== 'CANCELED'),
      `seed ${seed}`,
    )
  }
})

t.test('a team that closes tells no end that is none: the next process goes on', async (t) => {
  const { got, origin, until } = await receiver(t)
  const state = { path: t.testdir() }
  const held = opening()
  const first = await served(t, { a2a: { push: [origin] }, state, pause: () => held.promise } as Any)
  const { results } = await rpc(first.url, 'SendMessage', {
    ...textMessage('use buy lamp'),
    configuration: { returnImmediately: true, taskPushNotificationConfig: { url: origin } },
  })
  const { id } = results[0].task
  await until((seen) => seen.includes('INPUT_REQUIRED'))
  await first.close()
  held.resolve()
  const store = new FileStore(state.path)
  await compactLog(store, { keep: { runs: 0, days: 30, bytes: 2 ** 30 }, logger: silent })
  await store.close()
  const second = await served(t, { a2a: { push: [origin] }, state } as Any)
  await second.team.start()
  await until((seen) => seen.at(-1) === 'INPUT_REQUIRED')
  const { metadata } = got.at(-1)!.task.status.message
  await rpc(second.url, 'SendMessage', textMessage('yes', { taskId: id, metadata }))
  await until((seen) => seen.includes('COMPLETED'))
  t.notMatch(JSON.stringify(got), 'CANCELED')
})
