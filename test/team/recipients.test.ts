/** A message to several agents is one message: in the history, in the events, and to each who gets it. */
import t from 'tap'
import { type AgentMessage, defineAgent, type RuntimeEvent } from '../../src/index.ts'
import { pluck } from '../kit/lists.ts'
import { echo, stage, type Test } from './stage.ts'

const MANY_PIECES = 200

/** Agents that keep what they get, and emit to nobody; one of them subscribes when it is asked to. */
function cast() {
  const got: (AgentMessage & { agent: string })[] = []
  const keep = (message: AgentMessage, agent: string) => void got.push({ ...message, agent, id: message.id })
  const keeper = defineAgent({
    async receive(message, context) {
      if (message.content === 'listen') return context.subscribe('news.*')
      if (message.content === 'write') await context.publish('news.today', 'rain', 'fact')
      else if (message.content === 'crash') throw new Error('broken')
      else keep(message, context.role.name)
    },
    async observe(message, context) {
      for (let n = 0; n < MANY_PIECES; n++) context.emit('.')
      await context.sleep(0)
      keep(message, context.role.name)
    },
  })
  return { got, keeper }
}

function team(t: Test) {
  const { got, keeper } = cast()
  const made = stage(t, { a: keeper, b: keeper, c: keeper })
  const events: RuntimeEvent[] = []
  made.events.subscribe((event) => void events.push(event))
  const told = () => events.flatMap((event) => (event.type === 'message' ? [event.message] : []))
  const letters = () => events.flatMap((event) => (event.type === 'message.dead' ? [event.letter] : []))
  return { team: made, got, told, letters }
}

t.test('a broadcast is one message to null', async (t) => {
  const { team: made, got, told } = team(t)
  await made.broadcast('news', 'a')
  await made.clock.advance(1)
  t.match(told(), [{ type: 'broadcast', sender: 'a', recipient: null, content: 'news' }])
  t.equal(told().length, 1)
  t.same(
    got.map(({ agent, recipient, id }) => [agent, recipient, id]).sort(),
    ['b', 'c'].map((agent) => [agent, null, told()[0]?.id]),
  )
  t.same(made.getMessageHistory(told()[0]?.runId), told())
})

t.test('a message to a list is one message to that list', async (t) => {
  const { team: made, got, told } = team(t)
  await made.sendMessage({ recipient: ['c', 'a'], content: 'hi', structuredData: { n: 1 } })
  await made.clock.advance(1)
  t.match(told(), [{ type: 'request', sender: '$user', recipient: ['c', 'a'], structuredData: { n: 1 } }])
  t.equal(told().length, 1)
  t.same(got.map(({ agent, recipient }) => [agent, recipient]).sort(), [
    ['a', ['c', 'a']],
    ['c', ['c', 'a']],
  ])
  t.same([...new Set(got.map(({ id }) => id))], [told()[0]?.id])
})

t.test('who is named twice gets it once', async (t) => {
  const { team: made, got } = team(t)
  await made.sendMessage({ recipient: ['a', 'b', 'a'], content: 'hi' })
  await made.clock.advance(1)
  t.same(got.map(({ agent }) => agent).sort(), ['a', 'b'])
})

t.test('each recipient that did not get it has a letter of its own', async (t) => {
  const { team: made, got, told, letters } = team(t)
  await t.rejects(made.sendMessage({ recipient: ['zoe', 'a', 'yan'], content: 'hi' }), { code: 'UNKNOWN_AGENT' })
  await made.clock.advance(1)
  t.same(pluck(got, 'agent'), ['a'])
  t.same(
    letters().map(({ reason, message }) => [reason, message.recipient, message.id]),
    ['zoe', 'yan'].map((name) => ['unknown_agent', name, told()[0]?.id]),
  )
  t.equal(new Set(letters().map(({ id }) => id)).size, 2)
  t.match(told(), [{ recipient: ['zoe', 'a', 'yan'] }])
})

t.test('a letter names who failed to handle it', async (t) => {
  const { team: made, letters } = team(t)
  await made.sendMessage({ recipient: ['a', 'b'], content: 'crash' })
  await made.clock.advance(1)
  t.same(
    letters()
      .map(({ reason, message }) => [reason, message.recipient])
      .sort(),
    [
      ['failed', 'a'],
      ['failed', 'b'],
    ],
  )
})

t.test('an entry of the blackboard is one message to all who subscribed', async (t) => {
  const { team: made, got, told } = team(t)
  const run = made.launch('go')
  for (const [recipient, content] of [
    ['a', 'listen'],
    ['b', 'listen'],
    ['c', 'write'],
  ] as const)
    await made.sendMessage({ recipient, content, runId: run.id, requiresResponse: true })
  await made.clock.advance(1)
  const published = told().filter(({ type }) => type === 'publish')
  t.match(published, [{ sender: 'c', recipient: null, content: 'news.today', structuredData: { value: 'rain' } }])
  t.equal(published.length, 1)
  const observed = got.filter(({ type }) => type === 'publish')
  t.same(
    observed.map(({ agent, id }) => [agent, id]).sort(),
    ['a', 'b'].map((agent) => [agent, published[0]?.id]),
  )
})

t.test('the trace has an arrow to each, with the id of the one message', async (t) => {
  const made = stage(t, { a: echo, b: echo, c: echo })
  const run = made.launch('go')
  await made.sendMessage({ recipient: ['b', 'c'], content: 'hi', runId: run.id })
  await made.clock.advance(1)
  const { messageFlow } = (await run.result).orchestrationTrace
  const arrows = messageFlow.filter(({ from, type }) => from === '$user' && type === 'request')
  const sent = (await run.result).messageHistory.filter(({ recipient }) => Array.isArray(recipient))
  t.equal(sent.length, 1)
  t.same(
    arrows.flatMap(({ to, messageId }) => (messageId === sent[0]?.id ? [to] : [])),
    ['b', 'c'],
  )
})
