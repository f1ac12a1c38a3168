/** The SDK of A2A asks a team by both bindings, follows a task, answers what it asks, and cancels. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { Role, StreamResponse, TaskState } from '@a2a-js/sdk'
import {
  ClientFactory,
  ClientFactoryOptions,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client'
import { ANN, listen } from './shop.mjs'

const fetchImpl = (url, init = {}) => fetch(url, { ...init, headers: { ...init.headers, ...ANN } })
const messageOf = (parts, more = {}) => ({
  tenant: '',
  message: {
    messageId: crypto.randomUUID(),
    contextId: '',
    taskId: '',
    role: Role.ROLE_USER,
    parts: parts.map((content) => ({ content, metadata: undefined, filename: '', mediaType: '' })),
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
    ...more,
  },
  configuration: undefined,
  metadata: undefined,
})
const say = (value, more) => messageOf([{ $case: 'text', value }], more)
const stateOf = ({ status }) => TaskState[status.state]
const answerOf = ({ artifacts }) => artifacts[0].parts[0].content.value
const of = (id) => ({ id, tenant: '', historyLength: undefined, metadata: undefined })

for (const [binding, Transport] of Object.entries({
  JSONRPC: JsonRpcTransportFactory,
  'HTTP+JSON': RestTransportFactory,
}))
  test(`the SDK speaks to a team by ${binding}`, async (t) => {
    const gate = Promise.withResolvers()
    const shop = await listen({ a2a: true, pause: (word) => (word === 'slowly' ? gate.promise : undefined) })
    t.after(shop.close)
    const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
      transports: [new Transport({ fetchImpl })],
      cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
      preferredTransports: [binding],
    })
    const client = await new ClientFactory(options).createFromUrl(shop.url)
    assert.equal((await client.getAgentCard()).name, 'shop')
    const done = await client.sendMessage(say('use find lamp'))
    assert.deepEqual([stateOf(done), answerOf(done)], ['TASK_STATE_COMPLETED', 'result: {"done":"lamp"}'])
    const words = []
    for await (const { payload } of client.sendMessageStream(say('say hello world')))
      if (payload.$case === 'artifactUpdate') words.push(payload.value.artifact.parts[0].content.value)
    assert.equal(words.at(-1).trim(), 'hello world')
    const asked = await client.sendMessage(say('use buy lamp'))
    assert.equal(stateOf(asked), 'TASK_STATE_INPUT_REQUIRED')
    const [, code] = /"yes (\w+)"/.exec(asked.status.message.parts[0].content.value)
    const bought = await client.sendMessage(say(`yes ${code}`, { taskId: asked.id, contextId: asked.contextId }))
    assert.deepEqual([stateOf(bought), answerOf(bought)], ['TASK_STATE_COMPLETED', 'result: {"done":"lamp"}'])
    assert.deepEqual(shop.done, ['find lamp', 'buy lamp'])
    const { questionId, digest } = (await client.sendMessage(say('use buy sofa'))).status.message.metadata
    assert.ok(questionId && digest)
    const now = {
      ...say('say slowly'),
      configuration: { returnImmediately: true, acceptedOutputModes: [], taskPushNotificationConfig: undefined },
    }
    const slow = await client.sendMessage(now)
    const followed = (async () => {
      const states = []
      for await (const { payload } of client.resubscribeTask(of(slow.id)))
        if (payload.value.status) states.push(stateOf(payload.value))
      return states.at(-1)
    })()
    assert.equal(stateOf(await client.cancelTask(of(slow.id))), 'TASK_STATE_CANCELED')
    assert.equal(await followed, 'TASK_STATE_CANCELED')
    gate.resolve()
    assert.equal(
      (await client.listTasks({ tenant: '', contextId: '', pageToken: '', pageSize: 2, status: 0 })).totalSize,
      5,
    )
    await assert.rejects(client.getTask(of('none')), { name: 'TaskNotFoundError' })
    await assert.rejects(client.cancelTask(of(done.id)), { name: 'TaskNotCancelableError' })
    await assert.rejects(client.sendMessage(say('x', { taskId: done.id })), { name: 'UnsupportedOperationError' })
    await assert.rejects(
      async () => {
        for await (const _ of client.resubscribeTask(of(done.id)));
      },
      { name: 'UnsupportedOperationError' },
    )
  })

for (const [binding, Transport] of Object.entries({
  JSONRPC: JsonRpcTransportFactory,
  'HTTP+JSON': RestTransportFactory,
}))
  test(`the SDK has a URL told how its task stands, by ${binding}`, async (t) => {
    const told = []
    const over = Promise.withResolvers()
    const hook = createServer(async (request, response) => {
      const { payload } = StreamResponse.fromJSON(JSON.parse((await request.toArray()).join('')))
      told.push([request.headers['x-a2a-notification-token'], payload.$case, stateOf(payload.value)])
      response.end()
      if (stateOf(payload.value) === 'TASK_STATE_COMPLETED') over.resolve(payload.value)
    }).listen(0, '127.0.0.1')
    await once(hook, 'listening')
    const origin = `http://127.0.0.1:${hook.address().port}`
    const gate = Promise.withResolvers()
    const pause = (word) => (word === 'slowly' ? gate.promise : undefined)
    const shop = await listen({ a2a: { push: [origin] }, pause })
    t.after(() => Promise.all([shop.close(), hook.close()]))
    const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
      transports: [new Transport({ fetchImpl })],
      cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
      preferredTransports: [binding],
    })
    const client = await new ClientFactory(options).createFromUrl(shop.url)
    assert.equal((await client.getAgentCard()).capabilities.pushNotifications, true)
    const begun = say('say slowly done')
    begun.configuration = { acceptedOutputModes: [], returnImmediately: true }
    const { id: taskId } = await client.sendMessage(begun)
    const config = { tenant: '', id: 'mine', taskId, url: `${origin}/hook`, token: 'opaque', authentication: undefined }
    assert.equal((await client.createTaskPushNotificationConfig(config)).id, 'mine')
    assert.equal((await client.getTaskPushNotificationConfig({ tenant: '', taskId, id: 'mine' })).url, config.url)
    const other = { ...config, id: 'other' }
    await client.createTaskPushNotificationConfig(other)
    await client.deleteTaskPushNotificationConfig({ tenant: '', taskId, id: 'other' })
    const listed = { tenant: '', taskId, pageSize: 0, pageToken: '' }
    const { configs } = await client.listTaskPushNotificationConfig(listed)
    assert.deepEqual(
      configs.map(({ id }) => id),
      ['mine'],
    )
    gate.resolve()
    assert.equal(answerOf(await over.promise).trim(), 'slowly done')
    assert.deepEqual([told.at(-1)[0], told.at(-1)[1]], ['opaque', 'task'])
  })
